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

func (t *fieldRemover) mapping(path string, m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := joinPath(path, name)
		if list, ok := m[name].([]any); ok && slices.Contains(t.lists, name) {
			out[name] = t.listEntries(at, list)
			continue
		}
		out[name] = m[name]
		if inner, ok := m[name].(map[string]any); ok {
			out[name] = t.mapping(at, inner)
		}
	}
	return out
}

func (t *fieldRemover) listEntries(path string, list []any) []any {
	out := slices.Clone(list)
	for i, item := range out {
		entry, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if value, there := entry[t.field]; there {
			t.removed = append(t.removed,
				RemovedField{Path: fmt.Sprintf("%s[%d].%s", path, i, t.field), Value: value})
			entry = maps.Clone(entry)
			delete(entry, t.field)
			out[i] = entry
		}
	}
	return out
}
