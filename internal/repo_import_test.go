package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importRules say which packages may import which.
func importRules() []rule {
	const oneDoor = "the machine and the cluster are accessed only through world.World, so that previews, journals and faults see every access"
	return []rule{
		onlyImportedBy("only the worlds of operating systems use them", oneDoor,
			[]string{"os", "os/exec", "os/signal", "os/user", "syscall", "golang.org/x/sys",
				"github.com/coreos/go-systemd", "github.com/moby/sys"},
			"internal/world/linux", "internal/world/windows", "internal/world/portable", "internal/world/neterror",
			"internal/world/pipe", "cmd/kubeadm"),
		onlyImportedBy("only world/kube uses clients of the API server", oneDoor,
			[]string{"k8s.io/client-go/dynamic", "k8s.io/client-go/kubernetes",
				"k8s.io/client-go/rest", "k8s.io/client-go/discovery"}, "internal/world/kube"),
		onlyImportedBy("only world/etcd uses etcd's client", oneDoor, []string{"go.etcd.io"},
			"internal/world/etcd"),
		onlyImportedBy("only world/cri uses the container runtime interface", oneDoor,
			[]string{"k8s.io/cri-api"}, "internal/world/cri"),
		onlyImportedBy("only world/cri and world/etcd use gRPC", oneDoor, []string{"google.golang.org/grpc"},
			"internal/world/cri", "internal/world/etcd"),
		onlyImportedBy("random values come from the environment",
			"tests must control them, and a resumed run must find them again",
			[]string{"math/rand"}, "internal/world"),
		onlyImportedBy("only cli uses the command line library",
			"workflows must run without a command line", []string{"github.com/spf13"},
			"internal/cli", "cmd/kubeadm"),
		onlyImportedBy("only report writes tables",
			"cells hold text of kubelets and users, which must not reach the terminal as it is",
			[]string{"text/tabwriter"}, "internal/report"),
		onlyImportedBy("upstream's code is not linked in",
			"kubeadm is implemented here, not reused", []string{"k8s.io/kubernetes"}),
		onlyImportedBy("main selects the real worlds",
			"a package that names one cannot be tested with another",
			subpackages("internal/world", "linux", "windows", "kube", "etcd", "cri", "real"), "cmd/kubeadm",
			"internal/world/real"),
		onlyImportedBy("only tests use fakes", "the program must not contain its tests' worlds",
			subpackages("internal/world", "fake", "fault", "worldtest")),
		onlyImportedBy("a run selects wrappers of the world",
			"a phase must behave the same in all of them",
			subpackages("internal/world", "journal", "dryrun"), "internal/run"),
		onlyImportedBy("only worlds use memory", "it implements previews and fakes",
			subpackages("internal/world", "memory"), "internal/world"),
		{
			name:   "a phase does not import another phase",
			reason: "shared code moves to a lower layer, so that each phase can be read, skipped and run alone",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.imports(func(f file, at token.Pos, what string) {
					if isBelow(f.dir, "internal/phase") &&
						isBelow(localDir(what), "internal/phase") {
						report(at, "%s imports %s", f.dir, what)
					}
				})
			},
		},
		onlyImportedBy("only workflow imports phases",
			"what a command runs is a workflow; code that others need too moves to a lower layer",
			[]string{"kubeadm/internal/phase"}, "internal/workflow"),
		{
			name:   "packages import only lower layers",
			reason: "so a change affects only higher layers, and each layer can be tested alone",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.imports(func(f file, at token.Pos, what string) {
					dir := localDir(what)
					if dir == "" || layerEntry(dir) != "" && layerEntry(dir) == layerEntry(f.dir) {
						return // another module, or the same entry of layers
					}
					if layerOf(dir) < 0 || layerOf(dir) >= layerOf(f.dir) {
						report(at, "%s (layer %d) imports %s (layer %d)", f.dir, layerOf(f.dir),
							dir, layerOf(dir))
					}
				})
			},
		},
		{
			name:   "every package has a layer",
			reason: "the order of packages is a decision: add new ones to layers()",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					if layerOf(f.dir) < 0 {
						report(f.Package, "%s is in no layer", f.dir)
					}
				})
			},
		},
	}
}

