package change

import "reflect"

// within tells whether have says everything that want says: maps may hold more, lists
// must have the same length. Empty values in want ask for nothing, since the
// server drops or fills them.
func within(want, have any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		return mapWithin(w, have)
	case []any:
		h, ok := have.([]any)
		if !ok || len(w) != len(h) {
			return len(w) == 0 && !ok
		}
		for i := range w {
			if !within(w[i], h[i]) {
				return false
			}
		}
		return true
	}
	if have == nil {
		return reflect.ValueOf(want).IsZero()
	}
	return reflect.DeepEqual(want, have)
}

func mapWithin(want map[string]any, have any) bool {
	h, ok := have.(map[string]any)
	if !ok {
		return len(want) == 0 || have == nil && allEmpty(want)
	}
	for k, w := range want {
		if !within(w, h[k]) {
			return false
		}
	}
	return true
}

func allEmpty(m map[string]any) bool {
	for _, v := range m {
		if !within(v, nil) {
			return false
		}
	}
	return true
}
