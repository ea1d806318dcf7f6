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

// TestControlPlaneJoinWithUploadedCertificates checks the shared cluster: two of its control
// planes downloaded the certificates with the certificate key.
func TestControlPlaneJoinWithUploadedCertificates(t *testing.T) {
	s := sharedHACluster(t)
	checkVotingMembers(t, s.controlPlanes...)
	checkUploadedCertificates(t, s.cp, certificateKeyIn(t, s.initResult.Stdout))
	for _, n := range s.controlPlanes {
		t.Run(n.Name(), func(t *testing.T) { checkControlPlane(t, s, n) })
	}
	first, joined := listFiles(t, s.cp).list(), listFiles(t, s.controlPlanes[1]).list()
	// As upstream does it: downloaded public files are readable by all users.
	if i := slices.Index(first, "/etc/kubernetes/pki/sa.pub 600"); i >= 0 {
		first[i] = "/etc/kubernetes/pki/sa.pub 644"
	}
	if !slices.Equal(joined, first) {
		t.Errorf("a joined control plane has the files%s\nbut the first one%s", indentLines(joined),
			indentLines(first))
	}
}

// checkControlPlane checks one control plane: its labels and taint, its files, its API server.
func checkControlPlane(t *testing.T, s *haCluster, n *nodes.Node) {
	t.Helper()
	checkControlPlaneNode(t, n)
	if n != s.cp {
		checkSharedFiles(t, s.cp, n)
	}
	// A kubelet creates mirror Pods some time after its Node is Ready.
	await(t, "the control plane of "+n.Name(), waitLimit, func() error {
		_, err := n.Kubectl(t.Context(), "--namespace=kube-system", "wait", "--for=condition=Ready",
			"--timeout=10s", "pod",
			"--selector=tier=control-plane", "--field-selector=spec.nodeName="+n.Name())
		return err
	})
	awaitAPI(t, n, "")
	own := "https://" + n.Address() + ":6443"
	for file, server := range map[string]string{
		"admin.conf": "https://" + s.balancer.Endpoint(), "kubelet.conf": own,
		"controller-manager.conf": own, "scheduler.conf": own,
	} {
		if text := readFile(t, n, "/etc/kubernetes/"+file); !strings.Contains(text,
			"server: "+server+"\n") {
			t.Errorf("%s of %s does not name the server %s", file, n.Name(), server)
		}
	}
	for file, arguments := range map[string][]string{
		"kube-apiserver.yaml": {"--advertise-address=" + n.Address(),
			"--etcd-servers=https://127.0.0.1:2379"},
		"etcd.yaml": {"--name=" + n.Name(), "--initial-advertise-peer-urls=https://" + n.Address() +
			":2380",
			"--listen-client-urls=https://127.0.0.1:2379,https://" + n.Address() + ":2379",
			n.Name() + "=https://" + n.Address() + ":2380"},
	} {
		for _, argument := range arguments {
			if text := readFile(t, n, "/etc/kubernetes/manifests/"+file); !strings.Contains(text,
				argument) {
				t.Errorf("%s of %s lacks %s:\n%s", file, n.Name(), argument, text)
			}
		}
	}
}

// sharedFiles are the files, below the certificate directory, that all control planes share.
var sharedFiles = []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub",
	"sa.key", "etcd/ca.crt", "etcd/ca.key"}

// checkSharedFiles checks that a control plane has the same shared files as another one, and keys
// of its own for its other certificates.
func checkSharedFiles(t *testing.T, from, n *nodes.Node) {
	t.Helper()
	for _, file := range sharedFiles {
		if name := "/etc/kubernetes/pki/" + file; !isSameFile(t, from, n, name) {
			t.Errorf("%s has another %s than %s", n.Name(), name, from.Name())
		}
	}
	for _, file := range []string{"apiserver.key", "etcd/server.key", "etcd/peer.key",
		"front-proxy-client.key"} {
		if name := "/etc/kubernetes/pki/" + file; isSameFile(t, from, n, name) {
			t.Errorf("%s has the same %s as %s", n.Name(), name, from.Name())
		}
	}
}

