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

// tooLong is for how long three control planes may give no answer when one of them goes. It takes a few seconds on a machine
// that is not busy; without two of them that go on it takes for ever.
const tooLong = time.Minute

// ask asks the API server through the load balancer ten times a second, with a connection of its own each time, until stop
// is called and one more answer has come. Then stop checks that there was never too long none.
func ask(t *testing.T, s *trio) (stop func()) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // Only whether somebody answers is asked.
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
		for last, ending := time.Now(), false; longest <= tooLong && t.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
			select {
			case <-over:
				ending = true // What is asked from now on was asked after all that the test has done.
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
		t.Logf("of %d questions to the API none was answered for %s at worst", asked, longest.Round(10*time.Millisecond))
		if longest > tooLong {
			t.Errorf("for more than %s the API gave no answer: %v", tooLong, failed)
		}
	}
}

// TestS090_TheAPIOutlivesAControlPlane cuts the power of the one that leads etcd, works with the cluster, and lets it come
// back (S155).
func TestS090_TheAPIOutlivesAControlPlane(t *testing.T) {
	s := high(t)
	lost := s.planes[1]
	lead(t, s, lost)
	stop := ask(t, s)
	if err := lost.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a new leader", patience, func() error {
		_, err := s.cp.Kubectl(t.Context(), "create", "configmap", "written-by-two")
		if err != nil && strings.Contains(err.Error(), "already exists") {
			return nil // Only the answer was lost.
		}
		return err
	})
	n := add(t, s.Cluster, "newcomer")
	run(t, n, joinCommand(ours, &s.site)...)
	awaitMember(t, &s.site, n)
	stop()
	bury(t, s, n)
	if err := lost.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	vote(t, s.planes...)
	awaitReady(t, &s.site, lost)
	await(t, "the API server of "+lost.Name(), patience, func() error {
		_, err := lost.Kubectl(t.Context(), "--server=https://"+lost.Address()+":6443", "get", "configmap", "written-by-two")
		return err
	})
	kubectl(t, s.cp, "delete", "--ignore-not-found", "configmap", "written-by-two")
}

// TestS175_ADeadControlPlaneIsReplaced puts a new machine in the place of one that was never reset, with its name and its
// address, and in a full run one with its name alone and one with its address alone.
func TestS175_ADeadControlPlaneIsReplaced(t *testing.T) {
	s := high(t)
	replace(t, s, func(dead *nodes.Node) (string, string) { return dead.Name(), dead.Address() })
	if !lab.full {
		return
	}
	replace(t, s, func(dead *nodes.Node) (string, string) { return dead.Name(), "10.77.0.200" })
	replace(t, s, func(dead *nodes.Node) (string, string) { return "cp4", dead.Address() })
	replace(t, s, func(*nodes.Node) (string, string) { return "cp3", "10.77.0.13" })
}

// replace lets the last control plane die and another machine take its place, which first is told what to do, since a
// member of etcd is never removed unasked.
func replace(t *testing.T, s *trio, like func(dead *nodes.Node) (name, address string)) {
	t.Helper()
	dead := lose(t, s)
	name, address := like(dead)
	n, err := s.AddAt(t.Context(), name, address)
	if err != nil {
		t.Fatal(err)
	}
	result := refused(t, n, []string{dead.Name(), "--replace-member="}, planeCommand(ours, s)...)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 6), "\n"))
	if list := membersOf(t, s.cp); len(list) != len(s.planes)+1 {
		t.Errorf("a join that was refused changed the members of etcd to %v", list)
	}
	run(t, n, planeCommand(ours, s, consent(t, result.Stderr))...)
	admit(t, s, n)
}

// lose lets the last control plane die: it is no node any more, but a member of etcd.
func lose(t *testing.T, s *trio) *nodes.Node {
	t.Helper()
	dead := s.planes[len(s.planes)-1]
	bury(t, s, dead)
	seat(t, s, s.planes[:len(s.planes)-1]...)
	quorum(t, s.cp)
	return dead
}

// consent finds the flag that an error tells the user to give.
func consent(t *testing.T, text string) string {
	t.Helper()
	for _, word := range strings.Fields(text) {
		if word = strings.Trim(word, "`'\".,;:()"); strings.HasPrefix(word, "--replace-member=") {
			return word
		}
	}
	t.Fatalf("no flag --replace-member is in:\n%s", text)
	return ""
}

