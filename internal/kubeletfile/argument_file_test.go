package kubeletfile_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func newUnitWorld(t *testing.T, files map[string]string) *fake.World {
	t.Helper()
	w := fake.New()
	w.Files["/dev/null"] = memory.File{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}
	for name, text := range files {
		f := memory.File{Data: []byte(text), Mode: 0o644}
		if to, isLink := strings.CutPrefix(text, "-> "); isLink {
			f = memory.File{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
		}
		if err := w.PutFile(name, f); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// The files of the unit are those that systemd reads, in its order.
func TestListUnitFiles(t *testing.T) {
	const lib, run, etc = "/usr/lib/systemd/system/kubelet.service", "/run/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"none":              {nil, nil},
		"by name":           {map[string]string{etc + ".d/05-a.conf": "", lib + ".d/10-b.conf": "", lib: ""}, []string{lib, etc + ".d/05-a.conf", lib + ".d/10-b.conf"}},
		"the same name":     {map[string]string{lib + ".d/10-a.conf": "", run + ".d/10-a.conf": "", etc + ".d/10-a.conf": ""}, []string{etc + ".d/10-a.conf"}},
		"of the runtime":    {map[string]string{lib + ".d/10-a.conf": "", run + ".d/10-a.conf": ""}, []string{run + ".d/10-a.conf"}},
		"two units":         {map[string]string{lib: "", etc: ""}, []string{etc}},
		"merged /usr":       {map[string]string{"/lib/systemd/system/kubelet.service": "", lib: ""}, []string{lib}},
		"a link":            {map[string]string{etc + ".d/10-a.conf": "-> /srv/a", "/srv/a": ""}, []string{etc + ".d/10-a.conf"}},
		"masked":            {map[string]string{lib + ".d/10-a.conf": "", etc + ".d/10-a.conf": "-> /dev/null"}, nil},
		"a masked unit":     {map[string]string{lib: "", etc: "-> /dev/null"}, nil},
		"a link to nothing": {map[string]string{lib + ".d/10-a.conf": "", etc + ".d/10-a.conf": "-> /srv/a"}, []string{lib + ".d/10-a.conf"}},
		"other files":       {map[string]string{etc + ".d/10-a.conf.bak": "", etc + ".d/dir.conf/x": ""}, nil},
	} {
		if got, err := kubeletfile.ListUnitFiles(t.Context(), newUnitWorld(t, c.files)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// The files are in the order in which their arguments count, and what an environment file replaces does not count.
func TestReadArgumentFiles(t *testing.T) {
	const (
		flags  = "/var/lib/kubelet/kubeadm-flags.env"
		unit   = "/usr/lib/systemd/system/kubelet.service"
		dropIn = "/etc/systemd/system/kubelet.service.d/20-a.conf"
		admin  = "/etc/default/kubelet"
		late   = "/etc/sysconfig/kubelet"
		own    = "/etc/kubernetes/kubelet.env"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"in order": {map[string]string{flags: "A=1", dropIn: "B=2", admin: "C=3"}, "flags A=1 unit B=2 admin C=3"},
		"its own file": {map[string]string{dropIn: "EnvironmentFile=-" + own, own: "B=2", admin: "C=3"},
			"unit EnvironmentFile=-" + own + " unit B=2 admin C=3"},
		"a known file":   {map[string]string{dropIn: "EnvironmentFile=-" + admin, admin: "C=3"}, "unit EnvironmentFile=-" + admin + " admin C=3"},
		"no file of its": {map[string]string{dropIn: "EnvironmentFile=-" + own + "\nEnvironmentFile=", own: "B=2"}, "unit EnvironmentFile=-" + own + " EnvironmentFile="},
		"comments":       {map[string]string{dropIn: "A=1\n# b\n ; c\nD=2"}, "unit A=1 D=2"},
		"continued":      {map[string]string{dropIn: "A=1\\\n# b\nB=2", admin: "C=3\\\n4"}, "unit A=1 B=2 admin C=34"},
		"replaced": {map[string]string{dropIn: `Environment="A=1" "KUBELET_EXTRA_ARGS=--a \"b\" --c" 'KUBELET_EXTRA_ARGS=--d e' KUBELET_EXTRA_ARGS=--f B=2`,
			admin: "KUBELET_EXTRA_ARGS="}, `unit Environment="A=1" B=2 admin KUBELET_EXTRA_ARGS=`},
		"replaced, the only one": {map[string]string{dropIn: "Environment=KUBELET_EXTRA_ARGS=--a\nExecStart=x", admin: "KUBELET_EXTRA_ARGS=--b"},
			"unit Environment= ExecStart=x admin KUBELET_EXTRA_ARGS=--b"},
		"by its own file": {map[string]string{dropIn: "EnvironmentFile=" + own + "\nEnvironment=KUBELET_EXTRA_ARGS=--a", own: "KUBELET_EXTRA_ARGS=--b"},
			"unit EnvironmentFile=" + own + " Environment= unit KUBELET_EXTRA_ARGS=--b"},
		"not replaced": {map[string]string{dropIn: "Environment=KUBELET_EXTRA_ARGS=--a MY_KUBELET_EXTRA_ARGS=--c", admin: "# KUBELET_EXTRA_ARGS=\nX=1"},
			"unit Environment=KUBELET_EXTRA_ARGS=--a MY_KUBELET_EXTRA_ARGS=--c admin X=1"},
		"another variable": {map[string]string{dropIn: "Environment=MY_KUBELET_EXTRA_ARGS=--c", admin: "KUBELET_EXTRA_ARGS=\n"},
			"unit Environment=MY_KUBELET_EXTRA_ARGS=--c admin KUBELET_EXTRA_ARGS="},
		"a reset ExecStart": {map[string]string{unit: "ExecStart=/a --x", dropIn: "ExecStart=\nExecStart=/b --y"}, "unit unit ExecStart= ExecStart=/b --y"},
		"reset twice":       {map[string]string{dropIn: "ExecStartPre=/p\nExecStart=/a\nExecStart = \nExecStart=/b\nExecStart=\nExecStart=\\\n/c"}, "unit ExecStartPre=/p ExecStart= ExecStart= /c"},
		"a reset Environment": {map[string]string{unit: "Environment=A=1\nExecStart=/a", dropIn: "Environment=\nEnvironment=B=2"},
			"unit ExecStart=/a unit Environment= Environment=B=2"},
		"reassigned by the unit":    {map[string]string{unit: `Environment="A=1 x" C=3 A=2`, dropIn: "Environment=C=4"}, "unit Environment= A=2 unit Environment=C=4"},
		"reassigned in a file":      {map[string]string{admin: "A=1\n A = \"2\n3\"\nB=x\nA='4 \n5'"}, "admin B=x A='4 5'"},
		"an open quote":             {map[string]string{admin: "A=1\nA=\"2\nB=3"}, "admin A=\"2 B=3"},
		"reassigned in a later one": {map[string]string{admin: "A=1\nB=2", late: "A=3"}, "admin B=2 admin A=3"},
		"two variables":             {map[string]string{flags: "A=1", dropIn: "Environment=B=2", admin: "C=3"}, "flags A=1 unit Environment=B=2 admin C=3"},
		"a file that the unit does not read": {map[string]string{dropIn: "EnvironmentFile=-" + admin, admin: "A=1", late: "A=2"},
			"unit EnvironmentFile=-" + admin + " admin A=1"},
		"its own file, later": {map[string]string{dropIn: "EnvironmentFile=" + admin + "\nEnvironmentFile=" + own, admin: "A=1\nB=2", own: "A=3"},
			"unit EnvironmentFile=" + admin + " EnvironmentFile=" + own + " admin B=2 unit A=3"},
	} {
		all, err := kubeletfile.ReadArgumentFiles(t.Context(), newUnitWorld(t, c.files), node.DefaultPaths())
		var got []string
		for _, f := range all {
			switch {
			case f.Text == "":
				continue
			case f.IsUnit:
				got = append(got, "unit")
			case f.Path == flags:
				got = append(got, "flags")
			default:
				got = append(got, "admin")
			}
			got = append(got, strings.Fields(f.Text)...)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
