package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Misfits are what in a document has no place in the Go type, a sentence each.
type Misfits struct {
	Unknown []string // fields that do not exist or are given twice: a lenient reader can do without
	Wrong   []string // values of the wrong type: nobody can go on
}

// Decode stores the document in the struct that into points to, unless a value has
// a wrong type. Field names are case-sensitive. A field that is unknown here but not in the
// structs that others point to is said to belong there.
func (d Document) Decode(into any, others ...any) Misfits {
	w := walker{root: reflect.TypeOf(into).Elem()}
	for _, o := range others {
		w.others = append(w.others, reflect.TypeOf(o).Elem())
	}
	w.walk("", d.tree, w.root)
	w.Unknown = append(slices.Clone(d.twice), w.Unknown...)
	if len(w.Wrong) > 0 {
		return w.Misfits
	}
	if err := utiljson.Unmarshal(d.json, into); err != nil {
		w.Wrong = append(w.Wrong, err.Error())
	}
	return w.Misfits
}

// anyObjects is a field that every Kubernetes object may have. Where a kind does not have it,
// it says nothing that could be missed: a document's own name.
const anyObjects = "metadata"

// walker compares a document with a type.
type walker struct {
	Misfits
	root   reflect.Type
	others []reflect.Type
}

func (w *walker) wrong(path, format string, args ...any) {
	w.Wrong = append(w.Wrong, path+": "+fmt.Sprintf(format, args...))
}

func (w *walker) walk(path string, value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case value == nil || t.Kind() == reflect.Interface:
	case readsItself(t):
		w.own(path, value, t)
	case t.Kind() == reflect.Struct:
		w.fields(path, value, t)
	case t.Kind() == reflect.Slice:
		w.list(path, value, t)
	case t.Kind() == reflect.Map:
		w.mapping(path, value, t)
	default:
		w.scalar(path, value, t)
	}
}

func (w *walker) fields(path string, value any, t reflect.Type) {
	object, ok := value.(map[string]any)
	if !ok {
		w.wrong(path, "must be a mapping, not %s", describe(value))
		return
	}
	known := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if field, ok := known[name]; ok {
			w.walk(below(path, name), object[name], field)
			continue
		}
		if below(path, name) == anyObjects {
			continue
		}
		w.Unknown = append(w.Unknown, fmt.Sprintf("unknown field %s%s", below(path, name), w.advice(name, known)))
	}
}

func (w *walker) list(path string, value any, t reflect.Type) {
	items, ok := value.([]any)
	if !ok {
		w.wrong(path, "must be a list%s, not %s", ofWhat(t.Elem()), describe(value))
		return
	}
	for i, item := range items {
		w.walk(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
	}
}

func (w *walker) mapping(path string, value any, t reflect.Type) {
	object, ok := value.(map[string]any)
	if !ok {
		w.wrong(path, "must be a mapping, not %s", describe(value))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		w.walk(fmt.Sprintf("%s[%s]", path, key), object[key], t.Elem())
	}
}

func (w *walker) scalar(path string, value any, t reflect.Type) {
	text, err := json.Marshal(value)
	if err == nil && json.Unmarshal(text, reflect.New(t).Interface()) == nil {
		return
	}
	_, number := value.(json.Number)
	switch {
	case number && t.Kind() == reflect.String:
		w.wrong(path, "must be text, not a number: put it in quotes")
	case number && t.Kind() != reflect.Bool:
		w.wrong(path, "must be %s", wanted(t))
	default:
		w.wrong(path, "must be %s, not %s", wanted(t), describe(value))
	}
}

// own checks a type that reads itself.
func (w *walker) own(path string, value any, t reflect.Type) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err == nil {
		return
	}
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		w.wrong(path, "must be a duration such as 1h30m0s")
	case reflect.TypeFor[metav1.Time]():
		w.wrong(path, "must be a time such as 2030-01-02T15:04:05Z")
	case reflect.TypeFor[resource.Quantity]():
		w.wrong(path, "must be a quantity such as 100Mi")
	default:
		w.wrong(path, "does not fit: %v", err)
	}
}

func readsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldsOf lists the fields of a struct under their JSON names, those of embedded
// structs too.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			maps.Copy(all, fieldsOf(f.Type))
		case name == "":
			all[f.Name] = f.Type
		default:
			all[name] = f.Type
		}
	}
	return all
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
