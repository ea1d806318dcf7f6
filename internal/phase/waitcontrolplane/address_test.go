package waitcontrolplane

import (
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
)

func TestAddressBesideSidecars(t *testing.T) {
	const (
		own     = "- {name: kube-scheduler, command: [kube-scheduler, --secure-port=7], args: [--bind-address=::1]}\n"
		sidecar = "- {name: proxy, command: [proxy, --secure-port=9, --bind-address=192.0.2.9]}\n"
	)
	for name, c := range map[string]struct{ spec, want, fault string }{
		"alone":             {"containers:\n" + own, "https://[::1]:7", ""},
		"sidecar after it":  {"containers:\n" + own + sidecar, "https://[::1]:7", ""},
		"sidecar before it": {"containers:\n" + sidecar + own, "https://[::1]:7", ""},
		"sidecar as init container": {"initContainers:\n" + sidecar + "containers:\n" + own,
			"https://[::1]:7", ""},
		"without it":        {"containers:\n" + sidecar, "", `has no container "kube-scheduler"`},
		"no containers":     {"{}", "", `has no container "kube-scheduler"`},
		"of the wrong type": {"containers: 7", "", "reading the static Pod manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			n := &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
			file := n.Paths.Manifest("kube-scheduler")
			text := "kind: Pod\nspec:\n  " + strings.ReplaceAll(c.spec, "\n", "\n  ")
			if err := w.Do(t.Context(),
				change.WriteFile{Path: file, Data: []byte(text)}); err != nil {
				t.Fatal(err)
			}
			got, err := findURL(t.Context(), w, n, "kube-scheduler", "10259")
			if got != c.want {
				t.Errorf("got %q, want %q (%v)", got, c.want, err)
			}
			if c.fault == "" && err != nil || c.fault != "" &&
				(err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("got the error %v, want %q", err, c.fault)
			}
			if err != nil && (!strings.Contains(err.Error(), file) ||
				strings.Contains(err.Error(), "%!")) {
				t.Errorf("the error does not name the file, or is malformed: %v", err)
			}
		})
	}
}
