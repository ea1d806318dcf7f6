//go:build e2e

package e2e

import (
	"crypto/x509"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// rotatedCluster is a cluster whose CAs are replaced, and a client that writes all along.
type rotatedCluster struct {
	*haCluster
	load *load
	key  string // the certificate key of the latest "trust"
}

// refreshClient gives the client a new copy of admin.conf, as the stages ask for.
func (r *rotatedCluster) refreshClient(t *testing.T) {
	t.Helper()
	writeFile(t, r.worker, loadConfig+".new", readFile(t, r.cp, kubernetesDir+"admin.conf"))
	runCommand(t, r.worker, "mv", loadConfig+".new", loadConfig)
}

var rotationKeyPattern = regexp.MustCompile(`--certificate-key ([0-9a-f]{64})`)

// command is the command of a stage on a node. Only "trust" on further control planes needs a key.
func (r *rotatedCluster) command(n *nodes.Node, stage string) []string {
	command := []string{kubeadm, "certs", "rotate-ca", stage}
	if stage == "trust" && n != r.cp && slices.Contains(r.controlPlanes, n) {
		command = append(command, "--certificate-key", r.key)
	}
	return command
}

// run brings nodes to a stage, one after the other.
func (r *rotatedCluster) run(t *testing.T, stage string, all ...*nodes.Node) {
	t.Helper()
	for _, n := range all {
		result, err := n.Run(t.Context(), r.command(n, stage)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, result.Stdout)
		}
		t.Logf("%s: %s in %s", stage, n.Name(), result.Duration.Round(100*time.Millisecond))
		r.noteKey(result)
	}
}

func (r *rotatedCluster) noteKey(result nodes.Result) {
	if found := rotationKeyPattern.FindStringSubmatch(result.Stdout); found != nil {
		r.key = found[1]
	}
}

// killAndRun is run. In a full run the command is killed at several of its changes on the first node
// before.
func (r *rotatedCluster) killAndRun(t *testing.T, stage string, all ...*nodes.Node) {
	t.Helper()
	n := all[0]
	kills := []int{3, 9, 14, 5, 12}
	if !suite.full {
		kills = nil
	}
	for _, change := range kills {
		result, killed := runInterrupted(t, n, unix.SIGKILL, atChange(change),
			append(r.command(n, stage), "-v=1")...)
		r.noteKey(result)
		t.Logf("%s: %s killed at its change %d: %t", stage, n.Name(), change, killed)
		if !killed {
			if result.Code != 0 {
				t.Fatalf("%s:\n%s%s", stage, result.Stdout, result.Stderr)
			}
			break
		}
	}
	r.run(t, stage, all...)
}

// restartPods restarts the Pods that use tokens, as the stages ask for.
func (r *rotatedCluster) restartPods(t *testing.T) {
	t.Helper()
	time.Sleep(2 * time.Second) // start times have whole seconds
	kubectl(t, r.cp, "rollout", "restart", "deployment/web")
	kubectl(t, r.cp, "rollout", "status", "--timeout=180s", "deployment/web")
}

func (r *rotatedCluster) restartAddons(t *testing.T) {
	t.Helper()
	for _, name := range []string{"daemonset/kube-proxy", "deployment/coredns"} {
		kubectl(t, r.cp, "-n", "kube-system", "rollout", "restart", name)
		kubectl(t, r.cp, "-n", "kube-system", "rollout", "status", "--timeout=180s", name)
	}
}

// everyone are all nodes, control planes first.
func (r *rotatedCluster) everyone() []*nodes.Node { return slices.Concat(r.controlPlanes, r.workers) }

// newRotatedCluster is a cluster with a workload, and a client of its load balancer.
func newRotatedCluster(t *testing.T, planes, workers int) *rotatedCluster {
	t.Helper()
	return newRotatedClusterOf(t, planes, workers, nodes.Config{})
}

// newRotatedClusterOf is newRotatedCluster with another configuration.
func newRotatedClusterOf(t *testing.T, planes, workers int, config nodes.Config) *rotatedCluster {
	t.Helper()
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), planes, workers, config))
	if planes > 1 {
		must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
	}
	must(t, s.joinNodes(t.Context(), s.workers...))
	must(t, awaitClusterReady(t.Context(), s.cp, planes+workers))
	startWorkload(t, s.cp)
	r := &rotatedCluster{haCluster: s}
	s.balancer.CheckReadiness() // as load balancers do
	r.load = startLoad(t, s.cp, s.worker, "--request-timeout=20s")
	t.Cleanup(r.load.stop)
	return r
}

