package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// RemovedField is a field that was removed from a document.
type RemovedField struct {
	Path  string // such as "apiServer.extraArgs[0].mergeMethod"
	Value any    // decoded JSON
}

// RemoveField returns a copy of the document without one field of the entries of all lists with
// these names, at any depth, and the removed fields sorted by path.
func (d Document) RemoveField(field string, lists ...string) (Document, []RemovedField) {
	t := fieldRemover{field: field, lists: lists}
	tree := t.mapping("", d.tree)
	data, err := json.Marshal(tree)
	if err != nil {
		return d, nil // cannot happen: the tree was decoded from JSON
	}
	d.tree, d.json = tree, data
	return d, t.removed
}

type fieldRemover struct {
	field   string
	lists   []string
	removed []RemovedField
}

// mapping returns a copy of the mapping at the path without the field.
func (t *fieldRemover) mapping(path string, m map[string]any) map[string]any {
	out := maps.Clone(m)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := joinPath(path, name)
		if inner, ok := m[name].(map[string]any); ok {
			out[name] = t.mapping(at, inner)
		}
		list, ok := m[name].([]any)
		if !ok || !slices.Contains(t.lists, name) {
			continue
		}
		list = slices.Clone(list)
		out[name] = list
		for i, item := range list {
			entry, _ := item.(map[string]any)
			value, found := entry[t.field]
			if !found {
				continue
			}
			t.removed = append(t.removed,
				RemovedField{Path: fmt.Sprintf("%s[%d].%s", at, i, t.field), Value: value})
			entry = maps.Clone(entry)
			delete(entry, t.field)
			list[i] = entry
		}
	}
	return out
}