// TestS176_ADeadControlPlaneIsReplacedByAnother lets one join that has neither name nor address of the dead one: etcd takes
// nobody while a voter is away, so that the user must give that up. One that is alive is not removed.
func TestS176_ADeadControlPlaneIsReplacedByAnother(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := high(t)
	dead := lose(t, s)
	n, err := s.AddAt(t.Context(), "cp9", "10.77.0.209")
	if err != nil {
		t.Fatal(err)
	}
	alive := "--replace-member=" + s.planes[1].Name()
	for more, words := range map[string][]string{
		alive:  {alive, "answers", "kubeadm reset"},
		"-v=0": {dead.Name(), "--replace-member=" + dead.Name()},
	} {
		result := refused(t, n, words, planeCommand(ours, s, more)...)
		t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 6), "\n"))
		if list := membersOf(t, s.cp); len(list) != 3 {
			t.Errorf("a join that was refused changed the members of etcd to %v", list)
		}
	}
	run(t, n, planeCommand(ours, s, "--replace-member="+dead.Name())...)
	admit(t, s, n)
	dismiss(t, s, ours, n)
	n, err = s.AddAt(t.Context(), dead.Name(), dead.Address())
	if err != nil {
		t.Fatal(err)
	}
	run(t, n, planeCommand(ours, s)...)
	admit(t, s, n)
}

// TestS176_WithoutAQuorumNothingIsReplaced has two control planes of which one is dead: etcd takes no change, and the
// third machine must be told so.
func TestS176_WithoutAQuorumNothingIsReplaced(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := &trio{site: site{Cluster: newCluster(t)}}
	if err := s.begin(t.Context(), 2, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.enter(t.Context(), s.planes[1]); err != nil {
		t.Fatal(err)
	}
	vote(t, s.planes...)
	if err := s.planes[1].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := add(t, s.Cluster, "cp3")
	config := joinConfig(s.balancer.Endpoint(), flagOf(t, s.command, "--token"), flagOf(t, s.command, "--discovery-token-ca-cert-hash"))
	write(t, n, joinFile, config+"timeouts: {discovery: 1m, kubernetesAPICall: 1m, etcdAPICall: 1m}\n"+
		"controlPlane:\n  certificateKey: "+flagOf(t, s.invitation, "--certificate-key")+"\n")
	for _, more := range []string{"-v=0", "--replace-member=cp2"} {
		result := refused(t, n, []string{s.balancer.Endpoint(), "etcd has lost its quorum", "more than half"}, ours, "join", "--config", joinFile, more)
		if !strings.Contains(result.Stdout, "etcd has lost its quorum") {
			t.Errorf("while it waited it only said:\n%s", result.Stdout)
		}
		t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 6), "\n"))
	}
	if err := s.planes[1].Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	vote(t, s.planes...)
	awaitAPI(t, s.cp, "")
	run(t, n, planeCommand(ours, s)...)
	admit(t, s, n)
}

// TestS086_ALearnerThatIsNeverReached leaves one behind, as a join does whose machine dies at the wrong moment. Etcd takes
// no second learner, so the next join must be told whom to replace.
func TestS086_ALearnerThatIsNeverReached(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := high(t)
	// Etcd takes nobody while its members have not been in touch for some seconds.
	await(t, "etcd to take a learner", patience, func() error {
		_, err := s.cp.Run(t.Context(), asEtcd("member", "add", "lost", "--learner", "--peer-urls=https://10.77.0.249:2380")...)
		if slices.Contains(seats(t, s.cp), " learns at https://10.77.0.249:2380") {
			return nil
		}
		return cmp.Or(err, errors.New("it is no member"))
	})
	n := add(t, s.Cluster, "after-learner")
	result := refused(t, n, []string{"10.77.0.249", "--replace-member="}, planeCommand(ours, s)...)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 6), "\n"))
	run(t, n, planeCommand(ours, s, consent(t, result.Stderr))...)
	admit(t, s, n)
	dismiss(t, s, ours, n)
}
