package laws

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// recoverSubject is "certs renew all --restart" on a control plane whose certificates have expired.
var recoverSubject = subject{name: "recover", setUp: setUpInit, node: "cp1",
	phases: slices.Concat(workflow.Renew, workflow.RestartStale), machine: expiredControlPlane}

// kubeletFile is an earlier file of the kubelet's client certificate.
const kubeletFile = "/var/lib/kubelet/pki/kubelet-client-2025-01-01-00-00-00.pem"

// clusterCA is the CA of the cluster of initializedMachine.
func clusterCA(t testing.TB) pki.CA {
	t.Helper()
	files := initializedMachine(t).Files
	ca, err := pki.StoredPair{Certificate: files["/etc/kubernetes/pki/ca.crt"].Data,
		Key: files["/etc/kubernetes/pki/ca.key"].Data}.ParseCA()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// issueKubelet returns the file of a kubelet's client certificate that is issued now.
func issueKubelet(t testing.TB, m *fake.World, name string) []byte {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := clusterCA(t).Issue(rand.Reader, pki.ClientSpec("system:node:"+name,
		[]string{"system:nodes"}, pki.NewValidity(m.Now(), 365*24*time.Hour)), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(pki.EncodeCertificates(cert), text)
}

// expireKubelet gives the kubelet a certificate, and lets two years pass in which nothing runs.
func expireKubelet(t testing.TB, m *fake.World, name string) {
	t.Helper()
	m.Files[kubeletFile] = memory.File{Data: issueKubelet(t, m, name), Mode: 0o600}
	m.Files[rotatedCertificate] = memory.File{Data: []byte(kubeletFile), Mode: fs.ModeSymlink | 0o777}
	m.Clock = memory.NewTickingClock(m.Now().Add(2 * 365 * 24 * time.Hour))
	m.Services["kubelet"] = state.Service{Exists: true, Enabled: true}
}

func expiredControlPlane(t testing.TB) *fake.World {
	m := renewedMachine(t)
	data, err := useRotated(m.Files["/etc/kubernetes/kubelet.conf"].Data)
	if err != nil {
		t.Fatal(err)
	}
	m.Files["/etc/kubernetes/kubelet.conf"] = memory.File{Data: data, Mode: 0o600}
	expireKubelet(t, m, "cp1")
	return m
}

// useRotated returns a kubeconfig that names the file of the kubelet's certificate.
func useRotated(kubeconfig []byte) ([]byte, error) {
	config, err := pki.ParseKubeconfig(kubeconfig)
	if err == nil {
		err = config.UseRotatedCertificate(rotatedCertificate)
	}
	if err != nil {
		return nil, err
	}
	if user, err := config.CurrentUser(); err == nil {
		user.Token = ""
	}
	return config.Encode()
}

// checkRecovered checks that every certificate of a control plane is valid and belongs to its key,
// and that the kubelet runs with a new one.
func checkRecovered(t *testing.T, m *fake.World) {
	t.Helper()
	if got := listMismatchedKeys(t, m); len(got) > 0 {
		t.Errorf("keys that do not match their certificates: %v", got)
	}
	for _, c := range pki.Renewables() {
		cert, err := certstore.ReadRenewable(t.Context(), m, node.DefaultPaths(), c)
		if err == nil {
			err = pki.CheckPeriod(cert, m.Now())
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	checkKubelet(t, m, "cp1")
}

func checkKubelet(t *testing.T, m *fake.World, name string) {
	t.Helper()
	c, err := localkubelet.ReadClientCert(t.Context(), m, node.DefaultPaths())
	if err == nil {
		err = c.Check(clusterCA(t).Certificate, m.Now())
	}
	if err != nil {
		t.Fatalf("the kubelet's certificate: %v", err)
	}
	if c.File != rotatedCertificate || c.NodeName(t.Context(), m) != name {
		t.Errorf("the kubelet uses %s of %s", c.File, c.NodeName(t.Context(), m))
	}
	kubelet := m.Services["kubelet"]
	if !kubelet.Active || kubelet.Since.IsZero() {
		t.Errorf("the kubelet does not run: %+v", kubelet)
	}
	if _, ok := m.Files["/etc/kubernetes/bootstrap-kubelet.conf"]; ok {
		t.Error("the bootstrap kubeconfig is left")
	}
}

func TestRecoveryResumesAtEveryCrashPoint(t *testing.T) {
	whole := recoverSubject.newRun(recoverSubject.machine(t))
	whole.mustSucceed(t)
	checkRecovered(t, whole.machine)
	if info, err := whole.machine.Lstat(t.Context(), rotatedCertificate); err != nil ||
		info.Mode.Type() != fs.ModeSymlink {
		t.Errorf("%s is %+v, %v", rotatedCertificate, info, err)
	}
	recoverSubject.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		checkRecovered(t, r.machine)
		again := r.rerun()
		again.phases = workflow.RestartStale
		if left := again.mustSucceed(t).did; len(left) > 0 {
			t.Errorf("left to do: %v", describeChanges(left))
		}
	})
}

// The first of three control planes cannot wait for a quorum of etcd: the others have to be renewed
// first.
func TestRecoveryWithoutQuorum(t *testing.T) {
	m := expiredControlPlane(t)
	old, err := m.ServedCertificate(t.Context(), "192.0.2.10:2380")
	if err == nil {
		t.Fatalf("etcd runs before the kubelet: %v", old.Subject)
	}
	certs, err := pki.ParseCertificates(m.Files["/etc/kubernetes/pki/etcd/peer.crt"].Data)
	if err != nil {
		t.Fatal(err)
	}
	m.RemoteCertificates = map[string]*x509.Certificate{}
	for id, name := range []string{"cp2", "cp3"} {
		address := "192.0.2.3" + string(rune('0'+id))
		m.MemberList = append(m.MemberList, newMember(uint64(id+2), name, address))
		m.RemoteCertificates[address+":2380"] = certs[0]
	}
	m.UnreachableMembers = []uint64{2, 3}
	m.CrashLog = func(component string, _ []byte) string {
		if component == "kube-apiserver" {
			return "etcd: context deadline exceeded"
		}
		return ""
	}
	r := recoverSubject.newRun(m)
	out := r.mustSucceed(t)
	checkRecovered(t, m)
	const want = "the certificates of 2 of 3 members have expired (cp2, cp3)"
	if !slices.ContainsFunc(out.events, func(e engine.Event) bool {
		return e.Kind == engine.Printed && strings.Contains(e.Text, want)
	}) {
		t.Errorf("it does not print %q", want)
	}
	if slices.Contains(restarted(out), "kube-apiserver") {
		t.Error("kube-apiserver was restarted")
	}

	// members that are down for another reason are an error
	r.machine.RemoteCertificates = nil
	if out := r.rerun().execute(t); out.err == nil ||
		!strings.Contains(out.err.Error(), "1 of 3 voting etcd members are healthy") {
		t.Errorf("got %v", out.err)
	}
}

// blockedKubelet is a machine whose kubelet starts etcd only once kube-apiserver has ended.
type blockedKubelet struct {
	world.World
	ended bool
}

func (w *blockedKubelet) Do(ctx context.Context, c change.Change) error {
	if remove, ok := c.(change.RemoveContainers); ok && remove.Component == "kube-apiserver" {
		w.ended = true
	}
	return w.World.Do(ctx, c)
}

func (w *blockedKubelet) ServedCertificate(ctx context.Context,
	server string) (*x509.Certificate, error) {
	if !w.ended {
		return nil, state.ErrNoServer
	}
	return w.World.ServedCertificate(ctx, server)
}

func (w *blockedKubelet) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	all, err := w.World.Containers(ctx, socket)
	return slices.DeleteFunc(all, func(c state.Container) bool {
		return !w.ended && c.Component == "etcd"
	}), err
}

// etcd starts soon although kube-apiserver, which runs without it, answers no request of the kubelet.
func TestRecoveryEndsServerWithoutEtcd(t *testing.T) {
	r := recoverSubject.newRun(expiredControlPlane(t))
	r.observe = func(below world.World) world.World { return &blockedKubelet{World: below} }
	if got := restarted(r.mustSucceed(t)); len(got) == 0 || got[0] != "kube-apiserver" ||
		slices.Contains(got, "etcd") {
		t.Errorf("restarted: %q", got)
	}
	checkRecovered(t, r.machine)
}

// refusingEtcd is a machine whose etcd refuses connections for a while.
type refusingEtcd struct {
	world.World
	refusals int  // left
	exited   bool // its container has exited, until it is removed
}

func (w *refusingEtcd) Do(ctx context.Context, c change.Change) error {
	if remove, ok := c.(change.RemoveContainers); ok && remove.Component == "etcd" {
		w.refusals, w.exited = 0, false
	}
	return w.World.Do(ctx, c)
}

func (w *refusingEtcd) ServedCertificate(ctx context.Context,
	server string) (*x509.Certificate, error) {
	if w.refusals > 0 {
		w.refusals--
		return nil, state.ErrNoServer
	}
	return w.World.ServedCertificate(ctx, server)
}

func (w *refusingEtcd) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	all, err := w.World.Containers(ctx, socket)
	for i, c := range all {
		if w.exited && c.Component == "etcd" {
			all[i].Running, all[i].ExitCode = false, 1
		}
	}
	return all, err
}

