package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importRules say who may know whom.
func importRules() []rule {
	const oneDoor = "what is outside is read and altered through world.World alone, so that previews, journals and faults see all of it"
	return []rule{
		imported("the operating system is for world/linux", oneDoor,
			[]string{"os", "os/exec", "os/signal", "os/user", "syscall", "golang.org/x/sys", "github.com/coreos/go-systemd", "github.com/moby/sys"},
			"internal/world/linux", "cmd/kubeadm"),
		imported("clients of the API server are for world/kube", oneDoor,
			[]string{"k8s.io/client-go/dynamic", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "k8s.io/client-go/discovery"}, "internal/world/kube"),
		imported("etcd's client is for world/etcd", oneDoor, []string{"go.etcd.io"}, "internal/world/etcd"),
		imported("the container runtime's interface is for world/cri", oneDoor, []string{"google.golang.org/grpc", "k8s.io/cri-api"}, "internal/world/cri"),
		imported("randomness comes from outside", "a test must be able to say what is random, and a resumed run to find its values again",
			[]string{"math/rand"}, "internal/world"),
		imported("the command line's library is for cli", "workflows must run without a command line", []string{"github.com/spf13"}, "internal/cli", "cmd/kubeadm"),
		imported("upstream's code is not linked in", "this is a program of its own", []string{"k8s.io/kubernetes"}),
		imported("the real worlds are chosen by main", "whoever names one cannot be tried in another",
			within("internal/world", "linux", "kube", "etcd", "cri", "real"), "cmd/kubeadm", "internal/world/real"),
		imported("fakes are for tests", "no program ships the world of its tests", within("internal/world", "fake", "fault", "worldtest")),
		imported("wrappers of the world are chosen by the command line", "a phase that knew of one would behave differently in it",
			within("internal/world", "journal", "preview"), "internal/cli", "cmd/kubeadm"),
		imported("only the worlds are made of memory", "it is how previews and fakes work inside", within("internal/world", "memory"), "internal/world"),
		{
			name: "a phase does not import another phase", reason: "what two share moves down, so that each can be read, skipped and run alone",
			check: func(s source, blame func(token.Pos, string, ...any)) {
				s.imports(func(f file, at token.Pos, what string) {
					if under(f.dir, "internal/phase") && under(local(what), "internal/phase") {
						blame(at, "%s imports %s", f.dir, what)
					}
				})
			},
		},
		{
			name: "packages know only those below them", reason: "then a change is felt upwards only, and everything below can be tested alone",
			check: func(s source, blame func(token.Pos, string, ...any)) {
				s.imports(func(f file, at token.Pos, what string) {
					dir := local(what)
					if dir == "" || top(dir) != "" && top(dir) == top(f.dir) {
						return // of others, or of the same part of the program
					}
					if layer(dir) < 0 || layer(dir) >= layer(f.dir) {
						blame(at, "%s (layer %d) imports %s (layer %d)", f.dir, layer(f.dir), dir, layer(dir))
					}
				})
			},
		},
		{
			name: "every package has its layer", reason: "the order of packages is decided, not grown: add new ones to layers()",
			check: func(s source, blame func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					if layer(f.dir) < 0 {
						blame(f.Package, "%s is in no layer", f.dir)
					}
				})
			},
		},
	}
}

// layers lists the packages from the bottom up; those of one line do not know each other. A folder
// stands for all below it.
func layers() [][]string {
	return [][]string{
		{"internal/problem", "internal/flag", "internal/untrusted"},
		{"internal/config/strict"},
		{"internal/release", "internal/pki"},
		{"internal/node"},
		{"internal/state"},
		{"internal/change"},
		{"internal/manifest", "internal/world"},
		{"internal/certstore", "internal/etcdcluster"},
		{"internal/manifestinput"},
		{"internal/preflight", "internal/config", "internal/flow"},
		{"internal/discovery", "internal/health", "internal/report", "internal/staticpod", "internal/upgrade"},
		{"internal/phase"},
		{"internal/workflow"},
		{"internal/cli"},
		{"cmd/kubeadm"},
	}
}

// layer is -1 for a package without one.
func layer(dir string) int {
	return slices.IndexFunc(layers(), func(tops []string) bool { return under(dir, tops...) })
}

