// Package fake is a simulated machine and cluster for tests, in memory. Its kubelet acts at once.
// It passes the same contract suites as the real world.
package fake

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/simkubelet"
)

// World is a simulated machine. Tests may change its fields before a run.
type World struct {
	*memory.World
	Info       state.HostInfo
	Interfaces []state.Address
	Names      map[string][]string // host names that resolve
	Paths      map[string]string   // programs in PATH
	Kubelet    string              // version; empty if there is no kubelet
	// ports in use, "host:port" or ":port", and their owners
	PortsInUse            map[string]string
	CRI                   state.Runtime
	Sockets               []string // container runtimes that answer
	MissingImages         []string // images that do not exist in any registry
	UnreachableRegistries []string // registries that cannot be reached
	Attempts              []string // images that were pulled from unreachable registries
	SlowImages            []string // images whose first pull fails
	VerifyErrors          []error  // errors of Verify
	Discovery             map[string]string
	// the cluster's API server runs on another machine and accepts every identity
	RemoteAPIServer bool
	NodeName        string
	ServerAhead     time.Duration // how far the clocks of servers are ahead of that of this machine

	// versions behind labels such as "stable-1.37", if dl.k8s.io resolves
	Published map[string]string
	Refused   map[string]error // kinds of objects that the API server does not create, and why
	// EvictionsRefused is how many evictions a PodDisruptionBudget does not allow at first.
	EvictionsRefused int
	// CrashLog returns the log of a component's container that exits right after each start; it is
	// empty for one that runs. If nil, all run.
	CrashLog func(component string, manifest []byte) string
	// PodLogs are what the API server returns as the logs of Pods, by their names.
	PodLogs map[string]string
	// EtcdClientFiles is set if clients of etcd must be able to read the files of their certificate.
	EtcdClientFiles bool
	// IsolatedAddress is one at which the etcd member of this machine runs, but does not reach the others.
	IsolatedAddress string
	// a text in one of its files with which the kubelet does not run; empty for none
	BrokenKubelet string
	// how many calls of Containers it takes until the kubelet acts on a changed manifest
	PodLag int
	// what a component serves, if not the certificate on disk, until its containers are removed
	OldCertificates map[string]*x509.Certificate
	ContainersError error // of listing containers
	// IssueKubelet returns a new client certificate and key of the kubelet; if nil, a text stands for
	// them.
	IssueKubelet func() []byte
	// SignRequest returns the certificate of a CertificateSigningRequest that is approved; if nil, none is signed.
	SignRequest func(request []byte) []byte
	// what servers of other machines serve, by "host:port"
	RemoteCertificates map[string]*x509.Certificate
	// "host:port" of servers that do not complete a handshake
	UnknownServers []string
	// size of etcd's database and free disk space in bytes; there is enough space for a snapshot if
	// EtcdSize is 0
	EtcdSize, DiskFree uint64

	staticPods *podTable
	clusters   etcdClusters
}

// New returns a machine on which init and join succeed.
func New() *World {
	w := &World{
		World: memory.New(),
		Info: state.HostInfo{Hostname: "cp1", CPUs: 4, MemoryMiB: 8192,
			Env: []string{"PATH=/usr/bin"}},
		Interfaces: []state.Address{{IP: "192.0.2.10", Bits: 24, Interface: "eth0", DefaultRoute: true}},
		Names:      map[string][]string{"cp1": {"192.0.2.10"}},
		Paths:      map[string]string{},
		Kubelet:    "v1.37.1",
		PortsInUse: map[string]string{},
		CRI: state.Runtime{Name: "containerd", Version: "2.4.2", Ready: true,
			CgroupDriver: "systemd", ReportsDriver: true},
		Sockets:    []string{"unix:///var/run/containerd/containerd.sock"},
		NodeName:   "cp1",
		staticPods: &podTable{pods: map[string]runningPod{}, uids: map[string]string{}},
		clusters:   etcdClusters{mu: &sync.Mutex{}, members: map[string][]state.Member{}},
	}
	for _, p := range []string{"cp", "mount", "losetup", "systemctl"} {
		w.Paths[p] = "/usr/bin/" + p
	}
	w.Services["kubelet"] = state.Service{Exists: true, Enabled: true}
	for name, text := range map[string]string{
		"/proc/sys/net/ipv4/ip_forward":              "1\n",
		"/proc/sys/net/ipv6/conf/default/forwarding": "1\n",
		"/proc/swaps": "Filename Type Size Used Priority\n",
	} {
		w.Files[name] = memory.File{Data: []byte(text), Mode: 0o644}
	}
	w.Files["/etc"] = memory.File{Mode: fs.ModeDir | 0o755}
	return w
}

