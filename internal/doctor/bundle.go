package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/redact"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Limits of a bundle.
const (
	logLimit    = 512 << 10 // bytes of the log of a service
	fileLimit   = 2 << 20   // bytes of a file in the bundle
	objectLimit = fileLimit / 16
	bundleLimit = 64 << 20 // bytes of all files, before compression
	collectTime = 30 * time.Second
)

// bundle collects files. A part that cannot be read is listed with the reason in errors.txt.
type bundle struct {
	*machine
	mu     sync.Mutex
	files  map[string][]byte
	failed []string
}

// Bundle returns a support bundle as tar.gz: the diagnosis, versions, logs of the kubelet, the runtime
// and the static Pods, manifests and other configuration of this machine, descriptions of its
// certificates, and objects of the cluster. Private keys and Secrets are not read for it, and all else
// loses what looks like a secret. It takes at most half a minute, and is at most 64 MiB before
// compression.
func Bundle(ctx context.Context, e *engine.Env, as state.Identity, d Diagnosis) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	b := &bundle{machine: examine(limited, e, as), files: map[string][]byte{}}
	text, err := json.MarshalIndent(d, "", "    ")
	if err != nil {
		return nil, err
	}
	b.add("doctor.json", text) // whose texts have lost their secrets
	var wg sync.WaitGroup
	for _, collect := range []func(context.Context, state.Reader){b.addVersions, b.addHost, b.addLogs,
		b.addFiles, b.addCertificates, b.addObjects, b.addMembers} {
		wg.Go(func() { collect(limited, e.World) })
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(b.failed) > 0 {
		slices.Sort(b.failed)
		b.add("errors.txt", []byte(redact.Text(strings.Join(b.failed, "\n")+"\n")))
	}
	return b.pack(e.World.Now())
}

func (b *bundle) add(name string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data = []byte(untrusted.Screen(string(data)))
	if len(data) > fileLimit { // of a log the end says most
		data = data[len(data)-fileLimit:]
	}
	b.files[name] = data
}

func (b *bundle) fail(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = append(b.failed, fmt.Sprintf("%s: %v", name, err))
}

// addValue adds a value as YAML without secrets, or the error with which it was read.
func (b *bundle) addValue(name string, value any, err error) {
	var text []byte
	if err == nil {
		text, err = redact.Object(value)
	}
	if err != nil {
		b.fail(name, err)
		return
	}
	b.add(name, text)
}

// pack writes the archive. Files that would exceed the limit are left out, and listed.
func (b *bundle) pack(at time.Time) ([]byte, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	size, left := 0, []string(nil)
	write := func(name string, data []byte) error {
		header := &tar.Header{Name: path.Join("kubeadm-bundle", name), Mode: 0o600,
			Size: int64(len(data)), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(data)
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if size += len(b.files[name]); size > bundleLimit {
			left = append(left, name)
			continue
		}
		if err := write(name, b.files[name]); err != nil {
			return nil, err
		}
	}
	if len(left) > 0 {
		if err := write("left-out.txt", []byte(strings.Join(left, "\n")+"\n")); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), zip.Close())
	return packed.Bytes(), err
}

func (b *bundle) addVersions(ctx context.Context, r state.Reader) {
	versions := map[string]string{"kubeadm": b.env.Tool.String()}
	if v, err := r.KubeletVersion(ctx); err == nil {
		versions["kubelet"] = v
	}
	if rt, err := b.runtime(ctx, r); err == nil {
		versions["runtime"] = rt.Name + " " + rt.Version
		b.addValue("host/runtime.yaml", rt, nil)
	}
	for name, file := range map[string]string{"kernel": "/proc/version", "os": "/etc/os-release"} {
		if data, err := r.ReadFile(ctx, file); err == nil {
			versions[name] = string(data)
		}
	}
	b.addValue("versions.yaml", versions, nil)
}

func (b *bundle) addHost(ctx context.Context, r state.Reader) {
	for _, file := range []string{"/proc/swaps", "/proc/meminfo", "/proc/loadavg", "/proc/mounts",
		"/proc/cgroups", "/proc/modules", "/proc/net/route", "/etc/resolv.conf",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/bridge/bridge-nf-call-iptables"} {
		if data, err := r.ReadFile(ctx, file); err == nil {
			b.add(path.Join("host", file), []byte(redact.Text(string(data))))
		}
	}
	addresses, err := r.Addresses(ctx)
	b.addValue("host/addresses.yaml", addresses, err)
	services := map[string]state.Service{}
	for _, name := range []string{"kubelet", "containerd", "crio", "firewalld", "systemd-resolved"} {
		if s, err := r.Service(ctx, name); err == nil && s.Exists {
			services[name] = s
		}
	}
	b.addValue("host/services.yaml", services, nil)
}

