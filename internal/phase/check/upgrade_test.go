package check

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world/fake"
)

const (
	oldVersion = "v1.36.3"
	newVersion = "v1.37.1"
)

func newUpgradedNode(version string) *node.Node {
	return &node.Node{
		Local: node.Local{Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10",
			BindPort: 6443, Paths: node.DefaultPaths()},
		Cluster: node.Cluster{Version: version, ImageRepository: "registry.k8s.io",
			ServiceSubnet: "10.96.0.0/12", Etcd: node.Etcd{DataDir: "/var/lib/etcd"}},
	}
}

func TestUpgradeOrder(t *testing.T) {
	for name, c := range map[string]struct {
		stored, own, other string // versions; no own for one that is not known
		manager            string // version of this node's kube-controller-manager; stored if empty
		tool               string // newVersion if empty
		record             string // version of an upgrade of this node that has not ended
		manifest           string // version of this node's API server on disk; own if empty
		ignored            bool
		want               string // part of the error, or of a warning
		isWarning          bool
	}{
		"after upgrade apply": {stored: newVersion, own: oldVersion, other: newVersion,
			isWarning: true,
			want:      "the API servers have different versions"},
		"again": {stored: newVersion, own: newVersion, other: newVersion},
		"a newer patch": {stored: newVersion, own: "v1.37.0", other: newVersion,
			isWarning: true,
			want:      "the API servers have different versions"},
		"before upgrade apply": {stored: oldVersion, own: oldVersion, other: oldVersion,
			want: "there is nothing to upgrade to: the cluster stores Kubernetes v1.36.3"},
		"interrupted after the API server": {stored: oldVersion, own: oldVersion, other: oldVersion,
			manager: "v1.35.4"},
		"interrupted after all static Pods": {stored: oldVersion, own: oldVersion, other: oldVersion,
			record: oldVersion},
		"an earlier upgrade was interrupted": {stored: oldVersion, own: oldVersion, other: oldVersion,
			record: "v1.35.4", want: "there is nothing to upgrade to"},
		"upgrade apply was killed after the API server": {stored: oldVersion, own: newVersion, other: oldVersion,
			record: newVersion, want: "runs v1.37.1, but the cluster stores Kubernetes v1.36.3"},
		"upgrade apply was killed after the API server, whose Pod is not replaced yet": {stored: oldVersion, own: oldVersion,
			manifest: newVersion, other: oldVersion, record: newVersion, tool: oldVersion, want: "\"kubeadm upgrade apply\" did not finish"},
		"upgrade apply was killed before the API server": {stored: oldVersion, own: oldVersion, other: oldVersion,
			record: newVersion, tool: oldVersion},
		"no API server has the stored version": {stored: oldVersion, own: newVersion, other: newVersion,
			want: "stores Kubernetes v1.36.3: no API server has that version"},
		"the same, ignored":                 {stored: oldVersion, own: newVersion, other: newVersion, ignored: true},
		"after a downgrade of another node": {stored: oldVersion, own: newVersion, other: oldVersion},
		"after a downgrade, with the record of an earlier one": {stored: oldVersion, own: newVersion, other: oldVersion,
			record: oldVersion},
		"with the kubeadm of before": {stored: oldVersion, own: oldVersion, other: oldVersion,
			tool: oldVersion},
		"upgrade apply was killed": {stored: newVersion, own: oldVersion, other: oldVersion,
			want: "\"kubeadm upgrade apply\" did not finish"},
		"a node that missed a release": {stored: newVersion, own: "v1.35.4", other: newVersion,
			want: "more than one minor version older"},
		"an old kubeadm": {stored: "v1.38.0", own: newVersion, other: "v1.38.0",
			want: "kubeadm v1.37.1 does not support Kubernetes v1.38.0"},
		"no API server of this node": {stored: newVersion, other: newVersion, isWarning: true,
			want: "the Pod of this node's API server was not found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			err := w.AddCluster(fake.ExistingCluster{Version: c.stored, Kubelet: oldVersion,
				EtcdTag: "3.7.0-0", CoreDNSTag: "v1.14.6", ControlPlanes: []string{"cp1", "cp2"}})
			if err != nil {
				t.Fatal(err)
			}
			setAPIServer(t, w, "cp1", c.own)
			setAPIServer(t, w, "cp2", c.other)
			setManifest(w, release.APIServer, c.stored, cmp.Or(c.manifest, c.own))
			if c.manager != "" {
				setComponent(t, w, release.ControllerManager, "cp1", c.manager)
			}
			if c.record != "" {
				if err := w.Do(t.Context(), staticpod.BeginUpgrade(node.DefaultPaths(), c.record)); err != nil {
					t.Fatal(err)
				}
			}
			text := c.tool
			if text == "" {
				text = newVersion
			}
			tool, err := release.ParseTool(text)
			if err != nil {
				t.Fatal(err)
			}
			var warnings []string
			e := engine.New(engine.Env{World: w, Tool: tool, Emit: func(e engine.Event) {
				if e.Kind == engine.Warned {
					warnings = append(warnings, e.Text)
				}
			}})
			if c.ignored {
				e.Local.IgnoredChecks = node.IgnoredChecks{strings.ToLower(upgradeOrder)}
			}
			err = checkUpgradeOrder(t.Context(), e, newUpgradedNode(c.stored), state.Identity{})
			if c.isWarning {
				if err != nil || !slices.ContainsFunc(warnings,
					func(text string) bool { return strings.Contains(text, c.want) }) {
					t.Errorf("error %v, warnings %q, want %s", err, warnings, c.want)
				}
				return
			}
			if (err == nil) != (c.want == "") || err != nil &&
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %s", err, c.want)
			}
		})
	}
}

// setManifest sets the version of a component in its static Pod manifest; without a version it stays.
func setManifest(w *fake.World, component, from, to string) {
	if to == "" {
		return
	}
	file := node.DefaultPaths().Manifest(component)
	m := w.Files[file]
	m.Data = bytes.ReplaceAll(m.Data, []byte(component+":"+from), []byte(component+":"+to))
	w.Files[file] = m
}

// setAPIServer sets the version of a node's API server; without a version it has none.
func setAPIServer(t *testing.T, w *fake.World, node, version string) {
	t.Helper()
	setComponent(t, w, release.APIServer, node, version)
}

// setComponent replaces the Pod of a component on a node, or deletes it if there is no version.
func setComponent(t *testing.T, w *fake.World, component, node, version string) {
	t.Helper()
	more := "deleted: true"
	if version != "" {
		more = "spec: {nodeName: " + node + ", containers: [{name: " + component + ", " +
			`image: "registry.k8s.io/` + component + ":" + version + `"}]}`
	}
	if err := w.AddObjects("{apiVersion: v1, kind: Pod, metadata: {name: " + component + "-" + node +
		", namespace: kube-system, labels: {component: " + component + ", tier: control-plane}}, " +
		more + "}"); err != nil {
		t.Fatal(err)
	}
}