// Do carries out the change, and simulates the reaction of the kubelet and of etcd.
func (w *World) Do(ctx context.Context, c change.Change) error {
	if err := w.checkChange(ctx, c); err != nil {
		return err
	}
	before := slices.Clone(w.Pods)
	if err := w.World.Do(ctx, c); err != nil {
		return err
	}
	if err := w.startMember(ctx); err != nil {
		return err
	}
	switch c := c.(type) {
	case change.RemoveContainers:
		w.staticPods.removeContainers(c, w.Now())
		for _, p := range before { // the kubelet re-creates static Pods
			if c.Component != "" && !c.KeepPod && c.Matches(p) && w.isRunning(ctx, "") &&
				w.hasFile("/etc/kubernetes/manifests/"+p.Component+".yaml") {
				w.Pods = append(w.Pods, p)
			}
		}
		delete(w.OldCertificates, c.Component)
		if c.Component != "etcd" {
			return nil
		}
		// The etcd member of this machine restarts, and answers again.
		own := w.ownMember(ctx)
		if w.isIsolated(ctx) {
			return nil
		}
		for _, m := range w.MemberList {
			if slices.Equal(m.PeerURLs, own.PeerURLs) {
				w.UnreachableMembers = slices.DeleteFunc(w.UnreachableMembers,
					func(id uint64) bool { return id == m.ID })
			}
		}
	case change.SetService:
		if c.Name == "kubelet" && c.Active {
			return w.kubelet(ctx)
		}
	case change.DeleteObject:
		if c.GVK == state.NodeKind {
			return w.replaceMirrors(ctx, c.Name)
		}
	case change.MutateObject:
		if c.Subresource == "approval" && w.SignRequest != nil {
			return w.signRequest(ctx, c)
		}
		return w.rollOut(ctx, c.Object)
	case change.WriteFile:
		// A running kubelet registers once its API server answers. One without a certificate is restarted
		// before it asks again.
		if path.Dir(c.Path) == "/etc/kubernetes/manifests" && w.isRunning(ctx, "") &&
			w.hasFile("/etc/kubernetes/kubelet.conf") {
			return w.kubelet(ctx)
		}
	}
	return nil
}

// checkChange returns the error with which the API server, etcd or the container runtime refuses a
// change. It reports the progress of pulls of slow images.
func (w *World) checkChange(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.ApplyObject:
		return errors.Join(w.checkAccess(ctx, c.As), w.checkSpace())
	case change.MutateObject:
		return errors.Join(w.checkAccess(ctx, c.As), w.checkSpace())
	case change.DeleteObject:
		return w.checkAccess(ctx, c.Ref.As)
	case change.LabelAndTaintNode:
		return w.checkAccess(ctx, c.As)
	case change.EvictPod:
		if w.EvictionsRefused > 0 {
			w.EvictionsRefused--
			return fmt.Errorf("evicting Pod %s: %w", c.Name, change.ErrDisruptionBudget)
		}
		return w.checkAccess(ctx, c.As)
	case change.SetMember:
		if c.State != change.Voter {
			return nil
		}
		all, err := w.Members(ctx, c.Via)
		for _, m := range all {
			if m.PeerURLs[0] == c.PeerURL && m.Learner && m.Name == "" {
				return fmt.Errorf("etcd member %s has not started", c.PeerURL)
			}
		}
		return err
	case change.SaveSnapshot:
		if w.EtcdSize > 0 {
			return c.CheckSpace(w.EtcdSize, w.DiskFree)
		}
	case change.SaveArchive:
		if w.EtcdSize > 0 {
			return c.CheckSpace(w.EtcdSize, w.DiskFree)
		}
	case change.PullImage:
		if slices.Contains(w.SlowImages, c.Ref) {
			world.ReportProgress(ctx, "attempt 1 of 5 failed, retrying: i/o timeout")
		}
		registry, _, _ := strings.Cut(c.Ref, "/")
		if slices.Contains(w.UnreachableRegistries, registry) {
			w.Attempts = append(w.Attempts, c.Ref)
			return &change.PullError{Ref: c.Ref,
				Cause: "dial tcp: lookup " + registry + ": no such host", Unreachable: true,
				Err: errors.New("unavailable")}
		}
		if slices.Contains(w.MissingImages, c.Ref) {
			return fmt.Errorf("the runtime says: %w",
				&change.PullError{Ref: c.Ref, Cause: "not found", Err: errors.New("not found")})
		}
	}
	return nil
}

