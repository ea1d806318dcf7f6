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

// components in the order in which they are replaced, with the port and path of their probes.
var components = []struct{ name, port, path string }{
	{etcdComponent, "2381", "/readyz"}, {apiserver, "6443", "/livez"},
	{controllers, "10257", "/healthz"}, {scheduler, "10259", "/livez"},
}

// manifestOf is the static Pod of a component in some version, with arguments.
func manifestOf(component, version string, args ...string) []byte {
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

// controlPlane is a machine whose control plane runs version v1.
func controlPlane(t *testing.T) *fake.World {
	t.Helper()
	w := fake.New()
	w.Clock = seconds(w.Now())
	changes := []change.Change{
		change.WriteFile{Path: "/etc/kubernetes/kubelet.conf"},
		change.WriteFile{Path: "/etc/kubernetes/admin.conf"},
		change.WriteFile{Path: "/var/lib/kubelet/config.yaml"},
		change.SetService{Name: "kubelet", Active: true},
	}
	for _, c := range components {
		changes = append(changes, change.WriteFile{
			Path: "/etc/kubernetes/manifests/" + c.name + ".yaml", Data: manifestOf(c.name, "v1"),
			Mode: 0o600,
		})
	}
	for _, c := range changes {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Containers(t.Context(), ""); err != nil { // the kubelet starts the Pods
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

// seconds is a clock that goes on by a second at each look.
func seconds(from time.Time) func() time.Time {
	tick := memory.NewTickingClock(time.Time{})
	return func() time.Time { return from.Add(tick().Sub(time.Time{}) * 1000) }
}

// outcome is what a run has said and changed.
type outcome struct {
	replaced []string
	err      error
	did      []change.Change
	said     []string
}

func (o outcome) targets() []string {
	var all []string
	for _, c := range o.did {
		all = append(all, c.Target())
	}
	return all
}

// replace runs a replacement in a world, with the values of earlier, unfinished runs.
func replace(ctx context.Context, in world.World,
	wanted ...staticpod.Manifest) (out outcome) {
	e := engine.New(engine.Env{
		World: in,
		Emit: func(ev engine.Event) {
			switch ev.Kind {
			case engine.Did:
				out.did = append(out.did, ev.Change)
			case engine.Info, engine.Warned:
				out.said = append(out.said, ev.Text)
			}
		},
	})
	out.replaced, out.err = replacement().Replace(ctx, e, wanted...)
	return out
}

func replacement() staticpod.Replacement {
	n := &node.Node{Local: node.Local{
		Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10", BindPort: 6443,
		Paths:     node.DefaultPaths(),
		CRISocket: "unix:///var/run/containerd/containerd.sock",
	}}
	n.Timeouts.Upgrade, n.Timeouts.Kubelet = time.Minute, time.Minute
	return staticpod.Replacement{Node: n, As: state.Identity{Server: n.LocalServerURL()}}
}

// all are manifests of every component in a version.
func all(version string) []staticpod.Manifest {
	var wanted []staticpod.Manifest
	for _, c := range components {
		wanted = append(wanted,
			staticpod.Manifest{Component: c.name, Data: manifestOf(c.name, version)})
	}
	return wanted
}

// withArgument is the same with an argument for one component.
func withArgument(wanted []staticpod.Manifest, component, version,
	arg string) []staticpod.Manifest {
	wanted = slices.Clone(wanted)
	for i, m := range wanted {
		if m.Component == component {
			wanted[i].Data = manifestOf(component, version, arg)
		}
	}
	return wanted
}

// versions are the images that the manifests on disk name, without what is the same in all.
func versions(w *fake.World) string {
	var found []string
	for _, c := range components {
		text := string(w.Files["/etc/kubernetes/manifests/"+c.name+".yaml"].Data)
		_, rest, _ := strings.Cut(text, c.name+":v")
		version, _, _ := strings.Cut(rest, "\n")
		found = append(found, "v"+version)
	}
	return strings.Join(found, " ")
}

// left are the files below /etc/kubernetes/tmp, without directories.
func left(w *fake.World) []string {
	var names []string
	for name, f := range w.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/tmp/") && !f.Mode.IsDir() {
			names = append(names, strings.TrimPrefix(name, "/etc/kubernetes/tmp/"))
		}
	}
	slices.Sort(names)
	return names
}
