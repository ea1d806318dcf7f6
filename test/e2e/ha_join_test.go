//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

// TestS004_ControlPlanesJoinWithLentCertificates looks at the shared cluster: two of its control planes got the
// certificates out of the cluster, by the key.
func TestS004_ControlPlanesJoinWithLentCertificates(t *testing.T) {
	s := high(t)
	vote(t, s.planes...)
	lent(t, s.cp, keyOf(t, s.initial.Stdout))
	for _, n := range s.planes {
		t.Run(n.Name(), func(t *testing.T) { whole(t, s, n) })
	}
	first, joined := filesOf(t, s.cp).names(), filesOf(t, s.planes[1]).names()
	// As upstream has it: what was lent and is public may be read by all.
	if i := slices.Index(first, "/etc/kubernetes/pki/sa.pub 600"); i >= 0 {
		first[i] = "/etc/kubernetes/pki/sa.pub 644"
	}
	if !slices.Equal(joined, first) {
		t.Errorf("a joined control plane has the files%s\nbut the first one%s", lines("%s", joined), lines("%s", first))
	}
}

// whole checks one control plane by itself: its marks, its files, its API server.
func whole(t *testing.T, s *trio, n *nodes.Node) {
	t.Helper()
	marked(t, n)
	if n != s.cp {
		inherited(t, s.cp, n)
	}
	// A kubelet tells of its static Pods a moment after its node is Ready.
	await(t, "the control plane of "+n.Name(), patience, func() error {
		_, err := n.Kubectl(t.Context(), "--namespace=kube-system", "wait", "--for=condition=Ready", "--timeout=10s", "pod",
			"--selector=tier=control-plane", "--field-selector=spec.nodeName="+n.Name())
		return err
	})
	awaitAPI(t, n, "")
	own := "https://" + n.Address() + ":6443"
	for file, server := range map[string]string{
		"admin.conf": "https://" + s.balancer.Endpoint(), "kubelet.conf": own, "controller-manager.conf": own, "scheduler.conf": own,
	} {
		if text := read(t, n, "/etc/kubernetes/"+file); !strings.Contains(text, "server: "+server+"\n") {
			t.Errorf("%s of %s does not lead to %s", file, n.Name(), server)
		}
	}
	for file, arguments := range map[string][]string{
		"kube-apiserver.yaml": {"--advertise-address=" + n.Address(), "--etcd-servers=https://127.0.0.1:2379"},
		"etcd.yaml": {"--name=" + n.Name(), "--initial-advertise-peer-urls=https://" + n.Address() + ":2380",
			"--listen-client-urls=https://127.0.0.1:2379,https://" + n.Address() + ":2379", n.Name() + "=https://" + n.Address() + ":2380"},
	} {
		for _, argument := range arguments {
			if text := read(t, n, "/etc/kubernetes/manifests/"+file); !strings.Contains(text, argument) {
				t.Errorf("%s of %s lacks %s:\n%s", file, n.Name(), argument, text)
			}
		}
	}
}

// shared are the files that all control planes have the same of.
var shared = []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub", "sa.key", "etcd/ca.crt", "etcd/ca.key"}

func inherited(t *testing.T, from, n *nodes.Node) {
	t.Helper()
	for _, file := range shared {
		if name := "/etc/kubernetes/pki/" + file; !same(t, from, n, name) {
			t.Errorf("%s has another %s than %s", n.Name(), name, from.Name())
		}
	}
	for _, file := range []string{"apiserver.key", "etcd/server.key", "etcd/peer.key", "front-proxy-client.key"} {
		if name := "/etc/kubernetes/pki/" + file; same(t, from, n, name) {
			t.Errorf("%s has the same %s as %s", n.Name(), name, from.Name())
		}
	}
}

