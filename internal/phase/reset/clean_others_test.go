package reset_test

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// A set of IPVS can only be removed with ipset.
func TestCleanWithoutIPSet(t *testing.T) {
	s := newScene(alone, member(1))
	s.LinkList = []state.Link{{Name: "kube-ipvs0"}}
	s.Rules = map[string]string{"iptables-nft": "", "ip6tables-legacy": "", "nft": ""}
	s.intent.Clean = []node.CleanTarget{node.CleanRules}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	if !s.said("ipset is not installed, so rules") || s.said("tables is not installed") ||
		s.said("nft is not installed") {
		t.Errorf("said was %q", s.lines)
	}
}

// noPrograms is a machine without ip, iptables and nft.
type noPrograms struct{ world.World }

func (noPrograms) Links(context.Context) ([]state.Link, error) { return nil, memoryNotFound() }

func memoryNotFound() error {
	_, err := memory.New().PacketRules(context.Background(), "ip")
	return err
}

// A missing program is a warning that names it, and the rest is removed.
func TestCleanWithoutPrograms(t *testing.T) {
	s := newScene(alone, member(1))
	s.e.World = noPrograms{s}
	s.intent.Clean = node.CleanTargets()
	s.Files["/etc/cni/net.d"] = memory.File{Mode: fs.ModeDir | 0o755}
	s.Files["/etc/cni/net.d/10-a.conf"] = memory.File{Mode: 0o644}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"install iproute2", "iptables is not installed, so rules",
		"ip6tables is not installed, so rules", "nft is not installed, so rules"} {
		if !s.said(want) {
			t.Errorf("it does not say %q: %q", want, s.lines)
		}
	}
	if s.said("ipset is not installed") {
		t.Error("kube-proxy has not used IPVS")
	}
	if text := reset.ClosingText(s.e); !strings.Contains(text, "packet filter rules") ||
		strings.Contains(text, "CNI configuration") {
		t.Errorf("the closing text is %s", text)
	}
	if _, there := s.Files["/etc/cni/net.d/10-a.conf"]; there {
		t.Error("the CNI configuration is still there")
	}
}

// The state of a network of others whose name is not known must not be removed.
func TestCNIStateStaysWithUnreadableConfig(t *testing.T) {
	s := newScene(alone, member(1))
	s.intent.Clean = []node.CleanTarget{node.CleanCNI}
	const network = "/var/lib/cni/networks/web/10.4.0.2"
	for name, text := range map[string]string{"/etc/cni/net.d/x/nerdctl-web.conflist": "{",
		network: "id"} {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			s.Files[dir] = memory.File{Mode: fs.ModeDir | 0o755}
		}
		s.Files[name] = memory.File{Data: []byte(text), Mode: 0o644}
	}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	if _, there := s.Files[network]; !there ||
		!s.said("reading the network of /etc/cni/net.d/x/nerdctl-web.conflist") {
		t.Errorf("%s is there: %v; said was %q", network, there, s.lines)
	}
}

// A kubeconfig of another cluster or of several, one that cannot be compared and one that cannot be
// parsed stay.
func TestForeignKubeconfigStays(t *testing.T) {
	const file = "/root/.kube/config"
	for name, c := range map[string]struct{ text, says string }{
		"of no known cluster": {"{apiVersion: v1, kind: Config}",
			"the cluster's CA is no longer on this machine to compare it with"},
		"broken": {"{", "is not removed"},
	} {
		s := newScene(alone, member(1))
		s.Info.Env = []string{"HOME=/root"}
		s.intent.Clean = []node.CleanTarget{node.CleanKubeconfig}
		s.Files[file] = memory.File{Data: []byte(c.text), Mode: 0o600}
		if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
			t.Fatal(err)
		}
		if _, there := s.Files[file]; !there || !s.said(c.says) {
			t.Errorf("%s: it is there: %v; said was %q", name, there, s.lines)
		}
	}
}

// leaky is a machine whose container runtime removes Pods and leaves their network namespaces behind.
type leaky struct{ world.World }

func (leaky) SandboxNetworks(context.Context, string) (map[string]string, error) {
	return map[string]string{"1": "/run/netns/cni-1", "2": "/run/netns/cni-gone"}, nil
}

// A namespace with a similar name may be of another container engine.
func TestOnlyNetworkNamespacesOfPodsAreRemoved(t *testing.T) {
	s := newScene(alone, member(1))
	s.e.World = leaky{s}
	s.intent.Clean = []node.CleanTarget{node.CleanInterfaces}
	s.MountList = []string{"/run/netns/cni-1", "/run/netns/cni-2"}
	s.LinkList = []state.Link{{Name: "veth1", Namespace: "cni-1"}, {Name: "veth2", Namespace: "cni-2"}}
	for _, file := range s.MountList {
		s.Files[file] = memory.File{Mode: 0o444}
	}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	if _, there := s.Files["/run/netns/cni-1"]; there || !slices.Equal(s.MountList, []string{"/run/netns/cni-2"}) {
		t.Errorf("cni-1 is there: %v; mounts: %q", there, s.MountList)
	}
	if len(s.LinkList) != 1 || s.LinkList[0].Name != "veth2" {
		t.Errorf("interfaces: %v", s.LinkList)
	}
}