func (w *refusingEtcd) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w) }
	return w.World.Await(ctx, c)
}

// An etcd that refuses connections is restarted only if its container has exited, as it takes minutes
// to start on a slow disk.
func TestOnlyExitedEtcdIsRestarted(t *testing.T) {
	for _, exited := range []bool{false, true} {
		r := recoverSubject.newRun(expiredControlPlane(t))
		r.observe = func(below world.World) world.World {
			return &refusingEtcd{World: below, refusals: 150, exited: exited} // more than one wait
		}
		got := restarted(r.mustSucceed(t))
		if slices.Contains(got, "etcd") != exited || slices.Contains(got, "kube-apiserver") != exited {
			t.Errorf("its container has exited: %v; restarted: %q", exited, got)
		}
		checkRecovered(t, r.machine)
	}
}

func printed(out outcome) (text string) {
	for _, e := range out.events {
		if e.Kind == engine.Printed {
			text += e.Text
		}
	}
	return text
}

// renewKubeletSubject is "certs renew kubelet.conf --token" on a worker.
var renewKubeletSubject = subject{name: "renew kubelet.conf", phases: workflow.RenewKubelet,
	node: "worker1", machine: func(t testing.TB) *fake.World {
		m := usedWorker(t)
		data, err := useRotated(m.Files["/etc/kubernetes/kubelet.conf"].Data)
		if err != nil {
			t.Fatal(err)
		}
		m.Files["/etc/kubernetes/kubelet.conf"] = memory.File{Data: data, Mode: 0o600}
		expireKubelet(t, m, "worker1")
		m.IssueKubelet = func() []byte { return issueKubelet(t, m, "worker1") }
		return m
	}, setUp: func(_ testing.TB, e *engine.Env) error {
		n := &node.Node{Local: node.Local{Name: "worker1", Role: node.Worker,
			Paths: node.DefaultPaths(), Timeouts: node.Timeouts{TLSBootstrap: time.Minute,
				Kubelet: time.Minute}}}
		n.Discovery.TLSBootstrapToken = joinToken
		e.Local = n.Local
		e.Node = func(context.Context) (*node.Node, error) { return n, nil }
		return nil
	}}

