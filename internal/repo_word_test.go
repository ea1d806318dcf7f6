package internal_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// wordRules say which names may be used where.
func wordRules() []rule {
	return []rule{
		onlyUsedBy("only reports and main write to the terminal",
			"other packages emit events, so that text, JSON and tests show the same run",
			map[string][]string{"fmt": {"Print*"}, "os": {"Stdout", "Stderr", "Stdin"}},
			"internal/report", "cmd/kubeadm"),
		onlyUsedBy("clock and random values come from the environment",
			"a run must be reproducible in a test, and a wait must have a name and a limit",
			map[string][]string{
				"time": {"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer",
					"NewTicker", "Since", "Until"},
				"crypto/rand": {"Reader", "Read", "Text", "Prime"},
			}, "internal/world"),
		onlyUsedBy("only worlds use the network", "dry runs and tests must see every request",
			map[string][]string{
				"net": {"Dial*", "Listen*", "Lookup*", "Resolver", "DefaultResolver",
					"Interfaces", "InterfaceAddrs"},
				"net/http": {"Get", "Head", "Post*", "Client", "Transport", "DefaultClient",
					"DefaultTransport", "NewRequest*"},
			}, "internal/world"),
		{
			name:   "no phase handles dry runs",
			reason: "a dry run is a world like others: a phase must behave the same in it",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					if !isBelow(f.dir, "internal/cli", "internal/run", "internal/config",
						"internal/flag", "internal/world/dryrun", "internal/world/kube",
						"cmd/kubeadm") {
						checkDryRunNames(f, report)
					}
				})
			},
		},
		{
			name:   "only worlds and main depend on the operating system",
			reason: "what differs is a fact that is read, so that every test covers it",
			check: func(s source, report func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					if !isBelow(f.dir, "internal") || isBelow(f.dir, "internal/world") {
						continue
					}
					_, suffix, _ := strings.Cut(strings.TrimSuffix(f.name, ".go"), "_")
					for _, system := range []string{"linux", "windows"} {
						if slices.Contains(strings.Split(suffix, "_"), system) {
							report(f.Package, "%s is only for %s", f.name, system)
						}
					}
					for _, group := range f.Comments {
						if strings.HasPrefix(group.List[0].Text, "//go:build") {
							report(group.Pos(), "%s", group.List[0].Text)
						}
					}
				}
			},
		},
		{
			name:   "no package has an empty name",
			reason: "a package is named after what it provides; these names fit everything",
			check: func(s source, report func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					name := strings.TrimSuffix(f.Name.Name, "_test")
					if slices.Contains([]string{"util", "utils", "common", "helper", "helpers",
						"constants", "types", "manager", "base", "misc"}, name) {
						report(f.Package, "package %s", name)
					}
				}
			},
		},
		{
			name: "no name has an empty verb", reason: "these words do not say what happens",
			check: func(s source, report func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					for _, id := range declaredNames(f) {
						if w := findEmptyWord(id.Name); w != "" {
							report(id.Pos(), "%s contains %q", id.Name, w)
						}
					}
				}
			},
		},
	}
}

// onlyUsedBy is the rule that only the packages in by may use these names of other packages.
func onlyUsedBy(name, reason string, what map[string][]string, by ...string) rule {
	return rule{name: name, reason: reason,
		check: func(s source, report func(token.Pos, string, ...any)) {
			s.program(func(f file) {
				if isBelow(f.dir, by...) {
					return
				}
				for pkg, names := range what {
					f.refersTo(pkg, names,
						func(at token.Pos, name string) { report(at, "%s uses %s", f.dir, name) })
				}
			})
		}}
}

// checkDryRunNames reports names that contain the word. flag.DryRun is only the name of a flag.
func checkDryRunNames(f file, report func(token.Pos, string, ...any)) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := sel.X.(*ast.Ident); ok && of.Name == "flag" {
				return false
			}
		}
		if id, ok := n.(*ast.Ident); ok && strings.Contains(strings.ToLower(id.Name), "dryrun") {
			report(id.Pos(), "%s in %s", id.Name, f.dir)
		}
		return true
	})
}

// declaredNames returns the names of functions, methods and types.
func declaredNames(f file) []*ast.Ident {
	var all []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all = append(all, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					all = append(all, t.Name)
				}
			}
		}
	}
	return all
}

// findEmptyWord returns a word of the name that says nothing, if there is one: its verb, or its
// last word.
func findEmptyWord(name string) string {
	words := splitWords(name)
	verb, doer := words[0], words[len(words)-1]
	switch {
	case len(words) > 1 &&
		slices.Contains([]string{"get", "ensure", "handle", "process", "manage", "perform",
			"setup"}, verb):
		return verb
	case name == "controllerManager": // the component's name
		return ""
	case slices.Contains([]string{"handler", "processor", "manager", "performer", "helper"}, doer):
		return doer
	}
	return ""
}

// splitWords splits a name into its words, in lower case.
func splitWords(name string) []string {
	var words []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) ||
			runes[i] == '_' {
			words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_")))
			start = i
		}
	}
	return words
}
