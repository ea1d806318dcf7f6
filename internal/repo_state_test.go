package internal_test

import (
	"go/ast"
	"go/token"
	"strings"
)

// stateRules keep packages without a life of their own.
func stateRules() []rule {
	return []rule{
		{name: "no init", reason: "importing a package must do nothing", check: func(s source, blame func(token.Pos, string, ...any)) {
			for _, f := range s.files {
				f.functions(func(fn *ast.FuncDecl) {
					if fn.Recv == nil && fn.Name.Name == "init" {
						blame(fn.Pos(), "func init")
					}
				})
			}
		}},
		{name: "package variables do not change", reason: "what one caller does must not be felt by another", check: func(s source, blame func(token.Pos, string, ...any)) {
			vars := map[string]map[string]*ast.ValueSpec{}
			s.program(func(f file) {
				if vars[f.dir] == nil {
					vars[f.dir] = map[string]*ast.ValueSpec{}
				}
				packageVariables(f, vars[f.dir], blame)
			})
			s.program(func(f file) {
				f.functions(func(fn *ast.FuncDecl) { written(fn, vars[f.dir], blame) })
			})
		}},
	}
}

// packageVariables collects a file's package variables. Of some types they can be meant only to be changed.
func packageVariables(f file, into map[string]*ast.ValueSpec, blame func(token.Pos, string, ...any)) {
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
			if kind := changeable(v); kind != "" {
				blame(v.Pos(), "%s is a %s", v.Names[0], kind)
			}
		}
	}
}

func changeable(v *ast.ValueSpec) string {
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

// written looks for assignments to package variables.
func written(fn *ast.FuncDecl, vars map[string]*ast.ValueSpec, blame func(token.Pos, string, ...any)) {
	look := func(e ast.Expr) {
		id := base(e)
		if id == nil || vars[id.Name] == nil || id.Obj != nil && id.Obj.Decl != any(vars[id.Name]) {
			return
		}
		blame(e.Pos(), "%s is written to in %s", id.Name, fn.Name)
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

// base is the variable in which an assignment ends: x of x, x.f, x[i] and *x.
func base(e ast.Expr) *ast.Ident {
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
