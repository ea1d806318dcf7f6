package change

import "reflect"

// isSubset reports whether existing has all values of want; field is the name of the field that
// holds them, if they are in one. Maps of existing may have more keys, unless they are atomic;
// lists must have the same length. Empty values in want match anything, since the API server omits
// or defaults them.
func isSubset(field string, want, existing any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		e, ok := existing.(map[string]any)
		if !ok && len(w) > 0 && existing != nil {
			return false
		}
		if isAtomicMap(field) && ok && len(w) > 0 && len(w) != len(e) {
			return false
		}
		for k, v := range w {
			if !isSubset(k, v, e[k]) {
				return false
			}
		}
		return true
	case []any:
		e, ok := existing.([]any)
		if !ok || len(w) != len(e) {
			return len(w) == 0 && !ok
		}
		for i := range w {
			if !isSubset("", w[i], e[i]) {
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
