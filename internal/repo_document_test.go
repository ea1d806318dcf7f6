package internal_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

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
