package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kubeadm/internal/untrusted"
)

// Mismatches are what in a document has no place in the Go type.
type Mismatches struct {
	Ignored  []Ignored // what a lenient reader leaves out
	Warnings []string  // values that YAML reads otherwise than they look, a sentence each
	Wrong    []string  // values of the wrong type, a sentence each: no reader can use them
}

// Ignored is a field that does not exist, or the earlier value of a field that is given twice.
type Ignored struct{ fault, effect, advice string }

// Fault says what is wrong.
func (i Ignored) Fault() string { return i.fault + i.advice }

// Warning says what is wrong, and what becomes of it.
func (i Ignored) Warning() string { return i.fault + i.effect + i.advice }

// maxMismatches is how many misfits of a sort are named. The others are counted.
const maxMismatches = 20

// Hints help to say what was meant by a field that does not fit.
type Hints struct {
	// Others point to structs of further kinds, to one of which an unknown field may belong.
	Others []any
	// Moved says of fields that other versions of the kind had what became of them. The keys are
	// paths; entries of a list are "[]".
	Moved map[string]string
	// Shapes says of lists or mappings, by the names of their fields, what another version had there.
	Shapes map[string]string
	// Newer points to the struct of a newer version that may have an unknown field, NewerVersion
	// is its name.
	Newer        any
	NewerVersion string
}

// Decode stores the document in the struct that into points to, unless a value has
// a wrong type. Field names are case-sensitive. Of a field that is given twice the last value
// counts.
func (d Document) Decode(into any, hints Hints) Mismatches {
	w := newWalker(reflect.TypeOf(into).Elem())
	w.Document, w.hints = d, hints
	for _, r := range d.duplicates {
		w.addIgnored(fmt.Sprintf("line %d: field %q is given twice", r.line, untrusted.Line(r.name)), "; the last value counts", nil)
	}
	w.walk("", d.tree, w.root)
	w.addRemainingCounts()
	if len(w.Wrong) > 0 {
		return w.Mismatches
	}
	if err := utiljson.Unmarshal(d.json, into); err != nil {
		w.Wrong = append(w.Wrong, "a value does not fit: compare the document with the reference of its kind")
	}
	return w.Mismatches
}

// metadataField is a field that every Kubernetes object may have. Where a kind does not have it,
// it says nothing that could be missed: a document's own name.
const metadataField = "metadata"

// walker compares a document with a type.
type walker struct {
	Document
	Mismatches
	hints        Hints
	root         reflect.Type
	listed       map[reflect.Type]bool // structs whose fields were listed
	ignoredCount int                   // how many there are, named or not
	wrongCount   int
}

func newWalker(root reflect.Type) *walker {
	return &walker{root: root, listed: map[reflect.Type]bool{}}
}

// addIgnored adds a misfit. Advice is only computed for those that are named.
func (w *walker) addIgnored(fault, effect string, advice func() string) {
	if w.ignoredCount++; w.ignoredCount > maxMismatches {
		return
	}
	i := Ignored{fault: fault, effect: effect}
	if advice != nil {
		i.advice = advice()
	}
	w.Ignored = append(w.Ignored, i)
}

func (w *walker) addWrong(path, format string, args ...any) {
	if w.wrongCount++; w.wrongCount <= maxMismatches {
		w.Wrong = append(w.Wrong, quotePath(path)+": "+fmt.Sprintf(format, args...))
	}
}

// addRemainingCounts says how many misfits are not named.
func (w *walker) addRemainingCounts() {
	if rest := w.ignoredCount - maxMismatches; rest > 0 {
		w.Ignored = append(w.Ignored, Ignored{fault: fmt.Sprintf("%d more fields are unknown or given twice", rest)})
	}
	if rest := w.wrongCount - maxMismatches; rest > 0 {
		w.Wrong = append(w.Wrong, fmt.Sprintf("%d more values are of the wrong type", rest))
	}
}

func (w *walker) walk(path string, value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case value == nil || t.Kind() == reflect.Interface:
	case isUnmarshaler(t):
		w.checkUnmarshaler(path, value, t)
	case t.Kind() == reflect.Struct:
		w.walkStruct(path, value, t)
	case t.Kind() == reflect.Slice:
		w.walkList(path, value, t)
	case t.Kind() == reflect.Map:
		w.walkMap(path, value, t)
	default:
		w.checkScalar(path, value, t)
	}
}