func (b *bundle) addLogs(ctx context.Context, r state.Reader) {
	for _, unit := range []string{"kubelet", "containerd", "crio"} {
		log, err := r.ServiceLog(ctx, unit, time.Time{}, logLimit)
		if err != nil {
			b.fail("log of "+unit, err)
		} else if log != "" {
			b.add("logs/"+unit+".log", []byte(redact.Text(log)))
		}
	}
	all, err := r.Containers(ctx, b.CRISocket)
	if err != nil {
		b.fail("containers", err)
		return
	}
	for i, c := range all {
		if c.Namespace == metav1.NamespaceSystem {
			b.add(fmt.Sprintf("logs/%s-%s-%d.log", path.Base(c.Pod), path.Base(c.Name), c.Attempt),
				[]byte(redact.Text(c.Log)))
		}
		all[i].Log = ""
	}
	b.addValue("host/containers.yaml", all, nil)
}

// addFiles adds configuration that kubeadm, the kubelet, the runtime and the Pod network use. In a file
// of YAML or JSON that cannot be parsed the secrets cannot be found by their place: it is left out.
func (b *bundle) addFiles(ctx context.Context, r state.Reader) {
	paths := b.Paths
	texts := []string{paths.KubeletFlags(), "/etc/containerd/config.toml", "/etc/crio/crio.conf",
		"/etc/default/kubelet",
		"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
		"/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"}
	documents := []string{paths.KubeletConfig(), paths.KubeletInstanceConfig()}
	for _, dir := range []string{paths.Manifests(), node.CNIConfigDir} {
		found, err := r.ReadDir(ctx, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.fail(dir, err)
		}
		for _, f := range found {
			// A kubeconfig of the Pod network is all credentials.
			if f.Mode.IsRegular() && !strings.Contains(path.Base(f.Path), "kubeconfig") {
				documents = append(documents, f.Path)
			}
		}
	}
	for _, file := range slices.Concat(texts, documents) {
		data, err := r.ReadFile(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if slices.Contains(texts, file) {
				data = []byte(redact.Text(string(data)))
			} else if data, err = redact.Document(data); err != nil {
				err = fmt.Errorf("left out, because secrets cannot be removed from it: %w", err)
			}
		}
		if err != nil {
			b.fail(file, err)
			continue
		}
		b.add(path.Join("files", file), data)
	}
}

// certificateFacts are what is public of a certificate.
type certificateFacts struct {
	Subject   string   `json:"subject"`
	Issuer    string   `json:"issuer"`
	NotBefore string   `json:"notBefore"`
	NotAfter  string   `json:"notAfter"`
	Names     []string `json:"names,omitempty"`
	Pin       string   `json:"publicKeyHash"`
}

// addCertificates describes the certificates and kubeconfigs of this machine. Keys are not read.
func (b *bundle) addCertificates(ctx context.Context, r state.Reader) {
	facts := map[string][]certificateFacts{}
	describe := func(name string, data []byte) {
		certs, err := pki.ParseCertificates(data)
		if err != nil {
			b.fail(name, err)
			return
		}
		for _, c := range certs {
			names := slices.Clone(c.DNSNames)
			for _, ip := range c.IPAddresses {
				names = append(names, ip.String())
			}
			facts[name] = append(facts[name], certificateFacts{c.Subject.String(), c.Issuer.String(),
				c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339), names,
				pki.PinOf(c).String()})
		}
	}
	for _, p := range pki.Profiles() {
		if data, err := r.ReadFile(ctx, b.Paths.Cert(p.Base)); err == nil {
			describe(b.Paths.Cert(p.Base), data)
		}
	}
	kubeconfigs := map[string]map[string]string{}
	for _, p := range pki.KubeconfigProfiles() {
		file := b.Paths.Kubeconfig(p.File)
		data, err := r.ReadFile(ctx, file)
		if err != nil {
			continue
		}
		config, err := pki.ParseKubeconfig(data)
		if err != nil {
			b.fail(file, err)
			continue
		}
		facts := map[string]string{"context": config.CurrentContext}
		if cluster, err := config.CurrentCluster(); err == nil {
			facts["server"] = cluster.Server
			describe(file+" (its CA)", cluster.CertificateAuthorityData)
		}
		if user, err := config.CurrentUser(); err == nil && len(user.ClientCertificateData) > 0 {
			describe(file+" (its user)", user.ClientCertificateData)
		}
		kubeconfigs[file] = facts
	}
	b.addValue("certificates.yaml", facts, nil)
	b.addValue("kubeconfigs.yaml", kubeconfigs, nil)
}

