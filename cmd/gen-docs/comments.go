package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"strings"
)

// fieldComments maps "package.Type" and "package.Type.Field" to doc comments.
type fieldComments map[string]string

// read adds the comments of the types of a directory.
func (c fieldComments) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range parsed.Decls {
			general, ok := d.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, s := range general.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok {
					c.add(parsed.Name.Name+"."+spec.Name.Name, general, spec)
				}
			}
		}
	}
	return nil
}

func (c fieldComments) add(name string, d *ast.GenDecl, spec *ast.TypeSpec) {
	c[name] = joinLines(d.Doc.Text())
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range structure.Fields.List {
		for _, id := range f.Names {
			c[name+"."+id.Name] = joinLines(f.Doc.Text())
		}
	}
}

func joinLines(text string) string { return strings.Join(strings.Fields(text), " ") }

func (c fieldComments) ofType(t reflect.Type) string {
	return c[path.Base(t.PkgPath())+"."+t.Name()]
}

// ofField is the comment of a field, which begins with its name in a file.
func (c fieldComments) ofField(t reflect.Type, f reflect.StructField, name string) string {
	text := c[path.Base(t.PkgPath())+"."+t.Name()+"."+f.Name]
	if rest, ok := strings.CutPrefix(text, f.Name); ok {
		return "`" + name + "`" + rest
	}
	return text
}
