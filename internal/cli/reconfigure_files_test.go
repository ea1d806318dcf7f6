package cli

import (
	"strings"
	"testing"

	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
)

// After an upload the command with the key is printed for each of the other control plane nodes, whether the
// configuration has changed or not. A node that has downloaded files does not ask for another upload.
func TestDescribeNext(t *testing.T) {
	const files, withKey = "  copy these files\n", "one at a time: kubeadm reconfigure node --certificate-key "
	all := func(done bool) []reconfiguration.NodeProgress {
		return []reconfiguration.NodeProgress{{Name: "cp1", ControlPlane: true, Done: true},
			{Name: "cp2", ControlPlane: true, Done: done}, {Name: "w1", Done: done}}
	}
	workers := "  on these workers: kubeadm reconfigure node\n    w1\n"
	for name, c := range map[string]struct {
		key     string
		uploads bool
		all     []reconfiguration.NodeProgress // nil: not known
		want    string
	}{
		"done":                {"", false, all(true), "\nAll affected nodes are up to date.\n"},
		"behind":              {"", false, all(false), files + "  on these control plane nodes, one at a time: kubeadm reconfigure node\n    cp2\n" + workers},
		"uploaded":            {"5e", true, all(false), "  on these control plane nodes, " + withKey + "5e\n    cp2\n" + workers},
		"uploaded, unchanged": {"5e", true, all(true), "  on these control plane nodes, " + withKey + "5e\n    cp2\n"},
		"uploaded, alone":     {"5e", true, all(true)[:1], "\nAll affected nodes are up to date.\n"},
		"uploaded, not known": {"5e", true, nil, "  on each of the other control plane nodes, " + withKey + "5e\n"},
		"downloaded":          {"5e", false, all(false), "  on these control plane nodes, " + withKey + "KEY\n    cp2\n" + workers},
	} {
		here := existing.Machine{Local: node.Local{Name: "cp1", CertificateKey: c.key, UploadCerts: c.uploads}}
		if !strings.HasPrefix(c.want, "\n") {
			c.want = "\nNext:\n" + c.want
		}
		if got := describeNext(here, c.all, c.all != nil, func() string { return files }); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
