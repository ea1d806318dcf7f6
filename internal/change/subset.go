package change

import "reflect"

// isSubset reports whether existing has all values of want. Maps of existing may have more keys,
// unless they are atomic; lists must have the same length. Empty values in want match anything,
// since the API server omits or defaults them.
func isSubset(want, existing any) bool { return isFieldSubset("", want, existing) }

func isFieldSubset(field string, want, existing any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		return isMapSubset(field, w, existing)
	case []any:
		e, ok := existing.([]any)
		if !ok || len(w) != len(e) {
			return len(w) == 0 && !ok
		}
		for i := range w {
			if !isSubset(w[i], e[i]) {
				return false
			}
		}
		return true
	}
	if existing == nil {
		return reflect.ValueOf(want).IsZero()
	}
	if a, ok := toFloat(want); ok {
		b, ok := toFloat(existing)
		return ok && a == b
	}
	return reflect.DeepEqual(want, existing)
}

func isMapSubset(field string, want map[string]any, existing any) bool {
	e, ok := existing.(map[string]any)
	if !ok && len(want) > 0 && existing != nil {
		return false
	}
	if isAtomicMap(field) && ok && len(want) > 0 && len(want) != len(e) {
		return false
	}
	for k, w := range want {
		if !isFieldSubset(k, w, e[k]) {
			return false
		}
	}
	return true
}

// isAtomicMap reports whether the map in that field is compared and replaced as a whole. In all
// other maps the API server may add fields, or other programs labels and annotations.
func isAtomicMap(field string) bool {
	switch field {
	case "data", "binaryData", "selector", "matchLabels", "nodeSelector":
		return true
	}
	return false
}

// toFloat converts any number: decoders return 10 as an integer or as a floating point number,
// depending on the source.
func toFloat(v any) (float64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}