func readFile(t *testing.T, n *nodes.Node, name string) string {
	t.Helper()
	data, err := n.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestThreeControlPlanesAndTwoWorkers(t *testing.T) {
	s := sharedHACluster(t)
	// The kubelet sets the condition Ready, and the controller manager then removes taints.
	await(t, "five nodes that are Ready, three of them with a taint", waitLimit, func() error {
		var taints, ready int
		for _, n := range readObject[corev1.NodeList](t, s.cp, "nodes").Items {
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
		if text := readFile(t, n, "/etc/kubernetes/kubelet.conf"); !strings.Contains(text,
			"server: https://"+s.balancer.Endpoint()+"\n") {
			t.Errorf("%s does not go through the load balancer:\n%s", n.Name(), text)
		}
	}
	if text := kubectl(t, s.cp, "cluster-info"); !strings.Contains(text, s.balancer.Endpoint()) {
		t.Errorf("cluster-info says:\n%s", text)
	}
}

// TestClusterWithoutSuperAdminConf uses the shared cluster, whose super-admin.conf was deleted
// after init.
func TestClusterWithoutSuperAdminConf(t *testing.T) {
	s := sharedHACluster(t)
	if _, err := s.cp.ReadFile("/etc/kubernetes/super-admin.conf"); err == nil {
		t.Error("super-admin.conf has come back")
	}
	token := strings.TrimSpace(createToken(t, s.cp, kubeadm).Stdout)
	if list := runCommand(t, s.controlPlanes[2], kubeadm, "token", "list"); !strings.Contains(list,
		token) {
		t.Errorf("token %s is not among:\n%s", token, list)
	}
}

func TestJoinedControlPlaneHasNoSuperAdminConf(t *testing.T) {
	s := sharedHACluster(t)
	for _, n := range s.controlPlanes[1:] {
		if _, err := n.ReadFile("/etc/kubernetes/super-admin.conf"); err == nil {
			t.Errorf("%s has a super-admin.conf", n.Name())
		}
	}
}

// TestControlPlaneJoinWithCopiedCertificates joins a control plane without a certificate key and
// resets it.
func TestControlPlaneJoinWithCopiedCertificates(t *testing.T) {
	s := sharedHACluster(t)
	n := addNode(t, s.Cluster, "by-hand")
	before := takeFingerprint(t, n)
	for _, file := range sharedFiles {
		if err := n.WriteFile("/etc/kubernetes/pki/"+file,
			[]byte(readFile(t, s.cp, "/etc/kubernetes/pki/"+file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runCommand(t, n, withoutFlag(controlPlaneJoinCommand(kubeadm, s), "--certificate-key")...)
	addControlPlane(t, s, n)
	runCommand(t, n, kubeadm, "reset", "--force")
	awaitRestored(t, n, before)
	resetAndDestroy(t, s, kubeadm, n)
}

// TestControlPlaneResetAndRejoin resets a control plane while the API is monitored, and joins it
// again.
func TestControlPlaneResetAndRejoin(t *testing.T) {
	s := sharedHACluster(t)
	n := s.controlPlanes[2]
	moveLeader(t, s, n)
	stop := monitorAPI(t, s)
	resetAndDestroy(t, s, kubeadm, n)
	stop()
	n, err := s.AddAt(t.Context(), n.Name(), n.Address())
	if err != nil {
		t.Fatal(err)
	}
	// A machine without packages does not have it, and a kubelet must not start before it exists.
	runCommand(t, n, "rmdir", "/etc/kubernetes/manifests")
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s)...)
	addControlPlane(t, s, n)
}

// TestTwoControlPlanesJoinAtOnce checks how the shared cluster was created. A full run creates
// twenty further ones, or as many as KUBEADM_E2E_ROUNDS says.
func TestTwoControlPlanesJoinAtOnce(t *testing.T) {
	s := sharedHACluster(t)
	s.logJoinTimes(t)
	checkVotingMembers(t, s.controlPlanes...)
	if !suite.full {
		return
	}
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("KUBEADM_E2E_ROUNDS"), "20"))
	if err != nil {
		t.Fatalf("KUBEADM_E2E_ROUNDS: %v", err)
	}
	for i := range rounds {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
			if err := s.createFirst(t.Context(), 3, 0, nodes.Config{}); err != nil {
				t.Fatal(err)
			}
			if err := s.joinNodes(t.Context(), s.controlPlanes[1:]...); err != nil {
				t.Fatal(err)
			}
			checkVotingMembers(t, s.controlPlanes...)
			s.logJoinTimes(t)
		})
	}
}

// TestJoinWhileEtcdRestarts joins two control planes and a worker at once and kills the etcd
// leader meanwhile, each time two seconds later than before.
func TestJoinWhileEtcdRestarts(t *testing.T) {
	inFullRun(t, "minutes")
	for i := range 5 {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
			if err := s.createFirst(t.Context(), 3, 1, nodes.Config{}); err != nil {
				t.Fatal(err)
			}
			killed := make(chan error, 1)
			time.AfterFunc(time.Duration(2*i+1)*time.Second, func() {
				_, err := s.cp.Run(t.Context(), "sh", "-ec",
					"kill -9 $(pgrep --exact --oldest etcd)")
				killed <- err
			})
			if err := s.joinNodes(t.Context(),
				append(s.controlPlanes[1:], s.worker)...); err != nil {
				t.Error(err)
			}
			if err := <-killed; err != nil {
				t.Error(err)
			}
			s.logJoinTimes(t)
			checkVotingMembers(t, s.controlPlanes...)
			if err := awaitClusterReady(t.Context(), s.cp, 4); err != nil {
				t.Error(err)
			}
		})
	}
}