// endLoad ends the client. With several control planes no request has failed.
func (r *rotatedCluster) endLoad(t *testing.T) {
	t.Helper()
	if len(r.controlPlanes) > 1 {
		r.load.endWithoutFailure(t, r.cp)
	} else {
		r.load.end(t, r.cp)
	}
}

// TestRotateCA replaces all CAs and the service account key of a cluster with one control plane.
func TestRotateCA(t *testing.T) {
	parallel(t)
	r := newRotatedCluster(t, 1, 1)
	before := r.readCAs(t, r.cp)
	r.killAndRun(t, "trust", r.cp)
	checkFails(t, r.cp, []string{"have not reached stage \"trust\"", r.worker.Name()},
		r.command(r.cp, "sign")...)
	checkFails(t, r.worker, []string{"in stage \"trust\""}, r.command(r.worker, "sign")...)
	r.run(t, "trust", r.worker)
	r.refreshClient(t)
	checkFails(t, r.cp, []string{"started before they could trust the new CA", "default/web"},
		r.command(r.cp, "sign")...)
	r.restartPods(t)
	r.killAndRun(t, "sign", r.everyone()...)
	r.refreshClient(t)
	checkFails(t, r.cp, []string{"may be using a token signed with the key that is about to be removed"},
		r.command(r.cp, "finish")...)
	r.restartPods(t)
	r.restartAddons(t)
	r.killAndRun(t, "finish", r.everyone()...)
	r.run(t, "finish", r.cp)
	r.endLoad(t)
	r.checkReplaced(t, before, true)
}

// TestRotateCAHA replaces everything in a highly available cluster under load, killed in each stage.
func TestRotateCAHA(t *testing.T) {
	inFullRun(t, "ten minutes")
	r := newRotatedCluster(t, 3, 2)
	before := r.readCAs(t, r.cp)
	r.killAndRun(t, "trust", r.everyone()...)
	r.refreshClient(t)
	r.restartPods(t)
	r.killAndRun(t, "sign", r.everyone()...)
	r.refreshClient(t)
	r.restartPods(t)
	r.restartAddons(t)
	r.killAndRun(t, "finish", r.everyone()...)
	r.run(t, "finish", r.cp)
	r.endLoad(t)
	r.checkReplaced(t, before, true)
}

// TestUndoCARotation takes back a rotation after its first stage, and another one after its second.
func TestUndoCARotation(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	r := newRotatedCluster(t, 3, 2)
	before := r.readCAs(t, r.cp)
	r.run(t, "trust", r.everyone()...)
	r.killAndRun(t, "undo", r.everyone()...)
	r.run(t, "undo", r.cp)
	r.checkReplaced(t, before, false)

	r.run(t, "trust", r.everyone()...)
	r.refreshClient(t)
	r.restartPods(t)
	r.run(t, "sign", r.everyone()...)
	r.refreshClient(t)
	r.killAndRun(t, "undo", r.everyone()...)
	r.refreshClient(t)
	r.restartPods(t)
	r.restartAddons(t)
	r.run(t, "undo", r.everyone()...)
	r.run(t, "undo", r.cp)
	r.endLoad(t)
	r.checkReplaced(t, before, false)
}

// TestJoinDuringCARotation joins a control plane and a worker in the middle of each stage.
func TestJoinDuringCARotation(t *testing.T) {
	inFullRun(t, "ten minutes")
	r := newRotatedCluster(t, 2, 1)
	before := r.readCAs(t, r.cp)
	for _, stage := range []string{"trust", "sign", "finish"} {
		if stage == "finish" {
			r.restartAddons(t)
		}
		planes := r.controlPlanes
		r.run(t, stage, r.cp)
		r.joinBoth(t, stage)
		r.run(t, stage, planes[1:]...)
		joined := r.controlPlanes[len(r.controlPlanes)-1]
		if stage != "finish" { // it gets the new keys
			r.run(t, "trust", r.cp, joined)
		}
		r.run(t, stage, append([]*nodes.Node{joined}, r.workers...)...)
		r.refreshClient(t)
		r.restartPods(t)
	}
	r.run(t, "finish", r.cp)
	r.load.stop()
	r.checkReplaced(t, before, true)
}