func (w *walker) walkStruct(path string, value any, t reflect.Type) {
	object, ok := value.(map[string]any)
	if !ok {
		w.addWrong(path, "must be a mapping, not %s", describeValue(value))
		return
	}
	known := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if field, ok := known[name]; ok {
			w.walk(joinPath(path, name), object[name], field)
			continue
		}
		if joinPath(path, name) == metadataField {
			continue
		}
		w.addIgnored("unknown field "+quotePath(joinPath(path, name)), " is ignored", func() string { return w.suggestField(path, name, t) })
	}
}

func (w *walker) walkList(path string, value any, t reflect.Type) {
	items, ok := value.([]any)
	if !ok {
		w.addWrong(path, "must be a list%s, not %s%s", describeEntryType(t.Elem()), describeValue(value), w.shapeHint(path))
		return
	}
	for i, item := range items {
		w.walk(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
	}
}

func (w *walker) walkMap(path string, value any, t reflect.Type) {
	object, ok := value.(map[string]any)
	if !ok {
		w.addWrong(path, "must be a mapping, not %s%s", describeValue(value), w.shapeHint(path))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		w.walk(fmt.Sprintf("%s[%s]", path, key), object[key], t.Elem())
	}
}

// shapeHint says what another version had in place of a list or mapping.
func (w *walker) shapeHint(path string) string {
	if text, ok := w.hints.Shapes[path[strings.LastIndex(path, ".")+1:]]; ok {
		return ": " + text
	}
	return ""
}

func (w *walker) checkScalar(path string, value any, t reflect.Type) {
	w.warnOctal(path, value)
	text, err := json.Marshal(value)
	if err == nil && json.Unmarshal(text, reflect.New(t).Interface()) == nil {
		return
	}
	_, isNumber := value.(json.Number)
	_, isBool := value.(bool)
	quoted, isText := value.(string)
	switch {
	case isNumber && t.Kind() == reflect.String:
		w.addWrong(path, "must be text, not a number: put it in quotes")
	case isBool && t.Kind() == reflect.String:
		w.addWrong(path, "must be text, not true or false: put it in quotes, for YAML reads yes, no, on and off as true or false")
	case isNumber && t.Kind() != reflect.Bool:
		w.addWrong(path, "must be %s", describeScalarType(t))
	case isText && json.Unmarshal([]byte(quoted), reflect.New(t).Interface()) == nil:
		w.addWrong(path, "must be %s, not text: leave out the quotes", describeScalarType(t))
	default:
		w.addWrong(path, "must be %s, not %s", describeScalarType(t), describeValue(value))
	}
}

// warnOctal reports a number that looks like another one.
func (w *walker) warnOctal(path string, value any) {
	number, ok := value.(json.Number)
	if !ok || len(w.octals) == 0 {
		return
	}
	for _, text := range w.octals[path[strings.LastIndex(path, ".")+1:]] {
		if n, err := strconv.ParseInt(text, 8, 64); err == nil && strconv.FormatInt(n, 10) == number.String() && n > 7 {
			w.Warnings = append(w.Warnings, fmt.Sprintf("%s: %s is read as the octal number %d: write %s or %d",
				path, text, n, strings.TrimLeft(text, "0"), n))
			return
		}
	}
}

// checkUnmarshaler checks a type that reads itself.
func (w *walker) checkUnmarshaler(path string, value any, t reflect.Type) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err == nil {
		return
	}
	found := describeValue(value)
	if text, ok := value.(string); ok {
		found = untrusted.Quote(text)
	}
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		w.addWrong(path, "must be a duration such as 1h30m0s, not %s: its units are h, m, s and ms", found)
	case reflect.TypeFor[metav1.Time]():
		w.addWrong(path, "must be a time such as 2030-01-02T15:04:05Z, not %s", found)
	case reflect.TypeFor[resource.Quantity]():
		w.addWrong(path, "must be a quantity such as 100Mi, not %s", found)
	default:
		w.addWrong(path, "has a form that is not read")
	}
}

func isUnmarshaler(t reflect.Type) bool {
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

// quotePath is a path as messages show it: in quotes if it has characters that no field has.
func quotePath(path string) string {
	if pathForm.MatchString(path) {
		return path
	}
	if longest := 200; len(path) > longest {
		path = path[:longest] + "..."
	}
	return strconv.Quote(path)
}

var pathForm = regexp.MustCompile(`^[A-Za-z0-9_./\[\]-]{1,200}$`)

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
