package strict

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// describeValue names the type of a decoded JSON value.
func describeValue(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "true or false"
	}
	return "a number"
}

// describeScalarType describes the values of a scalar type.
func describeScalarType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int32:
		return "an integer of at most 2147483647"
	}
	return "an integer"
}

// describeEntryType describes the entries of a list.
func describeEntryType(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return " of strings"
	case t.Kind() == reflect.Struct && !isUnmarshaler(t):
		names := slices.Sorted(maps.Keys(fieldsOf(t)))
		if len(names) > 12 { // too many to be of use
			return " of mappings"
		}
		return " of mappings with " + strings.Join(names, ", ")
	}
	return ""
}

// suggestField suggests a field for an unknown field of the struct at the path, or lists the
// fields.
func (w *walker) suggestField(path, name string, t reflect.Type) string {
	if moved, ok := w.hints.Moved[listIndex.ReplaceAllString(joinPath(path, name), "[]")]; ok {
		return ": " + moved
	}
	names := slices.Sorted(maps.Keys(fieldsOf(t)))
	if found := findField(name, w.root, 5); found != "" {
		return fmt.Sprintf(": did you mean %s?", found)
	}
	if w.hints.Newer != nil {
		if found := findField(name, reflect.TypeOf(w.hints.Newer).Elem(), 5); found != "" {
			return fmt.Sprintf(": %s has it as %s", w.hints.NewerVersion, found)
		}
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", near)
	}
	for _, o := range w.hints.Others {
		other := reflect.TypeOf(o).Elem()
		if found := findField(name, other, 5); other != w.root && found != "" {
			return fmt.Sprintf(": did you mean %s of %s?", found, other.Name())
		}
	}
	// seldom misspelled
	names = slices.DeleteFunc(names,
		func(n string) bool { return n == "apiVersion" || n == "kind" })
	const few = 20
	if len(names) > few || w.listed[t] {
		return ""
	}
	w.listed[t] = true
	return ": the fields are " + strings.Join(names, ", ")
}

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// findField searches nested structs for a field of exactly that name and returns its path.
func findField(name string, t reflect.Type, depth int) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isUnmarshaler(t) || depth == 0 {
		return ""
	}
	fields := fieldsOf(t)
	if _, ok := fields[name]; ok {
		return name
	}
	for _, outer := range slices.Sorted(maps.Keys(fields)) {
		field := fields[outer]
		if field.Kind() == reflect.Slice {
			outer, field = outer+"[]", field.Elem()
		}
		if inner := findField(name, field, depth-1); inner != "" {
			return joinPath(outer, inner)
		}
	}
	return ""
}

// Nearest is the candidate that is most similar to the name, if it differs in few letters, or else
// the first that has the name as a prefix, or else empty. Case does not matter.
func Nearest(name string, candidates []string) string {
	best, least := "", (len(name)+2)/3+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c), least); d < least {
			best, least = c, d
		}
	}
	if best != "" || len(name) < 4 {
		return best
	}
	begun := func(c string) bool {
		return strings.HasPrefix(strings.ToLower(c), strings.ToLower(name))
	}
	if i := slices.IndexFunc(candidates, begun); i >= 0 {
		return candidates[i]
	}
	return ""
}

// editDistance is the Levenshtein distance between a and b, or limit if it is not less than that.
func editDistance(a, b string, limit int) int {
	if gap := len(a) - len(b); gap >= limit || -gap >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
