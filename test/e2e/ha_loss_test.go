//go:build e2e

package e2e

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// maxAPIOutage is how long the API may be unavailable when one of three control planes stops. It
// takes a few seconds on an idle machine; without a quorum it does not end.
const maxAPIOutage = time.Minute

// monitorAPI calls the API through the load balancer ten times a second, each time by a new
// connection, until stop is called and one more request succeeds. Then stop checks that no outage
// exceeded maxAPIOutage.
func monitorAPI(t *testing.T, s *haCluster) (stop func()) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // Only availability is checked.
		DialContext:       s.Dial,
	}}
	answered := func() error {
		response, err := client.Get("https://" + s.balancer.Endpoint() + "/readyz")
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return err
	}
	var longest time.Duration
	var failed error
	asked, over, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for last, ending := time.Now(), false; longest <= maxAPIOutage &&
			t.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
			select {
			case <-over:
				ending = true // The next request follows everything that the test has done.
			default:
			}
			err := answered()
			asked++
			longest = max(longest, time.Since(last))
			switch {
			case err != nil:
				failed = err
			case ending:
				return
			default:
				last = time.Now()
			}
		}
	}()
	return func() {
		t.Helper()
		close(over)
		<-done
		t.Logf("%d requests to the API; longest outage %s", asked,
			longest.Round(10*time.Millisecond))
		if longest > maxAPIOutage {
			t.Errorf("the API was unavailable for more than %s: %v", maxAPIOutage, failed)
		}
	}
}

// TestAPISurvivesLossOfControlPlane powers off the control plane that leads etcd, uses the
// cluster, and boots it again.
func TestAPISurvivesLossOfControlPlane(t *testing.T) {
	s := sharedHACluster(t)
	lost := s.controlPlanes[1]
	moveLeader(t, s, lost)
	stop := monitorAPI(t, s)
	if err := lost.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a new leader", waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "create", "configmap", "written-by-two")
		if err != nil && strings.Contains(err.Error(), "already exists") {
			return nil // Only the response was lost.
		}
		return err
	})
	n := addNode(t, s.Cluster, "newcomer")
	runCommand(t, n, workerJoinCommand(kubeadm, &s.testCluster)...)
	awaitJoined(t, &s.testCluster, n)
	stop()
	destroyNode(t, s, n)
	if err := lost.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkVotingMembers(t, s.controlPlanes...)
	awaitReady(t, &s.testCluster, lost)
	await(t, "the API server of "+lost.Name(), waitLimit, func() error {
		_, err := lost.Kubectl(t.Context(), "--server=https://"+lost.Address()+":6443", "get",
			"configmap", "written-by-two")
		return err
	})
	kubectl(t, s.cp, "delete", "--ignore-not-found", "configmap", "written-by-two")
}

// TestReplaceDeadControlPlane replaces a control plane that was never reset by a machine of the
// same name and address, and in a full run by one with the name only and one with the address
// only.
func TestReplaceDeadControlPlane(t *testing.T) {
	s := sharedHACluster(t)
	replaceDeadControlPlane(t, s,
		func(dead *nodes.Node) (string, string) { return dead.Name(), dead.Address() })
	if !suite.full {
		return
	}
	replaceDeadControlPlane(t, s,
		func(dead *nodes.Node) (string, string) { return dead.Name(), "10.77.0.200" })
	replaceDeadControlPlane(t, s,
		func(dead *nodes.Node) (string, string) { return "cp4", dead.Address() })
	replaceDeadControlPlane(t, s, func(*nodes.Node) (string, string) { return "cp3", "10.77.0.13" })
}

// replaceDeadControlPlane stops the last control plane and joins another machine in its place. The
// first join fails and names the flag to set, since join removes no etcd member without consent.
func replaceDeadControlPlane(t *testing.T, s *haCluster,
	like func(dead *nodes.Node) (name, address string)) {
	t.Helper()
	dead := loseControlPlane(t, s)
	name, address := like(dead)
	n, err := s.AddAt(t.Context(), name, address)
	if err != nil {
		t.Fatal(err)
	}
	result := checkFails(t, n, []string{dead.Name(), "--replace-member="},
		controlPlaneJoinCommand(kubeadm, s)...)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 6), "\n"))
	if list := listMembers(t, s.cp); len(list) != len(s.controlPlanes)+1 {
		t.Errorf("the failed join changed the etcd members to %v", list)
	}
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s,
		findReplaceMemberFlag(t, result.Stderr))...)
	addControlPlane(t, s, n)
}

// loseControlPlane destroys the last control plane: its Node is deleted, its etcd member remains.
func loseControlPlane(t *testing.T, s *haCluster) *nodes.Node {
	t.Helper()
	dead := s.controlPlanes[len(s.controlPlanes)-1]
	destroyNode(t, s, dead)
	setControlPlanes(t, s, s.controlPlanes[:len(s.controlPlanes)-1]...)
	awaitQuorum(t, s.cp)
	return dead
}