// addObjects adds objects of the cluster, without Secrets.
func (b *bundle) addObjects(ctx context.Context, r state.Reader) {
	if b.cluster.as.Kubeconfig == "" {
		return
	}
	if _, err := b.cluster.api(ctx, r); err != nil {
		b.fail("objects of the cluster", err)
		return
	}
	const system, public = metav1.NamespaceSystem, metav1.NamespacePublic
	pods, whole := corev1.SchemeGroupVersion.WithKind("Pod"), []string{"spec", "status"} // without managedFields
	// The file of all Nodes or Pods may be full before those of the control plane, and so may the time be over.
	b.addList(ctx, r, "cluster/control-plane-nodes.yaml",
		state.Query{GVK: state.NodeKind, Fields: nodeFields(), LabelSelector: node.ControlPlaneLabel})
	b.addList(ctx, r, "cluster/control-plane-pods.yaml",
		state.Query{GVK: pods, Namespace: system, Fields: whole, LabelSelector: "tier=control-plane"})
	for name, q := range map[string]state.Query{
		"nodes":             {GVK: state.NodeKind, Fields: nodeFields()},
		"pods":              {GVK: pods, Namespace: system, Fields: whole},
		"events":            {GVK: corev1.SchemeGroupVersion.WithKind("Event"), Namespace: system},
		"services":          {GVK: corev1.SchemeGroupVersion.WithKind("Service"), Namespace: system},
		"configmaps":        {GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: system},
		"public-configmaps": {GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: public},
		"deployments":       {GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Namespace: system},
		"daemonsets":        {GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Namespace: system},
		"leases":            {GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Namespace: system},
		"certificaterequests": {GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
			Fields: whole},
	} {
		b.addList(ctx, r, "cluster/"+name+".yaml", q)
	}
}

// nodeFields are the fields of a Node in the bundle: all but images, runtimeHandlers, features, declaredFeatures, config and
// phase of its status. The images are most of a Node.
func nodeFields() []string {
	return []string{"spec", "status.addresses", "status.allocatable", "status.capacity", "status.conditions",
		"status.daemonEndpoints", "status.nodeInfo", "status.volumesAttached", "status.volumesInUse"}
}

// Lines that end a list of which objects are missing.
const (
	leftOut    = "# more objects are left out: this file has reached its limit\n"
	incomplete = "# the list is incomplete: see errors.txt\n"
)

// addList adds a list of objects, each as it arrives, as a cluster may have very many. Once the file is full, no more are
// read. One that is longer than objectLimit is left out, so that it does not take the place of many.
func (b *bundle) addList(ctx context.Context, r state.Reader, name string, q state.Query) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var text bytes.Buffer
	isFull := false
	q.As = b.cluster.as
	q.Keep = func(u *unstructured.Unstructured) bool {
		if isFull {
			return false
		}
		one, err := redact.Object([]unstructured.Unstructured{*u})
		add := untrusted.Screen(string(one)) // which may be longer
		switch title := untrusted.Line(u.GetName()); {
		case err != nil:
			b.fail(name, fmt.Errorf("%s: %w", title, err))
			add = "# " + title + " is left out: see errors.txt\n"
		case len(add) > objectLimit:
			add = fmt.Sprintf("# %s is left out: %d bytes\n", title, len(add))
		}
		if text.Len()+len(add)+len(leftOut)+len(incomplete) > fileLimit {
			isFull = true
			stop()
			return false
		}
		text.WriteString(add)
		return false
	}
	_, err := r.List(ctx, q)
	switch {
	case isFull:
		text.WriteString(leftOut)
	case err != nil:
		b.fail(name, err)
		if text.Len() > 0 {
			text.WriteString(incomplete)
		}
	case text.Len() == 0:
		text.WriteString("[]\n")
	}
	if text.Len() > 0 {
		b.add(name, text.Bytes())
	}
}

func (b *bundle) addMembers(ctx context.Context, r state.Reader) {
	if !b.hasEtcd {
		return
	}
	health, err := b.members(ctx, r)
	facts := []map[string]any{}
	for _, member := range health.Members {
		one := map[string]any{"name": member.Name, "id": fmt.Sprintf("%x", member.ID),
			"learner": member.Learner, "peerURLs": member.PeerURLs, "status": health.Healthy[member.ID]}
		if err := health.Unhealthy[member.ID]; err != nil {
			one["error"] = err.Error()
		}
		facts = append(facts, one)
	}
	b.addValue("cluster/etcd-members.yaml", facts, err)
}