var etcdRestartLine = regexp.MustCompile(`^\[etcd-join\] done: stop the containers of Pod etcd`)

// withoutEtcdRestart removes the lines about a restart of etcd from a join's output: whether join
// has to restart it depends on timing.
func withoutEtcdRestart(output string) string {
	var all []string
	for line := range strings.Lines(output) {
		if !etcdRestartLine.MatchString(line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "")
}

// TestControlPlaneJoinDryRunWithoutCluster compares with the real join of a machine of the same
// name and address.
func TestControlPlaneJoinDryRunWithoutCluster(t *testing.T) {
	s := sharedHACluster(t)
	n, err := newCluster(t).AddAt(t.Context(), s.controlPlanes[1].Name(),
		s.controlPlanes[1].Address())
	if err != nil {
		t.Fatal(err)
	}
	result := runUnchanged(t, n, []string{"KUBEADM_JOIN_DRYRUN_DIR=/tmp/dry"}, kubeadm, "join",
		"--dry-run", "10.77.0.99:6443",
		"--token=abcdef.0123456789abcdef", "--discovery-token-unsafe-skip-ca-verification",
		"--control-plane", "--certificate-key="+strings.Repeat("1f", 32),
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	checkDryRunMatches(t, withoutEtcdRestart(result.Stdout),
		withoutEtcdRestart(s.joinResults[n.Name()].Stdout))
	checkNoSecrets(t, result.Stdout)
}

// TestControlPlaneJoinDryRunMatchesJoin compares with the real join of another machine.
func TestControlPlaneJoinDryRunMatchesJoin(t *testing.T) {
	s := sharedHACluster(t)
	n, like := addNode(t, s.Cluster, "dry-plane"), s.controlPlanes[1]
	before := etcdctl(t, s.cp, "get", "--prefix", "--keys-only", "/registry/minions")
	result := runUnchanged(t, n, []string{"KUBEADM_JOIN_DRYRUN_DIR=/tmp/dry"},
		controlPlaneJoinCommand(kubeadm, s, "--dry-run")...)
	said := strings.NewReplacer(n.Name(), like.Name(), n.Address(),
		like.Address()).Replace(result.Stdout)
	checkDryRunMatches(t, withoutEtcdRestart(said),
		withoutEtcdRestart(s.joinResults[like.Name()].Stdout))
	checkNoSecrets(t, result.Stdout)
	if after := etcdctl(t, s.cp, "get", "--prefix", "--keys-only",
		"/registry/minions"); after != before {
		t.Errorf("the dry run changed the nodes of the cluster from\n%s\nto\n%s", before, after)
	}
	checkVotingMembers(t, s.controlPlanes...)
	destroyNode(t, s, n)
}