// findReplaceMemberFlag finds the flag that an error tells the user to set.
func findReplaceMemberFlag(t *testing.T, text string) string {
	t.Helper()
	for _, word := range strings.Fields(text) {
		if word = strings.Trim(word, "`'\".,;:()"); strings.HasPrefix(word, "--replace-member=") {
			return word
		}
	}
	t.Fatalf("no flag --replace-member is in:\n%s", text)
	return ""
}

// TestReplaceDeadControlPlaneByAnother joins a machine with neither the name nor the address of the
// dead one: etcd adds no member while a voter is unreachable, so the user must name the member to
// replace. A healthy member is not removed.
func TestReplaceDeadControlPlaneByAnother(t *testing.T) {
	inFullRun(t, "a minute")
	s := sharedHACluster(t)
	dead := loseControlPlane(t, s)
	n, err := s.AddAt(t.Context(), "cp9", "10.77.0.209")
	if err != nil {
		t.Fatal(err)
	}
	alive := "--replace-member=" + s.controlPlanes[1].Name()
	for more, words := range map[string][]string{
		alive:  {alive, "is reachable", "kubeadm reset"},
		"-v=0": {dead.Name(), "--replace-member=" + dead.Name()},
	} {
		result := checkFails(t, n, words, controlPlaneJoinCommand(kubeadm, s, more)...)
		t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
			strings.Join(lastLines(result.Stderr, 6), "\n"))
		if list := listMembers(t, s.cp); len(list) != 3 {
			t.Errorf("the failed join changed the etcd members to %v", list)
		}
	}
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s, "--replace-member="+dead.Name())...)
	addControlPlane(t, s, n)
	resetAndDestroy(t, s, kubeadm, n)
	n, err = s.AddAt(t.Context(), dead.Name(), dead.Address())
	if err != nil {
		t.Fatal(err)
	}
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s)...)
	addControlPlane(t, s, n)
}

// TestReplaceWithoutQuorumIsRefused has two control planes of which one is down: etcd has no
// quorum, and the join of a third must say so.
func TestReplaceWithoutQuorumIsRefused(t *testing.T) {
	inFullRun(t, "a minute")
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createFirst(t.Context(), 2, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.joinNodes(t.Context(), s.controlPlanes[1]); err != nil {
		t.Fatal(err)
	}
	checkVotingMembers(t, s.controlPlanes...)
	if err := s.controlPlanes[1].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := addNode(t, s.Cluster, "cp3")
	config := joinConfig(s.balancer.Endpoint(), flagValue(t, s.workerJoin, "--token"),
		flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash"))
	writeFile(t, n, joinConfigFile,
		config+"timeouts: {discovery: 1m, kubernetesAPICall: 1m, etcdAPICall: 1m}\n"+
			"controlPlane:\n  certificateKey: "+
			flagValue(t, s.controlPlaneJoin, "--certificate-key")+"\n")
	for _, more := range []string{"-v=0", "--replace-member=cp2"} {
		result := checkFails(t, n,
			[]string{s.balancer.Endpoint(), "etcd has lost its quorum", "more than half"}, kubeadm,
			"join", "--config", joinConfigFile, more)
		if !strings.Contains(result.Stdout, "etcd has lost its quorum") {
			t.Errorf("while it waited it only printed:\n%s", result.Stdout)
		}
		t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
			strings.Join(lastLines(result.Stderr, 6), "\n"))
	}
	if err := s.controlPlanes[1].Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkVotingMembers(t, s.controlPlanes...)
	awaitAPI(t, s.cp, "")
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s)...)
	addControlPlane(t, s, n)
}

// TestLearnerThatNeverStarts adds a learner that never starts, as a join does whose machine
// crashes. etcd allows one learner, so the next join needs the flag that names the member to
// replace.
func TestLearnerThatNeverStarts(t *testing.T) {
	inFullRun(t, "a minute")
	s := sharedHACluster(t)
	// etcd adds no member until all have been connected for some seconds.
	await(t, "etcd to add a learner", waitLimit, func() error {
		_, err := s.cp.Run(t.Context(),
			etcdctlCommand("member", "add", "lost", "--learner",
				"--peer-urls=https://10.77.0.249:2380")...)
		if slices.Contains(describeMembers(t, s.cp), " learns at https://10.77.0.249:2380") {
			return nil
		}
		return cmp.Or(err, errors.New("it is not a member"))
	})
	n := addNode(t, s.Cluster, "after-learner")
	result := checkFails(t, n, []string{"10.77.0.249", "--replace-member="},
		controlPlaneJoinCommand(kubeadm, s)...)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 6), "\n"))
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s,
		findReplaceMemberFlag(t, result.Stderr))...)
	addControlPlane(t, s, n)
	resetAndDestroy(t, s, kubeadm, n)
}
