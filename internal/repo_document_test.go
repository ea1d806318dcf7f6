package internal_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// documentRules say what must be explained.
func documentRules() []rule {
	return []rule{
		{name: "every package says what it is for", reason: "the list of packages is the map of the program", check: func(s source, blame func(token.Pos, string, ...any)) {
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
					blame(f.Package, "%s has no package comment", dir)
				}
			}
		}},
		{name: "every exported name is documented", reason: "what it promises is not to be guessed from how it is done", check: func(s source, blame func(token.Pos, string, ...any)) {
			s.program(func(f file) {
				for _, d := range f.Decls {
					undocumented(d, blame)
				}
			})
		}},
	}
}

// undocumented looks for exported names of a declaration without a comment.
func undocumented(d ast.Decl, blame func(token.Pos, string, ...any)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && !speaksForItself(d) {
			blame(d.Pos(), "%s", d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
					blame(spec.Pos(), "%s", spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					blame(spec.Pos(), "%s", spec.Names[0])
				}
			}
		}
	}
}

// speaksForItself is for methods that the standard library gives their meaning, and for those
// of types that are not exported.
func speaksForItself(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	if slices.Contains([]string{"Error", "String", "Unwrap", "Format", "Read", "Write", "Close", "Len", "Less", "Swap"}, fn.Name.Name) {
		return true
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	id, ok := of.(*ast.Ident)
	return ok && !id.IsExported()
}
