package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Taken is a field that was taken out of a document.
type Taken struct {
	Path  string // such as "apiServer.extraArgs[0].mergeMethod"
	Value any    // as JSON has it
}

// Take is the document without one field of the entries of all lists of these names, wherever they
// stand, and what stood there in the order of the paths. The document itself stays as it is.
func (d Document) Take(field string, lists ...string) (Document, []Taken) {
	t := taker{field: field, lists: lists}
	tree := t.mapping("", d.tree)
	data, err := json.Marshal(tree)
	if err != nil {
		return d, nil // It came from JSON, so it goes into JSON.
	}
	d.tree, d.json = tree, data
	return d, t.taken
}

type taker struct {
	field string
	lists []string
	taken []Taken
}

func (t *taker) mapping(path string, m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := below(path, name)
		if list, ok := m[name].([]any); ok && slices.Contains(t.lists, name) {
			out[name] = t.entries(at, list)
			continue
		}
		out[name] = t.value(at, m[name])
	}
	return out
}

func (t *taker) value(path string, value any) any {
	if m, ok := value.(map[string]any); ok {
		return t.mapping(path, m)
	}
	return value
}

func (t *taker) entries(path string, list []any) []any {
	out := slices.Clone(list)
	for i, item := range out {
		entry, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if value, there := entry[t.field]; there {
			t.taken = append(t.taken, Taken{Path: fmt.Sprintf("%s[%d].%s", path, i, t.field), Value: value})
			entry = maps.Clone(entry)
			delete(entry, t.field)
			out[i] = entry
		}
	}
	return out
}
