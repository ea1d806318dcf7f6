package staticpod_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	apiserver, controllers, scheduler = "kube-apiserver", "kube-controller-manager",
		"kube-scheduler"
	etcdComponent = "etcd"
)

// components lists the components in the order of their replacement, with their probes.
var components = []struct{ name, port, path string }{
	{etcdComponent, "2381", "/readyz"}, {apiserver, "6443", "/livez"},
	{controllers, "10257", "/healthz"}, {scheduler, "10259", "/livez"},
}

// newManifest returns the static Pod manifest of a component.
func newManifest(component, version string, args ...string) []byte {
	var port, probe string
	for _, c := range components {
		if c.name == component {
			port, probe = c.port, c.path
		}
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: kube-system
  labels: {component: %[1]s, tier: control-plane}
spec:
  containers:
  - name: %[1]s
    image: registry.example/%[1]s:%[2]s
    command: [%[1]s]
    args: [%[5]s]
    ports: [{name: probe-port, containerPort: %[3]s}]
    startupProbe: {httpGet: {host: 127.0.0.1, path: %[4]s, port: probe-port, scheme: HTTPS}}
`, component, version, port, probe, strings.Join(args, ", "))
	return []byte(text)
}

// newMachine is a control plane node with version v1.
func newMachine(t *testing.T) *fake.World {
	t.Helper()
	w := fake.New()
	w.Clock = newSecondsClock(w.Now())
	changes := []change.Change{
		change.WriteFile{Path: "/etc/kubernetes/kubelet.conf"},
		change.WriteFile{Path: "/etc/kubernetes/admin.conf"},
		change.WriteFile{Path: "/var/lib/kubelet/config.yaml"},
		change.SetService{Name: "kubelet", Active: true},
	}
	for _, c := range components {
		changes = append(changes, change.WriteFile{
			Path: "/etc/kubernetes/manifests/" + c.name + ".yaml", Data: newManifest(c.name, "v1"),
			Mode: 0o600,
		})
	}
	for _, c := range changes {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Containers(t.Context(), ""); err != nil { // the kubelet creates the Pods
		t.Fatal(err)
	}
	w.CrashLog = func(_ string, manifest []byte) string {
		for _, arg := range []string{"--bad", "--worse"} {
			if strings.Contains(string(manifest), arg) {
				return "Error: unknown flag: " + arg
			}
		}
		return ""
	}
	return w
}

// newSecondsClock returns a clock that advances by a second at each reading.
func newSecondsClock(from time.Time) func() time.Time {
	tick := memory.NewTickingClock(time.Time{})
	return func() time.Time { return from.Add(tick().Sub(time.Time{}) * 1000) }
}

// outcome is the result of a run.
type outcome struct {
	replaced []string
	err      error
	did      []change.Change
	messages []string
}

func (o outcome) targets() []string {
	var all []string
	for _, c := range o.did {
		all = append(all, c.Target())
	}
	return all
}

// runReplace runs Replace in a world.
func runReplace(ctx context.Context, in world.World,
	wanted ...staticpod.Manifest) (out outcome) {
	e := engine.New(engine.Env{
		World: in,
		Emit: func(ev engine.Event) {
			switch ev.Kind {
			case engine.Did:
				out.did = append(out.did, ev.Change)
			case engine.Info, engine.Warned:
				out.messages = append(out.messages, ev.Text)
			}
		},
	})
	out.replaced, out.err = newReplacement().Replace(ctx, e, wanted...)
	return out
}

func newReplacement() staticpod.Replacement {
	n := &node.Node{Local: node.Local{
		Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10", BindPort: 6443,
		Paths:     node.DefaultPaths(),
		CRISocket: "unix:///var/run/containerd/containerd.sock",
	}}
	n.Timeouts.Upgrade, n.Timeouts.Kubelet = time.Minute, time.Minute
	return staticpod.Replacement{Node: n, As: state.Identity{Server: n.LocalServerURL()}}
}

// newManifests returns the manifests of all components in a version.
func newManifests(version string) []staticpod.Manifest {
	var wanted []staticpod.Manifest
	for _, c := range components {
		wanted = append(wanted,
			staticpod.Manifest{Component: c.name, Data: newManifest(c.name, version)})
	}
	return wanted
}

// withArgument adds an argument to the manifest of one component.
func withArgument(wanted []staticpod.Manifest, component, version,
	arg string) []staticpod.Manifest {
	wanted = slices.Clone(wanted)
	for i, m := range wanted {
		if m.Component == component {
			wanted[i].Data = newManifest(component, version, arg)
		}
	}
	return wanted
}

// imageVersions returns the image versions in the manifests on disk, in the order of components.
func imageVersions(w *fake.World) string {
	var found []string
	for _, c := range components {
		text := string(w.Files["/etc/kubernetes/manifests/"+c.name+".yaml"].Data)
		_, rest, _ := strings.Cut(text, c.name+":v")
		version, _, _ := strings.Cut(rest, "\n")
		found = append(found, "v"+version)
	}
	return strings.Join(found, " ")
}

// listTemporaryFiles returns the files in /etc/kubernetes/tmp, without directories.
func listTemporaryFiles(w *fake.World) []string {
	var names []string
	for name, f := range w.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/tmp/") && !f.Mode.IsDir() {
			names = append(names, strings.TrimPrefix(name, "/etc/kubernetes/tmp/"))
		}
	}
	slices.Sort(names)
	return names
}