// checkSpace returns etcd's error of a write while an alarm says that it has run out of space.
func (w *World) checkSpace() error {
	if strings.Contains(strings.Join(w.MemberProblems, " "), "alarm:NOSPACE") {
		return errors.New("etcdserver: mvcc: database space exceeded")
	}
	return nil
}

// kubelet simulates one that is started. Without an API server it only stores the certificate that
// it has.
func (w *World) kubelet(ctx context.Context) error {
	const dir = "/etc/kubernetes"
	hasServer := w.RemoteAPIServer || w.isRunning(ctx, "kube-apiserver")
	if !hasServer && !w.hasFile(dir+"/kubelet.conf") {
		return nil
	}
	k := simkubelet.Kubelet{
		Node: w.registeredName(ctx), BootstrapConfig: dir + "/bootstrap-kubelet.conf",
		Kubeconfig:  dir + "/kubelet.conf",
		RotatedCert: "/var/lib/kubelet/pki/kubelet-client-current.pem",
	}
	boot, err := w.ReadFile(ctx, k.BootstrapConfig)
	// That of a control plane asks the API server beside it and no other.
	if err == nil && w.isOwnAPIServer(string(boot)) && !w.isRunning(ctx, "kube-apiserver") {
		return nil
	}
	for _, file := range k.Files(ctx, w) {
		if file.Path == k.RotatedCert && w.IssueKubelet != nil {
			file.Data = w.IssueKubelet()
		}
		if err := w.World.Do(ctx, file); err != nil {
			return err
		}
	}
	if !hasServer || !w.hasFile(k.Kubeconfig) {
		return nil
	}
	if err := w.World.Do(ctx, change.ApplyObject{Object: k.NodeObject(), Keep: true}); err != nil {
		return err
	}
	if err := w.reportReady(ctx, k.Node); err != nil {
		return err
	}
	return w.reportAddress(ctx, k.NodeObject())
}

// Await checks the condition up to a hundred times. The simulated clock advances with each check.
func (w *World) Await(ctx context.Context, c world.Condition) error {
	var last error
	for range 100 {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("stopped while waiting for %s: %w", c.Name, err)
		}
		last = c.Check(ctx, w)
		if last == nil {
			return nil
		}
		if world.IsPermanent(last) {
			break
		}
	}
	return fmt.Errorf("waited %s for %s: %w", c.Timeout, c.Name, last)
}