// TestFinishWaitsForLateControlPlane joins a control plane after all others sign with the new CAs, with
// the old keys, which were copied to it a stage before. Until it follows, it may give kubelets
// certificates of the old CA. Then all workers have to follow again, or the last stage would lock them
// out.
func TestFinishWaitsForLateControlPlane(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	r := newRotatedCluster(t, 1, 1)
	before := r.readCAs(t, r.cp)
	r.run(t, "trust", r.everyone()...)
	r.refreshClient(t)
	r.restartPods(t)
	late := addNode(t, r.Cluster, "late")
	runCommand(t, late, "mkdir", "-p", "-m", "0700", certsDir+"etcd")
	for _, name := range caFiles() {
		writeFile(t, late, certsDir+name, readFile(t, r.cp, certsDir+name))
	}
	r.run(t, "sign", r.everyone()...)
	r.refreshClient(t)
	r.restartPods(t)
	runCommand(t, late, append(r.joinCommand(t), "--control-plane")...)
	setControlPlanes(t, r.haCluster, r.cp, late)
	must(t, awaitClusterReady(t.Context(), r.cp, len(r.everyone())))
	if key := readFile(t, late, certsDir+"ca.key"); key != before["ca.key"] {
		t.Fatal("the control plane has not joined with the old key")
	}
	checkFails(t, r.cp, []string{"have not reached stage", late.Name()}, r.command(r.cp, "finish")...)
	r.run(t, "trust", r.cp, late)
	r.run(t, "sign", late)
	checkFails(t, r.cp, []string{"have not reached stage \"sign\"", r.worker.Name()},
		r.command(r.cp, "finish")...)
	r.run(t, "sign", r.workers...)
	r.refreshClient(t)
	r.restartPods(t)
	r.restartAddons(t)
	r.run(t, "finish", r.everyone()...)
	r.run(t, "finish", r.cp)
	r.load.stop()
	r.checkReplaced(t, before, true)
}

// joinCommand is the command that joins a node now, as the first control plane node prints it.
func (r *rotatedCluster) joinCommand(t *testing.T, args ...string) []string {
	t.Helper()
	out := runCommand(t, r.cp, append([]string{kubeadm, "token", "create", "--print-join-command"},
		args...)...)
	command := strings.Fields(strings.NewReplacer("\\\n", " ", "\\", " ").Replace(out))
	command = append(command[max(0, slices.Index(command, "kubeadm")):],
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	command[0] = kubeadm
	return command
}

// joinBoth joins a control plane and a worker with commands of this moment.
func (r *rotatedCluster) joinBoth(t *testing.T, stage string) {
	t.Helper()
	plane, worker := addNode(t, r.Cluster, stage+"-plane"), addNode(t, r.Cluster, stage+"-worker")
	for n, command := range map[*nodes.Node][]string{plane: r.joinCommand(t, "--upload-certs"),
		worker: r.joinCommand(t)} {
		if result, err := n.Run(t.Context(), command...); err != nil {
			t.Fatalf("joining %s: %v\n%s", n.Name(), err, result.Stdout)
		}
	}
	r.workers = append(r.workers, worker)
	setControlPlanes(t, r.haCluster, append(slices.Clone(r.controlPlanes), plane)...)
	must(t, awaitClusterReady(t.Context(), r.cp, len(r.everyone())))
}

// caFiles are what a rotation replaces on a control plane.
func caFiles() []string {
	return []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt",
		"etcd/ca.key", "sa.pub", "sa.key"}
}

func (r *rotatedCluster) readCAs(t *testing.T, n *nodes.Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range caFiles() {
		all[name] = readFile(t, n, certsDir+name)
	}
	return all
}

