package strict

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// describe says what a decoded JSON value is.
func describe(value any) string {
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

// wanted says what a scalar type takes.
func wanted(t reflect.Type) string {
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

// ofWhat tells the fields that entries of a list have.
func ofWhat(t reflect.Type) string {
	if t.Kind() != reflect.Struct || readsItself(t) {
		return ""
	}
	names := slices.Sorted(maps.Keys(fieldsOf(t)))
	if len(names) > 12 { // more than a reader would look through
		return " of mappings"
	}
	return " of mappings with " + strings.Join(names, ", ")
}

// advice names the field that was probably meant, or the few that there are.
func (w *walker) advice(name string, known map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(known))
	if elsewhere := find(name, w.root, 4); elsewhere != "" {
		return fmt.Sprintf(": did you mean %s?", elsewhere)
	}
	for _, o := range w.others {
		if there := find(name, o, 4); there != "" {
			return fmt.Sprintf(": did you mean %s of %s?", there, o.Name())
		}
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", near)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "apiVersion" || n == "kind" }) // which nobody misspells
	if few := 20; len(names) <= few {
		return ": there are " + strings.Join(names, ", ")
	}
	return ""
}

// find looks in nested structs for a field of exactly that name and returns its path.
func find(name string, t reflect.Type, depth int) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || readsItself(t) || depth == 0 {
		return ""
	}
	fields := fieldsOf(t)
	if _, ok := fields[name]; ok {
		return name
	}
	for _, outer := range slices.Sorted(maps.Keys(fields)) {
		if inner := find(name, fields[outer], depth-1); inner != "" {
			return below(outer, inner)
		}
	}
	return ""
}

// Nearest is the candidate that differs least from the name, if few letters are
// wrong, or the first that the name begins; else it is empty. Case does not count.
func Nearest(name string, candidates []string) string {
	best, least := "", (len(name)+2)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c), least); d < least {
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

// distance is how many letters must be put in, taken out or changed to get from a
// to b (Levenshtein), or limit if it is not less than that.
func distance(a, b string, limit int) int {
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
