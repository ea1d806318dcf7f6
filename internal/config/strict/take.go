package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// RemovedField is a field that was taken out of a document.
type RemovedField struct {
	Path  string // such as "apiServer.extraArgs[0].mergeMethod"
	Value any    // as JSON has it
}

// RemoveField is the document without one field of the entries of all lists of these names, wherever they
// stand, and what stood there in the order of the paths. The document itself stays as it is.
func (d Document) RemoveField(field string, lists ...string) (Document, []RemovedField) {
	t := fieldRemover{field: field, lists: lists}
	tree := t.mapping("", d.tree)
	data, err := json.Marshal(tree)
	if err != nil {
		return d, nil // It came from JSON, so it goes into JSON.
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
		out[name] = t.value(at, m[name])
	}
	return out
}

func (t *fieldRemover) value(path string, value any) any {
	if m, ok := value.(map[string]any); ok {
		return t.mapping(path, m)
	}
	return value
}

func (t *fieldRemover) listEntries(path string, list []any) []any {
	out := slices.Clone(list)
	for i, item := range out {
		entry, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if value, there := entry[t.field]; there {
			t.removed = append(t.removed, RemovedField{Path: fmt.Sprintf("%s[%d].%s", path, i, t.field), Value: value})
			entry = maps.Clone(entry)
			delete(entry, t.field)
			out[i] = entry
		}
	}
	return out
}
