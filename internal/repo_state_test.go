package internal_test

import (
	"go/ast"
	"go/token"
	"strings"
)

// stateRules forbid global state.
func stateRules() []rule {
	return []rule{
		{name: "no init", reason: "importing a package must do nothing",
			check: func(s source, report func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					f.functions(func(fn *ast.FuncDecl) {
						if fn.Recv == nil && fn.Name.Name == "init" {
							report(fn.Pos(), "func init")
						}
					})
				}
			}},
		{name: "package variables do not change", reason: "callers must not affect each other",
			check: func(s source, report func(token.Pos, string, ...any)) {
				vars := map[string]map[string]*ast.ValueSpec{}
				s.program(func(f file) {
					if vars[f.dir] == nil {
						vars[f.dir] = map[string]*ast.ValueSpec{}
					}
					packageVariables(f, vars[f.dir], report)
				})
				s.program(func(f file) {
					f.functions(func(fn *ast.FuncDecl) {
						checkAssignments(fn, vars[f.dir], report)
					})
				})
			}},
	}
}

// packageVariables collects a file's package variables, and reports those of mutable types.
func packageVariables(f file, into map[string]*ast.ValueSpec,
	report func(token.Pos, string, ...any)) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for _, name := range v.Names {
				into[name.Name] = v
			}
			if kind := mutableKind(v); kind != "" {
				report(v.Pos(), "%s is a %s", v.Names[0], kind)
			}
		}
	}
}

func mutableKind(v *ast.ValueSpec) string {
	types := []ast.Expr{v.Type}
	for _, value := range v.Values {
		switch value := value.(type) {
		case *ast.CompositeLit:
			types = append(types, value.Type)
		case *ast.UnaryExpr:
			if lit, ok := value.X.(*ast.CompositeLit); ok {
				types = append(types, lit.Type)
			}
		}
	}
	for _, t := range types {
		switch t := t.(type) {
		case *ast.MapType:
			return "map"
		case *ast.ChanType:
			return "channel"
		case *ast.SelectorExpr:
			if of, ok := t.X.(*ast.Ident); ok && (of.Name == "sync" || of.Name == "atomic") {
				return of.Name + "." + t.Sel.Name
			}
		}
	}
	return ""
}

// checkAssignments reports assignments to package variables.
func checkAssignments(fn *ast.FuncDecl, vars map[string]*ast.ValueSpec,
	report func(token.Pos, string, ...any)) {
	look := func(e ast.Expr) {
		id := rootVariable(e)
		if id == nil || vars[id.Name] == nil || id.Obj != nil && id.Obj.Decl != any(vars[id.Name]) {
			return
		}
		report(e.Pos(), "%s is written to in %s", id.Name, fn.Name)
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, to := range n.Lhs {
					look(to)
				}
			}
		case *ast.IncDecStmt:
			look(n.X)
		}
		return true
	})
}

// rootVariable returns the variable that an assignment changes: x of x, x.f, x[i] and *x.
func rootVariable(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			if strings.HasPrefix(x.Name, "_") {
				return nil
			}
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