// layers lists the packages from the bottom up; those of one line do not import each other. A
// directory includes all directories below it.
func layers() [][]string {
	return [][]string{
		{"internal/problem", "internal/flag", "internal/untrusted"},
		{"internal/crashlog", "internal/redact"},
		{"internal/strict"},
		{"internal/release", "internal/pki"},
		{"internal/etcdsnapshot", "internal/node"},
		{"internal/state"},
		{"internal/change"},
		{"internal/manifest", "internal/world"},
		{"internal/kubeletwatch"},
		{"internal/certstore", "internal/etcdcluster", "internal/rotation"},
		{"internal/manifestinput"},
		{"internal/config", "internal/engine"},
		{"internal/phaseindex"},
		{"internal/preflight"},
		{"internal/clusterlock", "internal/discovery", "internal/health", "internal/imagepull",
			"internal/localkubelet", "internal/report", "internal/sharedcerts"},
		{"internal/staticpod", "internal/renewal", "internal/etcddata", "internal/snapshots"},
		{"internal/drain", "internal/existing", "internal/kubeletfile"},
		{"internal/certuse", "internal/nodeaddress", "internal/nodename", "internal/reconfiguration",
			"internal/upgrade"},
		{"internal/phase"},
		{"internal/doctor", "internal/workflow"},
		{"internal/run"},
		{"internal/cli"},
		{"cmd/kubeadm"},
	}
}

// layerOf is -1 for a package without one.
func layerOf(dir string) int {
	return slices.IndexFunc(layers(), func(tops []string) bool { return isBelow(dir, tops...) })
}

// layerEntry is the entry of layers that a package belongs to, or empty.
func layerEntry(dir string) string {
	for _, tops := range layers() {
		if i := slices.IndexFunc(tops, func(top string) bool { return isBelow(dir, top) }); i >= 0 {
			return tops[i]
		}
	}
	return ""
}

func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		dir, imports string
		found        bool
	}{
		{"internal/config", "kubeadm/internal/health", true},
		{"internal/config", "kubeadm/internal/engine", true}, // of the same layer
		{"internal/strict", "kubeadm/internal/phase/certs", true},
		{"internal/config/v1beta4", "kubeadm/internal/discovery", true},
		{"internal/world/kube", "kubeadm/internal/engine", true},
		{"internal/world/real", "kubeadm/internal/manifest", true}, // of the same layer
		{"internal/world", "kubeadm/internal/cli", true},
		{"internal/node", "kubeadm/internal/change", true},
		{"internal/phase/certs", "kubeadm/internal/workflow", true},
		{"internal/phase/certs", "kubeadm/internal/phase/kubelet", true},
		{"internal/cli", "kubeadm/internal/phase/certs", true},
		{"internal/workflow", "kubeadm/internal/phase/certs", false},
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
		parsed, err := parser.ParseFile(planted.fset, "planted.go",
			fmt.Sprintf("package planted\n\nimport _ %q\n", c.imports), 0)
		if err != nil {
			t.Fatal(err)
		}
		planted.files = []file{{File: parsed, dir: c.dir, name: "planted.go"}}
		found := false
		for _, r := range importRules() {
			if r.name == "packages import only lower layers" ||
				r.name == "a phase does not import another phase" ||
				r.name == "only workflow imports phases" {
				r.check(planted, func(token.Pos, string, ...any) { found = true })
			}
		}
		if found != c.found {
			t.Errorf("%s imports %s: found is %v, want %v", c.dir, c.imports, found, c.found)
		}
	}
}

// onlyImportedBy is the rule that only the packages in by may import those in what.
func onlyImportedBy(name, reason string, what []string, by ...string) rule {
	return rule{name: name, reason: reason,
		check: func(s source, report func(token.Pos, string, ...any)) {
			s.imports(func(f file, at token.Pos, found string) {
				// Packages may always import their own subpackages.
				if isBelow(found, what...) && !isBelow(f.dir, by...) &&
					!isBelow(f.dir, localDirs(what)...) {
					report(at, "%s imports %s", f.dir, found)
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

// localDir is the directory of a package of this module, or empty.
func localDir(imported string) string {
	dir, ok := strings.CutPrefix(imported, module)
	if !ok {
		return ""
	}
	return dir
}

func localDirs(imported []string) []string {
	var dirs []string
	for _, i := range imported {
		if dir := localDir(i); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// subpackages are packages of one directory. It panics if one does not exist: a rule for it would hold for nothing.
func subpackages(dir string, names ...string) []string {
	var all []string
	for _, n := range names {
		if _, err := os.Stat(filepath.Join("..", dir, n)); err != nil {
			panic(fmt.Sprintf("importRules: %v", err))
		}
		all = append(all, module+path.Join(dir, n))
	}
	return all
}

// importName is the name of an imported package in a file; empty if the file does not import it.
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

// refersTo visits the uses of a package's names.
func (f file) refersTo(what string, names []string, visit func(at token.Pos, name string)) {
	as := f.importName(what)
	if as == "" {
		return
	}
	f.selectors(func(at token.Pos, of, name string) {
		if of == as && (names == nil ||
			slices.ContainsFunc(names, func(n string) bool { return matchesPattern(n, name) })) {
			visit(at, of+"."+name)
		}
	})
}

// matchesPattern reports whether a name matches a pattern, which may end with an asterisk.
func matchesPattern(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