// top is the entry of layers that a package belongs to, or empty.
func top(dir string) string {
	for _, tops := range layers() {
		if i := slices.IndexFunc(tops, func(top string) bool { return under(dir, top) }); i >= 0 {
			return tops[i]
		}
	}
	return ""
}

func TestPlantedImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		dir, imports string
		found        bool
	}{
		{"internal/config", "kubeadm/internal/health", true},
		{"internal/config", "kubeadm/internal/preflight", true}, // of the same layer
		{"internal/config/strict", "kubeadm/internal/phase/certs", true},
		{"internal/config/v1beta4", "kubeadm/internal/discovery", true},
		{"internal/world/kube", "kubeadm/internal/flow", true},
		{"internal/world/real", "kubeadm/internal/manifest", true}, // of the same layer
		{"internal/world", "kubeadm/internal/cli", true},
		{"internal/node", "kubeadm/internal/change", true},
		{"internal/phase/certs", "kubeadm/internal/workflow", true},
		{"internal/phase/certs", "kubeadm/internal/phase/kubelet", true},
		{"internal/cli", "kubeadm/test/nodes", true},
		{"internal/configuration", "kubeadm/internal/config", true}, // in no layer itself
		{"internal/config", "kubeadm/internal/config/v1beta4", false},
		{"internal/config/v1beta3", "kubeadm/internal/config/v1beta4", false},
		{"internal/config", "kubeadm/internal/node", false},
		{"internal/world/real", "kubeadm/internal/world/linux", false},
		{"internal/world/kube", "kubeadm/internal/change", false},
		{"internal/cli", "kubeadm/internal/config", false},
		{"internal/cli", "strings", false},
	} {
		planted := source{fset: token.NewFileSet()}
		parsed, err := parser.ParseFile(planted.fset, "planted.go", fmt.Sprintf("package planted\n\nimport _ %q\n", c.imports), 0)
		if err != nil {
			t.Fatal(err)
		}
		planted.files = []file{{File: parsed, dir: c.dir, name: "planted.go"}}
		found := false
		for _, r := range importRules() {
			if r.name == "packages know only those below them" || r.name == "a phase does not import another phase" {
				r.check(planted, func(token.Pos, string, ...any) { found = true })
			}
		}
		if found != c.found {
			t.Errorf("%s imports %s: found is %v, want %v", c.dir, c.imports, found, c.found)
		}
	}
}

// imported is the rule that packages may be imported only by some.
func imported(name, reason string, what []string, by ...string) rule {
	return rule{name: name, reason: reason, check: func(s source, blame func(token.Pos, string, ...any)) {
		s.imports(func(f file, at token.Pos, found string) {
			// Packages may always import their own subpackages.
			if under(found, what...) && !under(f.dir, by...) && !under(f.dir, locals(what)...) {
				blame(at, "%s imports %s", f.dir, found)
			}
		})
	}}
}

func (s source) imports(visit func(f file, at token.Pos, what string)) {
	s.program(func(f file) {
		for _, i := range f.Imports {
			if what, err := strconv.Unquote(i.Path.Value); err == nil {
				visit(f, i.Pos(), what)
			}
		}
	})
}

const module = "kubeadm/"

// local is the folder of a package of this module, or empty.
func local(imported string) string {
	dir, ok := strings.CutPrefix(imported, module)
	if !ok {
		return ""
	}
	return dir
}

func locals(imported []string) []string {
	var dirs []string
	for _, i := range imported {
		if dir := local(i); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func within(dir string, names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, module+path.Join(dir, n))
	}
	return all
}

// importName is the name under which a file knows a package; empty if it does not import it.
func (f file) importName(what string) string {
	for _, i := range f.Imports {
		if found, err := strconv.Unquote(i.Path.Value); err == nil && found == what {
			if i.Name != nil {
				return i.Name.Name
			}
			return path.Base(what)
		}
	}
	return ""
}

// refersTo visits uses of a package's names.
func (f file) refersTo(what string, names []string, visit func(at token.Pos, name string)) {
	as := f.importName(what)
	if as == "" {
		return
	}
	f.selectors(func(at token.Pos, of, name string) {
		if of == as && (names == nil || slices.ContainsFunc(names, func(n string) bool { return matches(n, name) })) {
			visit(at, of+"."+name)
		}
	})
}

// matches knows patterns that end with an asterisk.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
