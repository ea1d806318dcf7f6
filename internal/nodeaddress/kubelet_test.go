package nodeaddress

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// An address in the kubelet's configuration is named with the file that sets it, and a command that can change it.
func TestAddressInKubeletConfig(t *testing.T) {
	const old, other = "address: 192.0.2.10\n", "address: 192.0.2.20\n"
	const file, instanceFile = "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml"
	for name, c := range map[string]struct {
		config, instance string
		isPrepared       bool // the machine still has the previous address
		err, remedy      string
	}{
		"none":                {config: other, isPrepared: true},
		"a patch":             {old, "", true, file + " has address: 192.0.2.10", "kubeadm upgrade node phase kubelet-config --patches DIR"},
		"a patch, moved":      {old, "", false, file + " has address: 192.0.2.10", "and in the patch that sets it"},
		"the instance":        {old, old, true, instanceFile + " has address: 192.0.2.10", "change it in that file"},
		"the instance, moved": {old, old, false, instanceFile + " has address: 192.0.2.10", "in " + instanceFile + " and in " + file},
		"the instance, not yet applied": {other, "healthzBindAddress: 192.0.2.10\n", true,
			instanceFile + " has healthzBindAddress: 192.0.2.10", "change it in that file"},
		"the instance, corrected": {old, other, true, file + " has address: 192.0.2.10",
			"apply the value in " + instanceFile + ": kubeadm upgrade node phase kubelet-config; systemctl restart kubelet"},
		"a broken instance": {other, "[", true, "reading " + instanceFile, "correct the file"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			w.Files[file] = memory.File{Data: []byte(c.config), Mode: 0o644}
			if c.instance != "" {
				w.Files[instanceFile] = memory.File{Data: []byte(c.instance), Mode: 0o644}
			}
			i := Intent{Move: Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}, IsPrepared: c.isPrepared}
			_, err := i.checkKubeletConfig(t.Context(), w, node.DefaultPaths())
			if c.err == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %s", err, c.err)
			}
			if hints := problem.Hints(err); !slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(h, c.remedy) }) {
				t.Errorf("the hints are %q", hints)
			}
		})
	}
}