func TestKubeletRenewalResumesAtEveryCrashPoint(t *testing.T) {
	whole := renewKubeletSubject.newRun(renewKubeletSubject.machine(t))
	out := whole.mustSucceed(t)
	checkKubelet(t, whole.machine, "worker1")
	forEachFault(len(out.did), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			t.Parallel()
			at.Crash = true
			r := renewKubeletSubject.newRun(renewKubeletSubject.machine(t))
			r.observe = newIssuingCluster(t, r.machine).around // a run after the last change requests another one
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			r.rerun().mustSucceed(t)
			checkKubelet(t, r.machine, "worker1")
		})
	})
}

// The Pods of a node whose kubelet stays stopped are evicted.
func TestInterruptedKubeletRenewalLeavesKubeletRunning(t *testing.T) {
	for _, s := range []struct {
		subject
		machine func(testing.TB) *fake.World
	}{{renewKubeletSubject, renewKubeletSubject.machine}, {recoverSubject, expiredControlPlane}} {
		whole := s.newRun(s.machine(t))
		changes := len(whole.mustSucceed(t).did)
		for at := 1; at <= changes; at++ {
			m := s.machine(t)
			m.Services["kubelet"] = state.Service{Exists: true, Active: true, Since: m.Now()}
			r := s.newRun(m)
			r.stop = at
			if out := r.execute(t); !m.Services["kubelet"].Active {
				t.Errorf("%s: interrupted at change %d of %d, the kubelet is down: %v", s.name, at,
					changes, out.err)
			}
		}
	}
}