// checkReplaced checks that nothing is left of a rotation, and that the CAs have been replaced, or
// not if it was undone: in files, in what is served, and in the cluster.
func (r *rotatedCluster) checkReplaced(t *testing.T, before map[string]string, replaced bool) {
	t.Helper()
	now := r.readCAs(t, r.cp)
	for name, old := range before {
		if (now[name] != old) != replaced {
			t.Errorf("%s was replaced: %t", name, !replaced)
		}
	}
	ca := parseOne(t, now["ca.crt"])
	for _, n := range r.controlPlanes {
		if got := r.readCAs(t, n); fmt.Sprint(got) != fmt.Sprint(now) {
			t.Errorf("%s has other CAs", n.Name())
		}
		runCommand(t, n, "test", "!", "-e", certsDir+"ca-rotation")
		for name, cert := range readPresentCertificates(t, n) {
			issuer := map[string]string{"etcd": "etcd/ca.crt", "front": "front-proxy-ca.crt"}
			file := "ca.crt"
			for part, other := range issuer {
				if strings.Contains(name, part) {
					file = other
				}
			}
			if err := cert.CheckSignatureFrom(parseOne(t, now[file])); err != nil {
				t.Errorf("%s: %s is not signed by %s: %v", n.Name(), name, file, err)
			}
		}
		if got := runShell(t, n, "grep cluster-signing "+kubernetesDir+
			"manifests/kube-controller-manager.yaml"); strings.Contains(got, "ca-rotation") {
			t.Errorf("%s: %s", n.Name(), got)
		}
	}
	for _, n := range r.everyone() {
		if got := readFile(t, n, certsDir+"ca.crt"); got != now["ca.crt"] {
			t.Errorf("%s: ca.crt differs", n.Name())
		}
		client := parseOne(t, runCommand(t, n, "cat", "/var/lib/kubelet/pki/kubelet-client-current.pem"))
		if err := client.CheckSignatureFrom(ca); err != nil {
			t.Errorf("%s: the client certificate of the kubelet: %v", n.Name(), err)
		}
		config, err := pki.ParseKubeconfig([]byte(readFile(t, n, kubernetesDir+"kubelet.conf")))
		must(t, err)
		cluster, err := config.CurrentCluster()
		must(t, err)
		if string(cluster.CertificateAuthorityData) != now["ca.crt"] {
			t.Errorf("%s: kubelet.conf trusts\n%s", n.Name(), cluster.CertificateAuthorityData)
		}
	}
	for _, command := range [][]string{
		{"get", "configmap", "kube-root-ca.crt", "-o", `jsonpath={.data.ca\.crt}`},
		{"-n", "kube-system", "get", "configmap", "extension-apiserver-authentication", "-o",
			`jsonpath={.data.client-ca-file}`},
	} {
		await(t, strings.Join(command, " "), time.Minute, func() error {
			if got := kubectl(t, r.cp, command...); strings.TrimSpace(got) !=
				strings.TrimSpace(now["ca.crt"]) {
				return fmt.Errorf("it is\n%s", got)
			}
			return nil
		})
	}
	for _, gone := range []string{"configmap", "secret", "role"} {
		if got := kubectl(t, r.cp, "-n", "kube-system", "get", gone, "--ignore-not-found",
			"--output=name", "kubeadm-ca-rotation", "kubeadm:ca-rotation"); got != "" {
			t.Errorf("there is %s", got)
		}
	}
	if got := kubectl(t, r.cp, "get", "nodes", "--output=yaml"); strings.Contains(got,
		"kubeadm.kubernetes.io/ca-rotation") {
		t.Error("a Node has the annotation of the rotation")
	}
	if got := kubectl(t, r.cp, "-n", "kube-system", "get", "configmap", "kubeadm-config",
		"--output=yaml"); strings.Contains(got, "ca-rotation") {
		t.Error("kubeadm-config has the arguments of the rotation")
	}
	must(t, awaitClusterReady(t.Context(), r.cp, len(r.everyone())))
	// kube-apiserver connects to kubelets, Pods to the API server
	pods := strings.Fields(kubectl(t, r.cp, "get", "pods", "--selector=app=web", "--output=name"))
	for _, pod := range pods {
		kubectl(t, r.cp, "logs", pod)
	}
}

// readPresentCertificates is readRenewableCertificates for the files that there are.
func readPresentCertificates(t *testing.T, n *nodes.Node) map[string]*x509.Certificate {
	t.Helper()
	all := map[string]*x509.Certificate{}
	for _, c := range pki.Renewables() {
		file := kubernetesDir + c.File
		if c.File == "" {
			file = certsDir + c.Base + ".crt"
		}
		text, err := n.ReadFile(file)
		if err != nil && c.Name == "super-admin.conf" {
			continue
		}
		must(t, err)
		cert, err := c.Certificate(text)
		must(t, err)
		all[c.Name] = cert
	}
	return all
}

func parseOne(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	certs, err := pki.ParseCertificates([]byte(text))
	must(t, err)
	if len(certs) != 1 {
		t.Errorf("there are %d certificates in\n%s", len(certs), text)
	}
	return certs[0]
}
