package internal_test

import (
	"go/ast"
	"go/token"
)

// Upper bounds, never aims: a function that reads top to bottom is better than five of four lines each.
const (
	longestFile     = 500
	longestFunction = 80
	mostParameters  = 4 // besides the context, which goes everywhere
	mostMethods     = 5
)

const readable = "what does not fit on a screen or in a head is read less carefully"

// sizeRules keep things small.
func sizeRules() []rule {
	return []rule{
		{name: "files are short", reason: readable, check: func(s source, blame func(token.Pos, string, ...any)) {
			for _, f := range s.files {
				if lines := s.line(f.FileEnd); lines > longestFile {
					blame(f.Package, "%d lines, and the most is %d", lines, longestFile)
				}
			}
		}},
		{name: "functions are short", reason: readable, check: functionsAreShort},
		{name: "parameters are few", reason: "a call must be understood without looking up what each argument is", check: func(s source, blame func(token.Pos, string, ...any)) {
			s.program(func(f file) {
				f.functions(func(fn *ast.FuncDecl) { parameters(fn, blame) })
			})
		}},
		{name: "interfaces are small", reason: "a big one is hard to fake and says little about what its user needs", check: func(s source, blame func(token.Pos, string, ...any)) {
			s.program(func(f file) {
				ast.Inspect(f.File, func(n ast.Node) bool {
					if i, ok := n.(*ast.InterfaceType); ok && i.Methods.NumFields() > mostMethods && !wideOnPurpose(f) {
						blame(i.Pos(), "%d methods, and the most is %d", i.Methods.NumFields(), mostMethods)
					}
					return true
				})
			})
		}},
	}
}

// wideOnPurpose is for the readers of the world: reads are wide so that writes can be narrow.
func wideOnPurpose(f file) bool { return f.dir == "internal/state" && f.name == "reader.go" }

func functionsAreShort(s source, blame func(token.Pos, string, ...any)) {
	s.program(func(f file) {
		f.functions(func(fn *ast.FuncDecl) {
			if lines := s.line(fn.End()) - s.line(fn.Pos()) + 1; lines > longestFunction {
				blame(fn.Pos(), "%s has %d lines, and the most is %d", fn.Name, lines, longestFunction)
			}
		})
	})
}

func parameters(fn *ast.FuncDecl, blame func(token.Pos, string, ...any)) {
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
			blame(fn.Pos(), "%s takes two bools side by side", fn.Name)
		}
	}
	if count > mostParameters {
		blame(fn.Pos(), "%s takes %d parameters besides the context, and the most is %d", fn.Name, count, mostParameters)
	}
}
