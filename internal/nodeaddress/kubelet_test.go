package nodeaddress

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
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

// kubeadm does not edit the unit of the kubelet's service, so a previous address in it is refused, unless a later file
// replaces it.
func TestAddressInKubeletUnit(t *testing.T) {
	const dropIn, admin = "/etc/systemd/system/kubelet.service.d/20-address.conf", "/etc/default/kubelet"
	const flags, own = "/var/lib/kubelet/kubeadm-flags.env", "/etc/kubernetes/kubelet.env"
	const old = "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--node-ip=192.0.2.10\"\n"
	for name, c := range map[string]struct {
		files map[string]string
		told  string
		isErr bool
	}{
		"none":              {map[string]string{dropIn: "[Service]\nRestart=always\n"}, "", false},
		"the previous one":  {map[string]string{dropIn: old}, "192.0.2.10", true},
		"in the unit":       {map[string]string{"/usr/lib/systemd/system/kubelet.service": "ExecStart=/usr/bin/kubelet --node-ip 192.0.2.10\n"}, "192.0.2.10", true},
		"a comment":         {map[string]string{dropIn: "; --node-ip=192.0.2.10\n# --node-ip=192.0.2.10\n"}, "", false},
		"the new one":       {map[string]string{dropIn: strings.ReplaceAll(old, ".10", ".20")}, "192.0.2.20", false},
		"another one":       {map[string]string{dropIn: strings.ReplaceAll(old, ".10", ".99")}, "192.0.2.99", false},
		"replaced later":    {map[string]string{dropIn: old, admin: "KUBELET_EXTRA_ARGS=--node-ip=192.0.2.10\n"}, "192.0.2.10", false},
		"no file of a unit": {map[string]string{dropIn + ".bak": old}, "", false},
		"over kubeadm's":    {map[string]string{dropIn: old, flags: "KUBELET_KUBEADM_ARGS=--node-ip=192.0.2.20\n"}, "192.0.2.10", true},
		"replaced variable": {map[string]string{dropIn: old, admin: "KUBELET_EXTRA_ARGS=\n"}, "", false},
		"in its own file":   {map[string]string{dropIn: "EnvironmentFile=-" + own + "\n", own: "KUBELET_ADDRESS=\"--node-ip=192.0.2.10\"\n"}, "192.0.2.10", true},
		"a reset ExecStart": {map[string]string{"/usr/lib/systemd/system/kubelet.service": "ExecStart=/usr/bin/kubelet --node-ip=192.0.2.10\n",
			dropIn: "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS\n"}, "", false},
		"after a reset": {map[string]string{"/usr/lib/systemd/system/kubelet.service": "ExecStart=/usr/bin/kubelet --node-ip=192.0.2.20\n",
			dropIn: "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --node-ip=192.0.2.10\n"}, "192.0.2.10", true},
		"assigned twice": {map[string]string{admin: "KUBELET_EXTRA_ARGS=--node-ip=192.0.2.10\nKUBELET_EXTRA_ARGS=--v=2\n"}, "", false},
		"in two files": {map[string]string{admin: "KUBELET_EXTRA_ARGS=--node-ip=192.0.2.10\n",
			"/etc/sysconfig/kubelet": "KUBELET_EXTRA_ARGS=--v=2\n"}, "", false},
		"two variables": {map[string]string{flags: "KUBELET_KUBEADM_ARGS=--node-ip=192.0.2.20\n",
			admin: "KUBELET_EXTRA_ARGS=--v=2\n"}, "192.0.2.20", false},
		"empty later": {map[string]string{flags: "KUBELET_KUBEADM_ARGS=--node-ip=192.0.2.10\n",
			admin: "KUBELET_EXTRA_ARGS=--node-ip= --v=2\n"}, "", false},
		"empty before": {map[string]string{flags: "KUBELET_KUBEADM_ARGS=\"--node-ip=\"\n", dropIn: old}, "192.0.2.10", true},
		"continued":    {map[string]string{dropIn: "ExecStart=/usr/bin/kubelet --node-ip \\\n  192.0.2.10\n"}, "192.0.2.10", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			for file, text := range c.files {
				if err := w.PutFile(file, memory.File{Data: []byte(text), Mode: 0o644}); err != nil {
					t.Fatal(err)
				}
			}
			told, err := readToldIPs(t.Context(), w, node.DefaultPaths())
			if err != nil || strings.Join(told.ips, ",") != c.told {
				t.Errorf("it is told %+v: %v", told, err)
			}
			i := Intent{Move: Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}, Present: node.Local{Paths: node.DefaultPaths()}}
			_, err = i.FindKubelet(t.Context(), engine.New(engine.Env{World: w, Emit: func(engine.Event) {}}))
			const want = " sets the address of the kubelet, --node-ip=192.0.2.10, and kubeadm does not edit that file"
			if isErr := err != nil && strings.HasSuffix(err.Error(), want); isErr != c.isErr {
				t.Errorf("got %v", err)
			}
			if hints := strings.Join(problem.Hints(err), "\n"); c.isErr && !strings.Contains(hints, "set the argument in "+told.file.Path+" to --node-ip=192.0.2.20") {
				t.Errorf("the hints are %q", hints)
			}
		})
	}
}

const kubeletKubeconfig = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "https://192.0.2.1:6443"}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
users: [{name: u, user: {}}]
`

// An argument from which no address can be read is not taken for none: the kubelet is not told another one, with a warning.
func TestUnreadNodeIP(t *testing.T) {
	const admin, flags = "/etc/default/kubelet", "/var/lib/kubelet/kubeadm-flags.env"
	w := fake.New()
	for file, text := range map[string]string{"/etc/kubernetes/kubelet.conf": kubeletKubeconfig, "/var/lib/kubelet/config.yaml": "{}",
		admin: "KUBELET_EXTRA_ARGS=--node-ip=eth0\n", flags: "KUBELET_KUBEADM_ARGS=\"--v=2\"\n"} {
		if err := w.PutFile(file, memory.File{Data: []byte(text), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	e := engine.New(engine.Env{World: w, Emit: func(ev engine.Event) { said = append(said, ev.Text) }})
	i := Intent{Move: Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}, Present: node.Local{Paths: node.DefaultPaths()}}
	told, err := readToldIPs(t.Context(), w, node.DefaultPaths())
	if err != nil || told.ips != nil || told.unread != "--node-ip=eth0" {
		t.Errorf("it is told %+v: %v", told, err)
	}
	k, err := i.FindKubelet(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	k.warnOfUnread(e)
	for _, f := range k.Files {
		if string(f.Now) != string(f.Before) {
			t.Errorf("%s becomes %s", f.Path, f.Now)
		}
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, admin+" sets the address of the kubelet by --node-ip=eth0") {
		t.Errorf("it says %q", said)
	}
}
