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

// Mismatches are the parts of a document that do not match the Go type.
type Mismatches struct {
	Ignored  []Ignored // what a lenient reader ignores
	Warnings []string  // values that YAML may parse in an unexpected way
	Wrong    []string  // values of the wrong type: always errors
}

// Ignored is an unknown field, or the earlier value of a duplicate field.
type Ignored struct{ fault, effect, suggestion string }

// Fault is the fault, with a suggestion.
func (i Ignored) Fault() string { return i.fault + i.suggestion }

// Warning is the fault and its effect, with a suggestion.
func (i Ignored) Warning() string { return i.fault + i.effect + i.suggestion }

// maxMismatches is how many mismatches of a sort are listed. The others are counted.
const maxMismatches = 20

// Hints are data for suggestions about fields that do not match.
type Hints struct {
	// Others point to structs of other kinds, to which an unknown field may belong.
	Others []any
	// Moved maps fields of other versions of the kind to a text that says where they are now. The
	// keys are paths; entries of a list are "[]".
	Moved map[string]string
	// Shapes maps the names of lists or mappings to a text about their form in another version.
	Shapes map[string]string
	// Newer points to the struct of a newer version that may have an unknown field; NewerVersion
	// is its name.
	Newer        any
	NewerVersion string
}

// Decode stores the document in the struct that into points to, unless a value has
// a wrong type. Field names are case-sensitive. The last value of a duplicate field is used.
func (d Document) Decode(into any, hints Hints) Mismatches {
	w := &walker{Document: d, hints: hints, root: reflect.TypeOf(into).Elem(),
		listed: map[reflect.Type]bool{}}
	for _, r := range d.duplicates {
		w.addIgnored(fmt.Sprintf("line %d: duplicate field %q", r.line, untrusted.Line(r.name)),
			"; the last value is used", nil)
	}
	w.walk("", d.tree, w.root)
	w.addRemainingCounts()
	if len(w.Wrong) > 0 {
		return w.Mismatches
	}
	if err := utiljson.Unmarshal(d.json, into); err != nil {
		w.Wrong = append(w.Wrong,
			"a value does not have the type of its field: see the reference of this kind")
	}
	return w.Mismatches
}

// metadataField is a field that every Kubernetes object may have. If a kind does not have it, it
// is ignored without a warning: it holds only the name of the document.
const metadataField = "metadata"

// walker compares a document with a type.
type walker struct {
	Document
	Mismatches
	hints        Hints
	root         reflect.Type
	listed       map[reflect.Type]bool // structs whose fields were listed
	ignoredCount int                   // including those that are not listed
	wrongCount   int
}

// addIgnored adds an ignored field. The suggestion is only computed for fields that are listed.
func (w *walker) addIgnored(fault, effect string, suggest func() string) {
	if w.ignoredCount++; w.ignoredCount > maxMismatches {
		return
	}
	i := Ignored{fault: fault, effect: effect}
	if suggest != nil {
		i.suggestion = suggest()
	}
	w.Ignored = append(w.Ignored, i)
}

func (w *walker) addWrong(path, format string, args ...any) {
	if w.wrongCount++; w.wrongCount <= maxMismatches {
		w.Wrong = append(w.Wrong, quotePath(path)+": "+fmt.Sprintf(format, args...))
	}
}

// addRemainingCounts adds the numbers of mismatches that are not listed.
func (w *walker) addRemainingCounts() {
	if rest := w.ignoredCount - maxMismatches; rest > 0 {
		w.Ignored = append(w.Ignored,
			Ignored{fault: fmt.Sprintf("%d more fields are unknown or duplicate", rest)})
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
		items, ok := value.([]any)
		if !ok {
			w.addWrong(path, "must be a list%s, not %s%s", describeEntryType(t.Elem()),
				describeValue(value), w.shapeHint(path))
		}
		for i, item := range items {
			w.walk(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	case t.Kind() == reflect.Map:
		object, ok := value.(map[string]any)
		if !ok {
			w.addWrong(path, "must be a mapping, not %s%s", describeValue(value), w.shapeHint(path))
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			w.walk(fmt.Sprintf("%s[%s]", path, key), object[key], t.Elem())
		}
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
	fields := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if field, ok := fields[name]; ok {
			w.walk(joinPath(path, name), object[name], field)
			continue
		}
		if joinPath(path, name) == metadataField {
			continue
		}
		w.addIgnored("unknown field "+quotePath(joinPath(path, name)), " is ignored",
			func() string { return w.suggestField(path, name, t) })
	}
}

// shapeHint describes the form of a list or mapping in another version.
func (w *walker) shapeHint(path string) string {
	if text, ok := w.hints.Shapes[path[strings.LastIndex(path, ".")+1:]]; ok {
		return ": " + text
	}
	return ""
}

func (w *walker) checkScalar(path string, value any, t reflect.Type) {
	number, isNumber := value.(json.Number)
	for _, octal := range w.octals[path[strings.LastIndex(path, ".")+1:]] {
		// a number that YAML parsed as octal
		if n, err := strconv.ParseInt(octal, 8, 64); err == nil && n > 7 &&
			isNumber && strconv.FormatInt(n, 10) == number.String() {
			w.Warnings = append(w.Warnings,
				fmt.Sprintf("%s: %s is parsed as the octal number %d: write %s or %d",
					path, octal, n, strings.TrimLeft(octal, "0"), n))
			break
		}
	}
	text, err := json.Marshal(value)
	if err == nil && json.Unmarshal(text, reflect.New(t).Interface()) == nil {
		return
	}
	_, isBool := value.(bool)
	quoted, isText := value.(string)
	switch {
	case isNumber && t.Kind() == reflect.String:
		w.addWrong(path, "must be a string, not a number: put it in quotes")
	case isBool && t.Kind() == reflect.String:
		w.addWrong(path, "must be a string, not true or false: put it in quotes, since YAML parses yes, no, on and off as true or false")
	case isNumber && t.Kind() != reflect.Bool:
		w.addWrong(path, "must be %s", describeScalarType(t))
	case isText && json.Unmarshal([]byte(quoted), reflect.New(t).Interface()) == nil:
		w.addWrong(path, "must be %s, not a string: remove the quotes", describeScalarType(t))
	default:
		w.addWrong(path, "must be %s, not %s", describeScalarType(t), describeValue(value))
	}
}

// checkUnmarshaler checks a value of a type with an UnmarshalJSON method.
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
		w.addWrong(path, "must be a duration such as 1h30m0s, not %s: its units are h, m, s and ms",
			found)
	case reflect.TypeFor[metav1.Time]():
		w.addWrong(path, "must be a time such as 2030-01-02T15:04:05Z, not %s", found)
	case reflect.TypeFor[resource.Quantity]():
		w.addWrong(path, "must be a quantity such as 100Mi, not %s", found)
	default:
		w.addWrong(path, "has an invalid format")
	}
}

func isUnmarshaler(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldsOf maps the JSON names of the fields of a struct, including those of embedded structs, to
// their types.
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

// quotePath quotes a path for messages if it has characters that no field name has.
func quotePath(path string) string {
	const longest = 200
	if len(path) <= longest && pathForm.MatchString(path) {
		return path
	}
	if len(path) > longest {
		path = path[:longest] + "..."
	}
	return strconv.Quote(path)
}

var pathForm = regexp.MustCompile(`^[A-Za-z0-9_./\[\]-]+$`)

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
