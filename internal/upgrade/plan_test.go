package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
)

func candidate(text string) Candidate { return Candidate{Version: version.MustParseSemantic(text)} }

// The order, the names and the versions are those that upstream's kubeadm v1.37.1 prints for such a
// cluster, except that an etcd member that is newer stays.
func TestComponents(t *testing.T) {
	const others = `
kube-controller-manager cp1 v1.36.3 v1.37.1
kube-controller-manager cp2 v1.36.3 v1.37.1
kube-scheduler cp1 v1.36.3 v1.37.1
kube-scheduler cp2 v1.36.3 v1.37.1
`
	for name, c := range map[string]struct {
		objects  []string
		target   string
		withEtcd bool
		want     string
	}{
		"one kubelet version": {nil, "v1.37.1", true, `kubelet cp1 v1.36.3 v1.37.1
kubelet cp2 v1.36.3 v1.37.1
kubelet worker v1.36.3 v1.37.1
kube-apiserver cp1 v1.36.3 v1.37.1
kube-apiserver cp2 v1.36.3 v1.37.1` + others + `kube-proxy  1.36.3 v1.37.1
CoreDNS  v1.14.2 v1.14.6
kubeadm  v1.37.1 v1.37.1
etcd cp1 3.6.8-0 3.7.0-0
etcd cp2 3.6.8-0 3.7.0-0`},
		"kubelets sorted by version, no etcd": {[]string{kubeletNode("cp2", "v1.37.1"),
			kubeletNode("worker", "v1.35.0")},
			"v1.37.1", false, `kubelet worker v1.35.0 v1.37.1
kubelet cp1 v1.36.3 v1.37.1
kubelet cp2 v1.37.1 v1.37.1
kube-apiserver cp1 v1.36.3 v1.37.1
kube-apiserver cp2 v1.36.3 v1.37.1` + others + `kube-proxy  1.36.3 v1.37.1
CoreDNS  v1.14.2 v1.14.6
kubeadm  v1.37.1 v1.37.1`},
		"kubelets done, add-ons disabled, newer kubeadm, own etcd tag": {[]string{
			kubeletNode("cp1", "v1.37.2"), kubeletNode("cp2", "v1.37.2"),
			kubeletNode("worker", "v1.37.2"),
			stored("proxy: {disabled: true}\n    dns: {disabled: true}\n    etcd: {local: {imageTag: 3.6.9-0}}")},
			"v1.37.2", true, strings.ReplaceAll(`kube-apiserver cp1 v1.36.3 v1.37.1
kube-apiserver cp2 v1.36.3 v1.37.1`+others, "v1.37.1", "v1.37.2") + `kubeadm  v1.37.1 v1.37.2
etcd cp1 3.6.8-0 3.6.9-0
etcd cp2 3.6.8-0 3.6.9-0`},
		"older minor with its own images": {[]string{stored("dns: {imageTag: v1.2.3}")}, "v1.35.4",
			true,
			strings.ReplaceAll(`kubelet cp1 v1.36.3 v1.37.1
kubelet cp2 v1.36.3 v1.37.1
kubelet worker v1.36.3 v1.37.1
kube-apiserver cp1 v1.36.3 v1.37.1
kube-apiserver cp2 v1.36.3 v1.37.1`+others+"kube-proxy  1.36.3 v1.37.1", "v1.37.1", "v1.35.4") + `
CoreDNS  v1.14.2 v1.2.3
kubeadm  v1.37.1 v1.37.1
etcd cp1 3.6.8-0 3.6.8-0
etcd cp2 3.6.8-0 3.6.8-0`},
		"an own etcd tag that is older than what runs": {[]string{
			kubeletNode("cp1", "v1.37.1"), kubeletNode("cp2", "v1.37.1"),
			kubeletNode("worker", "v1.37.1"),
			stored("proxy: {disabled: true}\n    dns: {disabled: true}\n    etcd: {local: {imageTag: 3.5.9-0}}")},
			"v1.37.1", true, `kube-apiserver cp1 v1.36.3 v1.37.1
kube-apiserver cp2 v1.36.3 v1.37.1` + others + `kubeadm  v1.37.1 v1.37.1
etcd cp1 3.6.8-0 3.6.8-0
etcd cp2 3.6.8-0 3.6.8-0`},
	} {
		t.Run(name, func(t *testing.T) {
			tool := testReleases(t, "v1.37.1", nil).Tool
			rows, err := testCluster(t, c.objects...).Components(candidate(c.target), tool,
				c.withEtcd)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rows {
				got = append(got, fmt.Sprintf("%s %s %s %s", r.Name, r.NodeName, r.CurrentVersion,
					r.NewVersion))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		objects  []string
		current  string
		target   string
		want     []string // commands, or the beginning of texts
		wantJump bool
	}{
		"one minor": {nil, "v1.36.3", "v1.37.1",
			[]string{"kubeadm upgrade apply v1.37.1", "kubeadm upgrade node", "On every node"},
			false},
		"three minors": {nil, "v1.34.4", "v1.37.1", []string{
			"kubeadm upgrade apply v1.35.4", "kubeadm upgrade node",
			"kubeadm upgrade apply v1.36.X", "kubeadm upgrade node",
			"kubeadm upgrade apply v1.37.1", "kubeadm upgrade node", "On every node"}, true},
		"old kubelet": {[]string{kubeletNode("worker", "v1.33.1")}, "v1.35.4", "v1.37.1", []string{
			"kubeadm upgrade apply v1.36.X", "kubeadm upgrade node",
			"Upgrade the kubelets of these nodes to v1.36.X",
			"kubeadm upgrade apply v1.37.1", "kubeadm upgrade node", "On every node"}, true},
		"other kubeadm": {nil, "v1.32.1", "v1.34.0", []string{
			"Install kubeadm v1.33.X", "kubeadm upgrade apply v1.33.X", "kubeadm upgrade node",
			"kubeadm upgrade apply v1.34.0", "kubeadm upgrade node", "On every node"}, true},
		"newer kubeadm, pre-release": {nil, "v1.36.3", "v1.38.0-rc.1", []string{
			"kubeadm upgrade apply v1.37.X", "kubeadm upgrade node", "Install kubeadm v1.38.0-rc.1",
			"kubeadm upgrade apply v1.38.0-rc.1 " + "--allow-release-candidate-upgrades",
			"kubeadm upgrade node",
			"On every node"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			releases := testReleases(t, "v1.37.1", map[string]string{"stable-1.35": "v1.35.4"})
			cluster := testCluster(t, c.objects...)
			cluster.Version = version.MustParseSemantic(c.current)
			target := candidate(c.target)
			if got := cluster.IsJump(target.Version); got != c.wantJump {
				t.Errorf("IsJump is %v", got)
			}
			steps := cluster.Steps(target, releases.Tool, releases.NewestPatch)
			if len(steps) != len(c.want) {
				t.Fatalf("got the steps %q", steps)
			}
			for i, s := range steps {
				if s.Command != c.want[i] &&
					(s.Command != "" || !strings.HasPrefix(s.Text, c.want[i])) {
					t.Errorf("step %d is %q, want %q", i+1, s, c.want[i])
				}
			}
		})
	}
}

func TestStepsOfOneControlPlane(t *testing.T) {
	cluster := testCluster(t)
	cluster.ControlPlaneNodes = []string{"cp1"}
	releases := testReleases(t, "v1.37.1", nil)
	steps := cluster.Steps(candidate("v1.37.1"), releases.Tool, releases.NewestPatch)
	if len(steps) != 2 || steps[0].Text != "On node cp1" {
		t.Errorf("got the steps %q", steps)
	}
}
