package internal_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every decision is listed by subject under its title, so that a reader who looks for a reason finds
// its page.
func TestDecisionsAreListed(t *testing.T) {
	dir := filepath.Join("..", "docs", "decisions")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		title := ""
		for _, line := range strings.Split(string(text), "\n") {
			if heading, ok := strings.CutPrefix(line, "# "); ok {
				title = heading
				break
			}
		}
		line := fmt.Sprintf("* [%s](%s)", title, filepath.Base(page))
		if !strings.Contains(string(index), line) {
			t.Errorf("docs/decisions/README.md does not list this page under its subject: %s", line)
		}
	}
}

// The page on architecture lists the layers of layers, which exist, from the top down.
func TestArchitectureListsLayers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	layer := ""
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d*) \\| `([a-z/*]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if row[1] != "" {
			layer = row[1]
		}
		found[row[2]] = layer
	}
	want := map[string]string{}
	for i, packages := range layers() {
		for _, dir := range packages {
			if _, err := os.Stat(filepath.Join("..", dir)); err != nil {
				t.Errorf("layers: %v", err)
			}
			name := strings.TrimPrefix(dir, "internal/")
			if name == "phase" {
				name = "phase/*"
			}
			want[name] = strconv.Itoa(i + 1)
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("docs/architecture.md has another layer for (- layers(), + the page):\n%s", diff)
	}
}

// documentRules say what must have a comment.
func documentRules() []rule {
	return []rule{
		{name: "every package has a package comment",
			reason: "the list of packages is the map of the program",
			check: func(s source, report func(token.Pos, string, ...any)) {
				first, said := map[string]file{}, map[string]bool{}
				for _, f := range s.files {
					if strings.HasSuffix(f.name, "_test.go") && f.dir != "internal" {
						continue
					}
					if _, ok := first[f.dir]; !ok {
						first[f.dir] = f
					}
					said[f.dir] = said[f.dir] || f.Doc != nil
				}
				for dir, f := range first {
					if !said[dir] {
						report(f.Package, "%s has no package comment", dir)
					}
				}
			}},
		{name: "every exported name has a comment",
			reason: "a reader must not have to derive the contract from the code",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					for _, d := range f.Decls {
						checkDocumented(d, report)
					}
				})
			}},
	}
}

// checkDocumented reports exported names of a declaration without a comment.
func checkDocumented(d ast.Decl, report func(token.Pos, string, ...any)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && !needsNoComment(d) {
			report(d.Pos(), "%s", d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
					report(spec.Pos(), "%s", spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil &&
					spec.Comment == nil {
					report(spec.Pos(), "%s", spec.Names[0])
				}
			}
		}
	}
}

// needsNoComment reports whether a method implements a well-known interface or belongs to an
// unexported type.
func needsNoComment(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	if slices.Contains([]string{"Error", "String", "Unwrap", "Format", "Read", "Write", "Close",
		"Len", "Less", "Swap"}, fn.Name.Name) {
		return true
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	id, ok := of.(*ast.Ident)
	return ok && !id.IsExported()
}