// Directories that were created to be mounted are removed, unless they are used or not all is cleaned.
func TestEmptyDirectoriesAreRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		targets []node.CleanTarget
		file    string // of the user
		left    string
	}{
		"all":         {node.CleanTargets()[:6], "", ""},
		"with plugin": {node.CleanTargets(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/mine", "/usr/libexec/kubernetes"},
		"some":        {node.CleanTargets()[1:], "", "/usr/lib/modules"},
	} {
		s := newScene(alone, member(1))
		s.intent.Clean = c.targets
		for _, dir := range []string{"/usr/lib/modules", "/run/netns", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"} {
			for ; dir != "/"; dir = path.Dir(dir) {
				s.Files[dir] = memory.File{Mode: fs.ModeDir | 0o755}
			}
		}
		if c.file != "" {
			s.Files[c.file] = memory.File{Mode: 0o755}
		}
		if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"/usr/lib/modules", "/usr/libexec/kubernetes"} {
			if _, there := s.Files[dir]; there != (dir == c.left || name == "some") {
				t.Errorf("%s: %s is there: %v", name, dir, there)
			}
		}
	}
}

// leaving returns a machine that leaves a cluster of two nodes.
func leaving(t *testing.T, nodes string) *scene {
	t.Helper()
	s := newScene(alone, member(1))
	s.RemoteAPIServer = true
	s.e.Local.Name, s.intent.LeaveCluster, s.intent.DrainTimeout = "cp1", true, 300*time.Millisecond
	s.e.Admin = func(context.Context) (state.Identity, error) {
		return state.Identity{Kubeconfig: "/root/admin.conf"}, nil
	}
	s.Files["/var/lib/kubelet/config.yaml"] = memory.File{Mode: 0o644}
	s.Files["/root/admin.conf"] = memory.File{Mode: 0o600, Data: []byte(`{apiVersion: v1, kind: Config,
  clusters: [{name: c, cluster: {server: "https://192.0.2.9:6443"}}], users: [{name: u, user: {}}],
  contexts: [{name: u@c, context: {cluster: c, user: u}}], current-context: u@c}`)}
	if err := s.AddObjects(nodes); err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	ownNode = `{apiVersion: v1, kind: Node, metadata: {name: cp1},
  status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}`
	otherNode = "\n---\n{apiVersion: v1, kind: Node, metadata: {name: other}}"
	ownPod    = "\n---\n" + `{apiVersion: v1, kind: Pod, spec: {nodeName: cp1},
  metadata: {name: web, namespace: default, uid: "1"}}`
)

func TestLeavingCluster(t *testing.T) {
	for name, c := range map[string]struct {
		objects string
		prepare func(*scene)
		says    string
		deleted bool
	}{
		"drained": {ownNode + otherNode + ownPod, func(*scene) {}, "Pod default/web has no controller", true},
		"budget at first": {ownNode + otherNode + ownPod, func(s *scene) { s.EvictionsRefused = 2 },
			"do not allow the eviction of default/web yet", true},
		"kubelet is down": {ownNode + otherNode + ownPod, func(s *scene) {
			s.Services["kubelet"] = state.Service{Exists: true}
		}, "is not drained", true},
		"the only node": {ownNode, func(*scene) {}, "the only node", false},
		"no Node":       {strings.ReplaceAll(ownNode, "cp1", "x") + otherNode, func(*scene) {}, "no Node cp1", false},
		"reset before": {ownNode + otherNode, func(s *scene) { delete(s.Files, "/var/lib/kubelet/config.yaml") },
			"delete the Node if it still exists: kubectl delete node cp1", false},
		"not asked for": {ownNode + otherNode, func(s *scene) { s.intent.LeaveCluster = false }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := leaving(t, c.objects)
			c.prepare(s)
			if err := reset.LeaveCluster.Run(t.Context(), s.e); err != nil {
				t.Fatal(err)
			}
			_, err := s.Object(t.Context(), state.Ref{GVK: state.NodeKind, Name: "cp1"})
			if text := reset.ClosingText(s.e); strings.Contains(text, "kubectl delete node") !=
				(name == "reset before" || name == "not asked for") {
				t.Errorf("the closing text is %s", text)
			}
			if name != "no Node" && (err != nil) != c.deleted || c.says != "" && !s.said(c.says) {
				t.Errorf("reading the Node: %v; said was %q", err, s.lines)
			}
		})
	}
}

// noDelete is a world whose API server does not delete objects.
type noDelete struct{ world.World }

func (w noDelete) Do(ctx context.Context, c change.Change) error {
	if _, ok := c.(change.DeleteObject); ok {
		return errors.New("refused")
	}
	return w.World.Do(ctx, c)
}

// The error of a Node that cannot be deleted says what has happened to it.
func TestLeavingClusterFailsToDelete(t *testing.T) {
	s := leaving(t, ownNode+otherNode)
	s.e.World = noDelete{s}
	err := reset.LeaveCluster.Run(t.Context(), s.e)
	if err == nil || strings.Contains(err.Error(), "nothing was removed") ||
		!strings.Contains(err.Error(), "may be cordoned and drained") ||
		!strings.Contains(strings.Join(problem.Hints(err), "\n"), "kubectl uncordon cp1") {
		t.Errorf("got %v\n%q", err, problem.Hints(err))
	}
}

// A budget that never allows the eviction ends the reset, with what to do.
func TestLeavingClusterIsRefused(t *testing.T) {
	s := leaving(t, ownNode+otherNode+ownPod)
	s.EvictionsRefused = 1 << 20
	err := reset.LeaveCluster.Run(t.Context(), s.e)
	hints := strings.Join(problem.Hints(err), "\n")
	if err == nil || errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "nothing was removed from this machine") ||
		!strings.Contains(hints, "poddisruptionbudgets") ||
		!strings.Contains(hints, "kubectl uncordon cp1") {
		t.Errorf("got %v\n%s", err, hints)
	}
	if !s.Services["kubelet"].Active {
		t.Error("the kubelet was stopped")
	}
}
