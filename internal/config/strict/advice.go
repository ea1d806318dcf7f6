package strict

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// describeValue says what a decoded JSON value is.
func describeValue(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return "true or false"
	}
	return "a number"
}

// describeScalarType says what a scalar type takes.
func describeScalarType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int32:
		return "a whole number of at most 2147483647"
	}
	return "a whole number"
}

// describeEntryType says what the entries of a list are.
func describeEntryType(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return " of text"
	case t.Kind() == reflect.Struct && !isUnmarshaler(t):
		names := slices.Sorted(maps.Keys(fieldsOf(t)))
		if len(names) > 12 { // more than a reader would look through
			return " of mappings"
		}
		return " of mappings with " + strings.Join(names, ", ")
	}
	return ""
}

// suggestField says what was probably meant by an unknown field of the struct at the path, or which fields
// there are.
func (w *walker) suggestField(path, name string, t reflect.Type) string {
	if moved, ok := w.hints.Moved[listIndex.ReplaceAllString(joinPath(path, name), "[]")]; ok {
		return ": " + moved
	}
	known := fieldsOf(t)
	names := slices.Sorted(maps.Keys(known))
	if elsewhere := findField(name, w.root, 5); elsewhere != "" {
		return fmt.Sprintf(": did you mean %s?", elsewhere)
	}
	if w.hints.Newer != nil {
		if there := findField(name, reflect.TypeOf(w.hints.Newer).Elem(), 5); there != "" {
			return fmt.Sprintf(": %s has it, as %s", w.hints.NewerVersion, there)
		}
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", near)
	}
	for _, o := range w.hints.Others {
		other := reflect.TypeOf(o).Elem()
		if there := findField(name, other, 5); other != w.root && there != "" {
			return fmt.Sprintf(": did you mean %s of %s?", there, other.Name())
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "apiVersion" || n == "kind" }) // seldom misspelled
	const few = 20
	if len(names) > few || w.listed[t] {
		return ""
	}
	w.listed[t] = true
	return ": there are " + strings.Join(names, ", ")
}

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// findField looks in nested structs for a field of exactly that name and returns its path.
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

// Nearest is the candidate that differs least from the name, if few letters are
// wrong, or the first that the name begins; else it is empty. Case does not count.
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
	begun := func(c string) bool { return strings.HasPrefix(strings.ToLower(c), strings.ToLower(name)) }
	if i := slices.IndexFunc(candidates, begun); i >= 0 {
		return candidates[i]
	}
	return ""
}

// editDistance is how many letters must be put in, taken out or changed to get from a
// to b (Levenshtein), or limit if it is not less than that.
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