func read(t *testing.T, n *nodes.Node, name string) string {
	t.Helper()
	data, err := n.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestS001_ThreeControlPlanesAndTwoWorkers(t *testing.T) {
	s := high(t)
	// Whether a node is Ready, and the taints of one that is not, are told from program to program.
	await(t, "five nodes that are Ready, three of them with a taint", patience, func() error {
		var taints, ready int
		for _, n := range get[corev1.NodeList](t, s.cp, "nodes").Items {
			taints += len(n.Spec.Taints)
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if taints != 3 || ready != 5 {
			return fmt.Errorf("%d are Ready, and there are %d taints", ready, taints)
		}
		return nil
	})
	for _, n := range s.workers {
		if text := read(t, n, "/etc/kubernetes/kubelet.conf"); !strings.Contains(text, "server: https://"+s.balancer.Endpoint()+"\n") {
			t.Errorf("%s does not go through the load balancer:\n%s", n.Name(), text)
		}
	}
	if text := kubectl(t, s.cp, "cluster-info"); !strings.Contains(text, s.balancer.Endpoint()) {
		t.Errorf("cluster-info says:\n%s", text)
	}
}

// TestS032_AllGoesOnWithoutTheEmergencyFile relies on the shared cluster, whose super-admin.conf was deleted after init.
func TestS032_AllGoesOnWithoutTheEmergencyFile(t *testing.T) {
	s := high(t)
	if _, err := s.cp.ReadFile("/etc/kubernetes/super-admin.conf"); err == nil {
		t.Error("super-admin.conf has come back")
	}
	token := run(t, s.cp, ours, "token", "create", "--ttl=1h")
	if list := run(t, s.planes[2], ours, "token", "list"); !strings.Contains(list, token) {
		t.Errorf("token %s is not among:\n%s", token, list)
	}
}

func TestS033_OnlyTheFirstHasAnEmergencyFile(t *testing.T) {
	s := high(t)
	for _, n := range s.planes[1:] {
		if _, err := n.ReadFile("/etc/kubernetes/super-admin.conf"); err == nil {
			t.Errorf("%s has a super-admin.conf", n.Name())
		}
	}
}

// TestS003_AControlPlaneJoinsWithCopiedCertificates lets one join that knows no key, and leave again.
func TestS003_AControlPlaneJoinsWithCopiedCertificates(t *testing.T) {
	s := high(t)
	n := add(t, s.Cluster, "by-hand")
	before := fingerprint(t, n)
	for _, file := range shared {
		if err := n.WriteFile("/etc/kubernetes/pki/"+file, []byte(read(t, s.cp, "/etc/kubernetes/pki/"+file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, n, without(planeCommand(ours, s), "--certificate-key")...)
	admit(t, s, n)
	run(t, n, ours, "reset", "--force")
	clean(t, n, before)
	dismiss(t, s, ours, n)
}

// TestS151_AControlPlaneLeavesAndComesBack resets one while the API is asked all the time, and lets it come back.
func TestS151_AControlPlaneLeavesAndComesBack(t *testing.T) {
	s := high(t)
	n := s.planes[2]
	lead(t, s, n)
	stop := ask(t, s)
	dismiss(t, s, ours, n)
	stop()
	n, err := s.AddAt(t.Context(), n.Name(), n.Address())
	if err != nil {
		t.Fatal(err)
	}
	run(t, n, planeCommand(ours, s)...)
	admit(t, s, n)
}

// TestS173_TwoControlPlanesJoinAtOnce looks at how the shared cluster came to be. A full run makes twenty further ones, or
// as many as KUBEADM_E2E_ROUNDS says.
func TestS173_TwoControlPlanesJoinAtOnce(t *testing.T) {
	s := high(t)
	s.times(t)
	vote(t, s.planes...)
	if !lab.full {
		return
	}
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("KUBEADM_E2E_ROUNDS"), "20"))
	if err != nil {
		t.Fatalf("KUBEADM_E2E_ROUNDS: %v", err)
	}
	for i := range rounds {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			s := &trio{site: site{Cluster: newCluster(t)}}
			if err := s.begin(t.Context(), 3, 0, nodes.Config{}); err != nil {
				t.Fatal(err)
			}
			if err := s.enter(t.Context(), s.planes[1:]...); err != nil {
				t.Fatal(err)
			}
			vote(t, s.planes...)
			s.times(t)
		})
	}
}

// TestS174_NodesJoinWhileEtcdRestarts lets two control planes and a worker join at once and kills the leader's etcd
// meanwhile, each time a second later.
func TestS174_NodesJoinWhileEtcdRestarts(t *testing.T) {
	if !lab.full {
		t.Skip("takes minutes: make e2e-full")
	}
	for i := range 5 {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			s := &trio{site: site{Cluster: newCluster(t)}}
			if err := s.begin(t.Context(), 3, 1, nodes.Config{}); err != nil {
				t.Fatal(err)
			}
			killed := make(chan error, 1)
			time.AfterFunc(time.Duration(2*i+1)*time.Second, func() {
				// By its number, as all processes are to be ended.
				_, err := s.cp.Run(t.Context(), "sh", "-ec", "kill -9 $(pgrep --exact --oldest etcd)")
				killed <- err
			})
			if err := s.enter(t.Context(), append(s.planes[1:], s.worker)...); err != nil {
				t.Error(err)
			}
			if err := <-killed; err != nil {
				t.Error(err)
			}
			s.times(t)
			vote(t, s.planes...)
			if err := settle(t.Context(), s.cp, 4); err != nil {
				t.Error(err)
			}
		})
	}
}

