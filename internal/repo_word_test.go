package internal_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// wordRules say which names stand where.
func wordRules() []rule {
	return []rule{
		used("only reports and main write to the terminal", "all else tells events, so that text, JSON and tests show the same run",
			map[string][]string{"fmt": {"Print*"}, "os": {"Stdout", "Stderr", "Stdin"}}, "internal/report", "cmd/kubeadm"),
		used("the clock and chance are outside", "a run must come out the same in a test, and a wait must have a name and a bound",
			map[string][]string{
				"time":        {"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Since", "Until"},
				"crypto/rand": {"Reader", "Read", "Text", "Prime"},
			}, "internal/world"),
		used("the network is outside", "what is asked of it must be seen by previews and tests",
			map[string][]string{
				"net":      {"Dial*", "Listen*", "Lookup*", "Resolver", "DefaultResolver", "Interfaces", "InterfaceAddrs"},
				"net/http": {"Get", "Head", "Post*", "Client", "Transport", "DefaultClient", "DefaultTransport", "NewRequest*"},
			}, "internal/world"),
		{
			name: "no phase knows of dry runs", reason: "a preview is a world like others: who knows of it can lie in it",
			check: func(s source, blame func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					if !under(f.dir, "internal/cli", "internal/config", "internal/flag", "internal/world/preview", "internal/world/kube", "cmd/kubeadm") {
						dryRuns(f, blame)
					}
				})
			},
		},
		{
			name: "no package is named for nothing", reason: "a package is named for what it provides; these names take in everything",
			check: func(s source, blame func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					name := strings.TrimSuffix(f.Name.Name, "_test")
					if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "constants", "types", "manager", "base", "misc"}, name) {
						blame(f.Package, "package %s", name)
					}
				}
			},
		},
		{
			name: "each verb has one meaning", reason: "these say nothing about what happens, and Get says nothing at all",
			check: func(s source, blame func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					for _, id := range declared(f) {
						if w := emptyWord(id.Name); w != "" {
							blame(id.Pos(), "%s is named with %q", id.Name, w)
						}
					}
				}
			},
		},
	}
}

// used is the rule that some names of packages are used only by some.
func used(name, reason string, what map[string][]string, by ...string) rule {
	return rule{name: name, reason: reason, check: func(s source, blame func(token.Pos, string, ...any)) {
		s.program(func(f file) {
			if under(f.dir, by...) {
				return
			}
			for pkg, names := range what {
				f.refersTo(pkg, names, func(at token.Pos, name string) { blame(at, "%s uses %s", f.dir, name) })
			}
		})
	}}
}

// dryRuns looks for the word in names. flag.DryRun only names a flag.
func dryRuns(f file, blame func(token.Pos, string, ...any)) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := sel.X.(*ast.Ident); ok && of.Name == "flag" {
				return false
			}
		}
		if id, ok := n.(*ast.Ident); ok && strings.Contains(strings.ToLower(id.Name), "dryrun") {
			blame(id.Pos(), "%s in %s", id.Name, f.dir)
		}
		return true
	})
}

// declared are the names of functions, methods and types.
func declared(f file) []*ast.Ident {
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

// emptyWord is the word with which a name says nothing, if there is one: a verb it begins with, or a doer it ends with.
func emptyWord(name string) string {
	words := camel(name)
	verb, doer := words[0], words[len(words)-1]
	switch {
	case len(words) > 1 && slices.Contains([]string{"get", "ensure", "handle", "process", "manage", "perform", "setup"}, verb):
		return verb
	case name == "controllerManager": // the component is called so
		return ""
	case slices.Contains([]string{"handler", "processor", "manager", "performer", "helper"}, doer):
		return doer
	}
	return ""
}

// camel parts a name into its words, in lower case.
func camel(name string) []string {
	var words []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) || runes[i] == '_' {
			words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_")))
			start = i
		}
	}
	return words
}