// If the certificate is embedded, kubelet.conf is removed, and the bootstrap kubeconfig alone names
// the server.
func TestEmbeddedKubeletRenewalResumes(t *testing.T) {
	m := renewKubeletSubject.machine(t)
	config, err := pki.ParseKubeconfig(m.Files["/etc/kubernetes/kubelet.conf"].Data)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.CurrentCluster()
	if err != nil {
		t.Fatal(err)
	}
	bootstrap, err := pki.NewBootstrapKubeconfig(cluster, "abcdef.0000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	data, err := bootstrap.Encode()
	if err != nil {
		t.Fatal(err)
	}
	delete(m.Files, "/etc/kubernetes/kubelet.conf")
	if out := renewKubeletSubject.newRun(m).execute(t); out.err == nil || len(out.did) > 0 {
		t.Errorf("without any kubeconfig: %v, %v", out.err, describeChanges(out.did))
	}
	m.Files["/etc/kubernetes/bootstrap-kubelet.conf"] = memory.File{Data: data, Mode: 0o600}
	// The simulated kubelet writes no certificate into kubelet.conf, for which the run waits last.
	if out := renewKubeletSubject.newRun(m).execute(t); out.err == nil ||
		!strings.Contains(out.err.Error(), "kubelet.conf does not name a client certificate") {
		t.Errorf("got %v", out.err)
	}
	written := string(m.Files["/etc/kubernetes/bootstrap-kubelet.conf"].Data)
	if !strings.Contains(written, cluster.Server) || !strings.Contains(written, joinToken) {
		t.Errorf("the bootstrap kubeconfig is %s", written)
	}
	if !m.Services["kubelet"].Active {
		t.Error("the kubelet was not started")
	}
}

// Certificate and key in two files are left alone: a new file would replace only the certificate.
func TestKubeletCertificateInTwoFilesIsRefused(t *testing.T) {
	split := func(m *fake.World) {
		config, err := pki.ParseKubeconfig(m.Files["/etc/kubernetes/kubelet.conf"].Data)
		if err != nil {
			t.Fatal(err)
		}
		user, err := config.CurrentUser()
		if err != nil {
			t.Fatal(err)
		}
		user.ClientCertificate, user.ClientKey = "/etc/own/kubelet.crt", "/etc/own/kubelet.key"
		data, err := config.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.Files["/etc/kubernetes/kubelet.conf"] = memory.File{Data: data, Mode: 0o600}
		if pair, err := m.ReadFile(t.Context(), rotatedCertificate); err == nil {
			m.Files[user.ClientCertificate] = memory.File{Data: pair, Mode: 0o600}
			m.Files[user.ClientKey] = memory.File{Data: pair, Mode: 0o600}
		}
	}
	const want = "names a certificate and a key in two separate files"
	withToken := renewKubeletSubject.newRun(renewKubeletSubject.machine(t))
	signed := recoverSubject.newRun(recoverSubject.machine(t))
	signed.phases = workflow.RenewKubelet
	rotating := newRotatingMachine(t)
	started := rotateCA(rotation.Trust, rotation.Options{}).newRun(rotating.Clone())
	rotate(t, rotating, rotation.Trust)
	goingOn := rotateCA(rotation.Sign, rotation.Options{}).newRun(rotating)
	for _, r := range []run{withToken, signed, started, goingOn} {
		split(r.machine)
		if out := r.execute(t); out.err == nil || !strings.Contains(out.err.Error(), want) ||
			len(out.did) > 0 {
			t.Errorf("got %v, %v", out.err, describeChanges(out.did))
		}
	}
	m, warnings := signed.machine, 0
	own := engine.New(engine.Env{World: m, Emit: func(e engine.Event) {
		if e.Kind == engine.Warned && strings.Contains(e.Text, want) {
			warnings++
		}
	}})
	before := m.Snapshot()
	n := &node.Node{Local: node.Local{Role: node.ControlPlane, Paths: node.DefaultPaths()}}
	if _, err := localkubelet.Repair(t.Context(), own, n); err != nil || warnings != 1 {
		t.Errorf("repair: %v, %d warnings", err, warnings)
	}
	if m.Snapshot() != before {
		t.Error("repair has changed something")
	}
}

// A component whose certificate cannot be found out is not restarted, with a warning.
func TestUnknownCertificateIsWarnedOf(t *testing.T) {
	r := restartSubject.newRun(restartSubject.machine(t))
	r.machine.UnknownServers = []string{"192.0.2.10:6443"}
	out := r.mustSucceed(t)
	const want = "kube-apiserver was not restarted, because it is unknown which certificate it uses: "
	if !slices.ContainsFunc(out.events, func(e engine.Event) bool {
		return e.Kind == engine.Warned && strings.HasPrefix(e.Text, want)
	}) {
		t.Errorf("no warning %q", want)
	}
	if slices.Contains(restarted(out), "kube-apiserver") {
		t.Error("kube-apiserver was restarted")
	}
}
