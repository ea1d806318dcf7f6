package internal_test

import (
	"go/ast"
	"go/token"
)

// Upper bounds, never aims: a function that reads top to bottom is better than five of four lines
// each.
const (
	maxFileLines     = 500
	maxFunctionLines = 80
	maxParameters    = 4 // besides the context, which goes everywhere
	maxMethods       = 5
)

const readable = "long files and functions are hard to review"

// sizeRules set upper bounds for sizes.
func sizeRules() []rule {
	return []rule{
		{name: "files are short", reason: readable,
			check: func(s source, report func(token.Pos, string, ...any)) {
				for _, f := range s.files {
					if lines := s.line(f.FileEnd); lines > maxFileLines {
						report(f.Package, "%d lines, at most %d are allowed", lines, maxFileLines)
					}
				}
			}},
		{name: "functions are short", reason: readable, check: checkFunctionLength},
		{name: "parameters are few",
			reason: "a call must be readable without looking up its parameters",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					f.functions(func(fn *ast.FuncDecl) { checkParameters(fn, report) })
				})
			}},
		{name: "interfaces are small",
			reason: "a large interface is hard to fake and says little about what its user needs",
			check: func(s source, report func(token.Pos, string, ...any)) {
				s.program(func(f file) {
					ast.Inspect(f.File, func(n ast.Node) bool {
						if i, ok := n.(*ast.InterfaceType); ok &&
							i.Methods.NumFields() > maxMethods && !mayBeWide(f) {
							report(i.Pos(), "%d methods, at most %d are allowed",
								i.Methods.NumFields(), maxMethods)
						}
						return true
					})
				})
			}},
	}
}

// mayBeWide exempts the interface that reads the world: reads are many so that writes can be few.
func mayBeWide(f file) bool { return f.dir == "internal/state" && f.name == "reader.go" }

func checkFunctionLength(s source, report func(token.Pos, string, ...any)) {
	s.program(func(f file) {
		f.functions(func(fn *ast.FuncDecl) {
			if lines := s.line(fn.End()) - s.line(fn.Pos()) + 1; lines > maxFunctionLines {
				report(fn.Pos(), "%s has %d lines, at most %d are allowed", fn.Name, lines,
					maxFunctionLines)
			}
		})
	})
}

func checkParameters(fn *ast.FuncDecl, report func(token.Pos, string, ...any)) {
	count, switches := 0, 0
	for _, p := range fn.Type.Params.List {
		if sel, ok := p.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
			continue
		}
		count += max(1, len(p.Names))
		if id, ok := p.Type.(*ast.Ident); ok && id.Name == "bool" {
			switches += max(1, len(p.Names))
		} else {
			switches = 0
		}
		if switches > 1 {
			report(fn.Pos(), "%s takes two bools in succession", fn.Name)
		}
	}
	if count > maxParameters {
		report(fn.Pos(), "%s takes %d parameters besides the context, at most %d are allowed",
			fn.Name, count, maxParameters)
	}
}
