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
		"empty, before another argument": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override= --v=2"` + "\n"},
			Kubelet{Name: "host", File: env, IsEmpty: true}},
		"empty, and another name before": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override=w1"` + "\n",
			admin: "KUBELET_EXTRA_ARGS=--hostname-override=\"\"\n"}, Kubelet{Name: "host", File: admin, IsEmpty: true}},
		"another argument for the value": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--hostname-override --v=2"` + "\n"},
			Kubelet{Name: "--v=2", File: env}},
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

// An empty name is replaced where it is set, also while the host still has the name of the Node.
func TestKeepReplacesEmptyName(t *testing.T) {
	const admin = "/etc/default/kubelet"
	m := fake.New()
	if err := m.PutFile(admin, memory.File{Data: []byte("KUBELET_EXTRA_ARGS=--hostname-override=\n"), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	w := Wanted{Node: &node.Node{Local: node.Local{Name: "host", Hostname: "host", Paths: node.DefaultPaths()}}}
	if err := w.findFiles(t.Context(), m); err != nil || len(w.Files) != 1 || w.Files[0].Path != admin ||
		w.Files[0].Now != "KUBELET_EXTRA_ARGS=--hostname-override=host\n" {
		t.Errorf("it replaces %+v: %v", w.Files, err)
	}
}

// An argument counts before the configuration of the kubelet, and the last argument before the others.
func TestFindServingCertificate(t *testing.T) {
	const (
		config = "/var/lib/kubelet/config.yaml"
		base   = "/usr/lib/systemd/system/kubelet.service"
		unit   = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
		env    = "/var/lib/kubelet/kubeadm-flags.env"
		own    = "/etc/kubernetes/kubelet.env"
		admin  = "/etc/default/kubelet"
	)
	const inUnit = "Environment=\"KUBELET_EXTRA_ARGS=--tls-cert-file=/unit.crt\"\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"its own":            {map[string]string{config: "port: 10250\n", admin: "KUBELET_EXTRA_ARGS=--v=2\n"}, ""},
		"the configuration":  {map[string]string{config: "tlsCertFile: /config.crt\n"}, "/config.crt"},
		"an argument before": {map[string]string{config: "tlsCertFile: /config.crt\n", env: `A="--tls-cert-file=/env.crt"`}, "/env.crt"},
		"the unit after kubeadm": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--tls-cert-file=/env.crt"`, unit: inUnit},
			"/unit.crt"},
		"an administrator after the unit": {map[string]string{unit: "ExecStart=/usr/bin/kubelet --tls-cert-file=/unit.crt $KUBELET_EXTRA_ARGS\n",
			admin: "KUBELET_EXTRA_ARGS=--tls-cert-file=/admin.crt\n"}, "/admin.crt"},
		"an administrator in place of the unit": {map[string]string{unit: inUnit, admin: "KUBELET_EXTRA_ARGS=--v=2\n"}, ""},
		"a file that only the unit names": {map[string]string{env: `KUBELET_KUBEADM_ARGS="--tls-cert-file=/env.crt"`,
			unit: "EnvironmentFile=-" + own + "\n", own: "KUBELET_EXTRA_ARGS=--tls-cert-file /own.crt\n"}, "/own.crt"},
		"twice":     {map[string]string{admin: "KUBELET_EXTRA_ARGS=--tls-cert-file=/a.crt --tls-cert-file=/b.crt\n"}, "/b.crt"},
		"a comment": {map[string]string{admin: "# KUBELET_EXTRA_ARGS=--tls-cert-file=/a.crt\n"}, ""},
		"a reset ExecStart": {map[string]string{base: "ExecStart=/usr/bin/kubelet --tls-cert-file=/old.crt\n",
			unit: "ExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS\n", config: "tlsCertFile: /config.crt\n"}, "/config.crt"},
		"a variable assigned twice": {map[string]string{config: "tlsCertFile: /config.crt\n",
			admin: "KUBELET_EXTRA_ARGS=--tls-cert-file=/a.crt\nKUBELET_EXTRA_ARGS=--v=2\n"}, "/config.crt"},
		"a variable assigned in two files": {map[string]string{admin: "KUBELET_EXTRA_ARGS=--tls-cert-file=/a.crt\n",
			"/etc/sysconfig/kubelet": "KUBELET_EXTRA_ARGS=\n"}, ""},
		"empty, before another argument": {map[string]string{config: "tlsCertFile: /config.crt\n",
			admin: "KUBELET_EXTRA_ARGS=--tls-cert-file= --v=2\n"}, ""},
		"another argument for the value": {map[string]string{admin: "KUBELET_EXTRA_ARGS=--tls-cert-file --v=2\n"}, "--v=2"},
		"empty, quoted":                  {map[string]string{admin: "KUBELET_EXTRA_ARGS=--tls-cert-file=\"\" --v=2\n"}, ""},
		"empty at last":                  {map[string]string{admin: "KUBELET_EXTRA_ARGS=--tls-cert-file=/a.crt --tls-cert-file=\n"}, ""},
		"empty at first":                 {map[string]string{admin: "KUBELET_EXTRA_ARGS=--tls-cert-file= --tls-cert-file=/a.crt\n"}, "/a.crt"},
	} {
		w := fake.New()
		for file, text := range c.files {
			if err := w.PutFile(file, memory.File{Data: []byte(text), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := FindServingCertificate(t.Context(), w, node.DefaultPaths()); err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
		}
	}
}

func TestReplaceOverride(t *testing.T) {
	for text, want := range map[string]string{
		"KUBELET_EXTRA_ARGS=--hostname-override=a\n":             "KUBELET_EXTRA_ARGS=--hostname-override=w1\n",
		`ARGS="--hostname-override 'a' --v=2"`:                   `ARGS="--hostname-override 'w1' --v=2"`,
		"# --hostname-override=a\nX=--hostname-override=b --v=2": "# --hostname-override=a\nX=--hostname-override=w1 --v=2",
		"X=\"--v=2\"\n":                      "X=\"--v=2\"\n",
		`ARGS="--hostname-override= --v=2"`:  `ARGS="--hostname-override=w1 --v=2"`,
		`ARGS="--v=2 --hostname-override="`:  `ARGS="--v=2 --hostname-override=w1"`,
		`ARGS=--hostname-override="" --v=2`:  `ARGS=--hostname-override="w1" --v=2`,
		`ARGS=--hostname-override='a' --v=2`: `ARGS=--hostname-override='w1' --v=2`,
		"":                                   "",
		"X=\"--hostname-override=a --hostname-override=b\"\nY=1\n": "X=\"--hostname-override=w1 --hostname-override=w1\"\nY=1\n",
	} {
		if got := replaceOverride(text, "w1"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