// Program finds an executable in Paths, or the kubelet if Kubelet is set.
func (w *World) Program(_ context.Context, name string) (string, error) {
	if p, ok := w.Paths[name]; ok {
		return p, nil
	}
	if name == "kubelet" && w.Kubelet != "" {
		return "/usr/bin/kubelet", nil
	}
	return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// KubeletVersion is Kubelet.
func (w *World) KubeletVersion(context.Context) (string, error) {
	if w.Kubelet == "" {
		return "", fmt.Errorf("kubelet: %w", fs.ErrNotExist)
	}
	return w.Kubelet, nil
}

// Host is Info.
func (w *World) Host(context.Context) (state.HostInfo, error) { return w.Info, nil }

// Verify returns VerifyErrors as errors.
func (w *World) Verify(context.Context, string) (warnings, errs []error) {
	return nil, w.VerifyErrors
}

// Addresses are Interfaces.
func (w *World) Addresses(context.Context) ([]state.Address, error) { return w.Interfaces, nil }

// Lookup finds a host name in Names.
func (w *World) Lookup(_ context.Context, host string) ([]string, error) {
	if found, ok := w.Names[host]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("lookup %s: no such host", host)
}

// CanListen returns an error for ports in use.
func (w *World) CanListen(_ context.Context, address string) error {
	if owner, ok := w.PortsInUse[address]; ok {
		return &state.PortError{Address: address, Owner: owner,
			Err: errors.New("address already in use")}
	}
	return nil
}

// ServedCertificate is that of etcd or of the API server, which read their files for each
// connection.
func (w *World) ServedCertificate(ctx context.Context, address string) (*x509.Certificate, error) {
	if slices.Contains(w.UnknownServers, address) {
		return nil, fmt.Errorf("the server at %s does not complete the handshake", address)
	}
	if remote := w.RemoteCertificates[address]; remote != nil {
		return remote, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if w.isDown(host) {
		return nil, fmt.Errorf("%w at %s", state.ErrNoServer, address)
	}
	server, ok := map[string]struct{ component, base string }{"2379": {"etcd", "etcd/server"},
		"2380": {"etcd", "etcd/peer"}, "6443": {"kube-apiserver", "apiserver"}}[port]
	if !ok || !w.isRunning(ctx, server.component) {
		return nil, fmt.Errorf("%w at %s", state.ErrNoServer, address)
	}
	if old := w.OldCertificates[server.component]; old != nil {
		return old, nil
	}
	data, err := w.ReadFile(ctx, w.certificatesDir(ctx)+"/"+server.base+".crt")
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

// ServerTime is the time of this machine's clock plus ServerAhead, of any API server that answers.
func (w *World) ServerTime(ctx context.Context, address string) (time.Time, error) {
	if !w.RemoteAPIServer && !w.isRunning(ctx, "kube-apiserver") {
		return time.Time{}, fmt.Errorf("%w at %s", state.ErrNoServer, address)
	}
	return w.Now().Add(w.ServerAhead), nil
}

// Proxy returns no proxy.
func (w *World) Proxy(context.Context, string) (string, error) { return "", nil }

// Fetch answers at the health endpoints of running components, and at dl.k8s.io.
func (w *World) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	ok := state.Response{Status: 200, Body: []byte("ok")}
	if label, found := strings.CutPrefix(req.URL, "https://dl.k8s.io/release/"); found {
		text, published := w.Published[strings.TrimSuffix(label, ".txt")]
		if !published {
			return state.Response{Status: 404}, nil
		}
		return state.Response{Status: 200, Body: []byte(text + "\n")}, nil
	}
	for port, component := range map[string]string{":10257/": "kube-controller-manager",
		":10259/": "kube-scheduler", ":2381/": "etcd", ":6443/livez": "kube-apiserver", ":10248/": ""} {
		if strings.Contains(req.URL, port) && w.isRunning(ctx, component) {
			if component == "etcd" && w.isIsolated(ctx) {
				return state.Response{Status: 503, Body: []byte("no leader")}, nil
			}
			return ok, nil
		}
	}
	return state.Response{}, fmt.Errorf("get %s: connection refused", req.URL)
}

// ClusterInfo is Discovery.
func (w *World) ClusterInfo(_ context.Context, server string, _ []byte) (map[string]string, error) {
	if w.Discovery == nil {
		return nil, fmt.Errorf("get %s: connection refused", server)
	}
	return w.Discovery, nil
}

// Runtimes are Sockets.
func (w *World) Runtimes(context.Context) ([]string, error) { return w.Sockets, nil }

// Runtime is CRI, if its socket answers.
func (w *World) Runtime(_ context.Context, socket string) (state.Runtime, error) {
	if !slices.Contains(w.Sockets, socket) {
		return state.Runtime{}, fmt.Errorf("container runtime at %s is not responding", socket)
	}
	return w.CRI, nil
}

// WasCreated returns false: there is no journal.
func (w *World) WasCreated(string) bool { return false }

// Clone returns a copy of the world.
func (w *World) Clone() *World {
	c := *w
	c.World = w.World.Clone()
	w.staticPods.mu.Lock()
	c.staticPods = &podTable{pods: maps.Clone(w.staticPods.pods),
		uids: maps.Clone(w.staticPods.uids)}
	w.staticPods.mu.Unlock()
	c.Names, c.Paths, c.PortsInUse, c.Discovery = maps.Clone(w.Names), maps.Clone(w.Paths),
		maps.Clone(w.PortsInUse), maps.Clone(w.Discovery)
	c.OldCertificates = maps.Clone(w.OldCertificates)
	w.clusters.mu.Lock()
	c.clusters.mu, c.clusters.members = &sync.Mutex{}, map[string][]state.Member{}
	for token, members := range w.clusters.members {
		c.clusters.members[token] = slices.Clone(members)
	}
	w.clusters.mu.Unlock()
	return &c
}

// Snapshot returns the whole state as text, without times.
func (w *World) Snapshot() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(w.Files)) {
		f := w.Files[p]
		fmt.Fprintf(&b, "file %s %v %d:%d\n%s\n", path.Clean(p), f.Mode, f.UID, f.GID, f.Data)
	}
	for _, s := range slices.Sorted(maps.Keys(w.Services)) {
		state := w.Services[s]
		state.Since = time.Time{}
		fmt.Fprintf(&b, "service %s %+v\n", s, state)
	}
	fmt.Fprintf(&b, "mounts %v\nimages %v\npods %v\nmembers %v\n", w.MountList, w.ImageList, w.Pods,
		w.MemberList)
	fmt.Fprintf(&b, "links %v\nrules %q\nvirtual servers %v\n", w.LinkList, w.Rules,
		w.VirtualServerList)
	var objects []string
	for k, o := range w.Objects {
		objects = append(objects, fmt.Sprintf("object %v %v\n", k, o.Object))
	}
	slices.Sort(objects)
	return b.String() + strings.Join(objects, "")
}
