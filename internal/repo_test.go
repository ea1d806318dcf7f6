// Package internal_test holds the rules of this repository: each is a check of the source with
// the reason why it is there.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rule is a check of the source and the reason for it.
type rule struct {
	name, reason string
	check        func(s source, report func(at token.Pos, format string, args ...any))
}

func TestRepositoryRules(t *testing.T) {
	files := loadSource(t)
	rules := slices.Concat(importRules(), wordRules(), sizeRules(), documentRules(), stateRules(), commandRules())
	for _, r := range rules {
		t.Run(strings.NewReplacer(" ", "-", "/", "-").Replace(r.name), func(t *testing.T) {
			t.Parallel()
			r.check(files, func(at token.Pos, format string, args ...any) {
				t.Errorf("%s: %s\n\tthe rule: %s, because %s", files.where(at),
					fmt.Sprintf(format, args...), r.name, r.reason)
			})
		})
	}
}

// source is the parsed source of the module.
type source struct {
	fset  *token.FileSet
	files []file
}

// file is one Go file.
type file struct {
	*ast.File
	dir  string // of the package, from the root of the module, such as "internal/world/linux"
	name string // without the directory
	test bool   // a test, or a package that only tests import
}

const root = ".."

// loadSource parses the program and its tests.
func loadSource(t *testing.T) source {
	t.Helper()
	s := source{fset: token.NewFileSet()}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, top := range []string{"cmd/kubeadm", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top),
			func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
					return err
				}
				wg.Go(func() {
					parsed, err := parser.ParseFile(s.fset, name, nil, parser.ParseComments)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
						return
					}
					s.files = append(s.files, newFile(parsed, name))
				})
				return nil
			})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if len(s.files) < 100 {
		t.Fatalf("only %d files were found", len(s.files))
	}
	slices.SortFunc(s.files,
		func(a, b file) int { return strings.Compare(a.dir+"/"+a.name, b.dir+"/"+b.name) })
	return s
}

func newFile(parsed *ast.File, name string) file {
	rel, _ := filepath.Rel(root, name)
	dir := path.Dir(filepath.ToSlash(rel))
	test := strings.HasSuffix(name, "_test.go") || isBelow(dir, "test") ||
		isBelow(dir, "internal/world/worldtest")
	return file{File: parsed, dir: dir, name: path.Base(rel), test: test}
}

// where returns a position such as "internal/engine/run.go:12".
func (s source) where(at token.Pos) string {
	p := s.fset.Position(at)
	rel, _ := filepath.Rel(root, p.Filename)
	return fmt.Sprintf("%s:%d", rel, p.Line)
}

func (s source) line(at token.Pos) int { return s.fset.Position(at).Line }

// program visits the files that are not tests.
func (s source) program(visit func(f file)) {
	for _, f := range s.files {
		if !f.test {
			visit(f)
		}
	}
}

// functions visits all functions with a body.
func (f file) functions(visit func(fn *ast.FuncDecl)) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			visit(fn)
		}
	}
}

// selectors visits all uses of the form package.Name or value.Name.
func (f file) selectors(visit func(at token.Pos, of, name string)) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := sel.X.(*ast.Ident); ok {
				visit(sel.Pos(), of.Name, sel.Sel.Name)
			}
		}
		return true
	})
}

// isBelow reports whether a directory is one of the tops or below one.
func isBelow(dir string, tops ...string) bool {
	return slices.ContainsFunc(tops,
		func(top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") })
}
