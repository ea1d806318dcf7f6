package nodename

import (
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// The kubelet takes its name from the last file that sets it, or from the host.
func TestReadKubelet(t *testing.T) {
	const (
		unit  = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
		env   = "/var/lib/kubelet/kubeadm-flags.env"
		admin = "/etc/default/kubelet"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  Kubelet
	}{
		"the host": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--v=2"` + "\n", admin: "KUBELET_EXTRA_ARGS=\n"},
			Kubelet{Name: "host"}},
		"kubeadm": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override=w1 --v=2"` + "\n"},
			Kubelet{Name: "w1", File: env}},
		"a word of its own": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override w1"` + "\n"},
			Kubelet{Name: "w1", File: env}},
		"an administrator": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override=w1"` + "\n",
			admin: "KUBELET_EXTRA_ARGS=--hostname-override=W2\n"}, Kubelet{Name: "w2", File: admin}},
		"twice": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override=w1 --hostname-override=w3"`},
			Kubelet{Name: "w3", File: env}},
		"a comment": {map[string]string{admin: "# KUBELET_EXTRA_ARGS=--hostname-override=w2\n"}, Kubelet{Name: "host"}},
		"the unit": {map[string]string{unit: "[Service]\nExecStart=/usr/bin/kubelet --hostname-override=w4 $KUBELET_EXTRA_ARGS\n"},
			Kubelet{Name: "w4", File: unit, IsUnit: true}},
		"a variable": {map[string]string{unit: "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--hostname-override=%H\"\n"},
			Kubelet{File: unit, IsUnit: true}},
		"an administrator over the unit": {map[string]string{unit: "ExecStart=/usr/bin/kubelet --hostname-override=w4\n",
			admin: "KUBELET_EXTRA_ARGS=--hostname-override=w2\n"}, Kubelet{Name: "w2", File: admin}},
		"the unit over kubeadm": {map[string]string{unit: "Environment=\"KUBELET_EXTRA_ARGS=--hostname-override=w4\"\n",
			env: `KUBELET_KUBEADM_ARGS="--hostname-override=w1"`}, Kubelet{Name: "w4", File: unit, IsUnit: true}},
		"a variable of the unit that is replaced": {map[string]string{unit: "Environment=\"KUBELET_EXTRA_ARGS=--hostname-override=w4\"\n",
			env: `KUBELET_KUBEADM_ARGS="--hostname-override=w1"`, admin: "KUBELET_EXTRA_ARGS=\n"}, Kubelet{Name: "w1", File: env}},
	} {
		w := fake.New()
		for file, text := range c.files {
			if err := w.PutFile(file, memory.File{Data: []byte(text), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ReadKubelet(t.Context(), w, node.Local{Hostname: "host", Paths: node.DefaultPaths()})
		if err != nil || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestReplaceOverride(t *testing.T) {
	for text, want := range map[string]string{
		"KUBELET_EXTRA_ARGS=--hostname-override=a\n":             "KUBELET_EXTRA_ARGS=--hostname-override=w1\n",
		`ARGS="--hostname-override 'a' --v=2"`:                   `ARGS="--hostname-override 'w1' --v=2"`,
		"# --hostname-override=a\nX=--hostname-override=b --v=2": "# --hostname-override=a\nX=--hostname-override=w1 --v=2",
		"X=\"--v=2\"\n": "X=\"--v=2\"\n",
		"":              "",
		"X=\"--hostname-override=a --hostname-override=b\"\nY=1\n": "X=\"--hostname-override=w1 --hostname-override=w1\"\nY=1\n",
	} {
		if got := replaceOverride(text, "w1"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