var startedAnew = regexp.MustCompile(`^\[etcd-join\] done: remove the containers of Pod etcd`)

// unhurried leaves out of what a join says that it starts etcd anew: whether it has to is a matter of moments.
func unhurried(output string) string {
	var all []string
	for line := range strings.Lines(output) {
		if !startedAnew.MatchString(line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "")
}

// TestS012_DryRunOfControlPlaneJoinWithoutACluster expects the same as of a real join of a machine of that name and address.
func TestS012_DryRunOfControlPlaneJoinWithoutACluster(t *testing.T) {
	s := high(t)
	n, err := newCluster(t).AddAt(t.Context(), s.planes[1].Name(), s.planes[1].Address())
	if err != nil {
		t.Fatal(err)
	}
	result := untouched(t, n, []string{"KUBEADM_JOIN_DRYRUN_DIR=/tmp/dry"}, ours, "join", "--dry-run", "10.77.0.99:6443",
		"--token=abcdef.0123456789abcdef", "--discovery-token-unsafe-skip-ca-verification",
		"--control-plane", "--certificate-key="+strings.Repeat("1f", 32), "--ignore-preflight-errors="+nodes.IgnoredPreflight)
	truth(t, unhurried(result.Stdout), unhurried(s.entered[n.Name()].Stdout))
	confidential(t, result.Stdout)
}

// TestS017_DryRunOfControlPlaneJoinTellsTheTruth compares with the join of another machine.
func TestS017_DryRunOfControlPlaneJoinTellsTheTruth(t *testing.T) {
	s := high(t)
	n, like := add(t, s.Cluster, "dry-plane"), s.planes[1]
	before := etcdctl(t, s.cp, "get", "--prefix", "--keys-only", "/registry/minions")
	result := untouched(t, n, []string{"KUBEADM_JOIN_DRYRUN_DIR=/tmp/dry"}, planeCommand(ours, s, "--dry-run")...)
	said := strings.NewReplacer(n.Name(), like.Name(), n.Address(), like.Address()).Replace(result.Stdout)
	truth(t, unhurried(said), unhurried(s.entered[like.Name()].Stdout))
	confidential(t, result.Stdout)
	if after := etcdctl(t, s.cp, "get", "--prefix", "--keys-only", "/registry/minions"); after != before {
		t.Errorf("the dry run changed the nodes of the cluster from\n%s\nto\n%s", before, after)
	}
	vote(t, s.planes...)
	bury(t, s, n)
}
