package change

import "reflect"

// within tells whether have says everything that want says: maps may hold more, except
// dictionaries; lists must have the same length. Empty values in want ask for nothing,
// since the server drops or fills them.
func within(want, have any) bool { return saysUnder("", want, have) }

func saysUnder(key string, want, have any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		return mapWithin(key, w, have)
	case []any:
		return listWithin(w, have)
	}
	if have == nil {
		return reflect.ValueOf(want).IsZero()
	}
	if a, ok := number(want); ok {
		b, ok := number(have)
		return ok && a == b
	}
	return reflect.DeepEqual(want, have)
}

func mapWithin(key string, want map[string]any, have any) bool {
	h, ok := have.(map[string]any)
	if !ok {
		return len(want) == 0 || have == nil && allEmpty(want)
	}
	if dictionary(key) && len(want) > 0 && len(want) != len(h) {
		return false
	}
	for k, w := range want {
		if !saysUnder(k, w, h[k]) {
			return false
		}
	}
	return true
}

func listWithin(want []any, have any) bool {
	h, ok := have.([]any)
	if !ok || len(want) != len(h) {
		return len(want) == 0 && !ok
	}
	for i := range want {
		if !within(want[i], h[i]) {
			return false
		}
	}
	return true
}

// dictionary tells whether the map in that field belongs to whoever states it, key by key,
// so that a key more is a difference. All other maps hold fields that the server fills in, or
// labels and annotations, where everyone may leave their own.
func dictionary(field string) bool {
	switch field {
	case "data", "binaryData", "selector", "matchLabels", "nodeSelector":
		return true
	}
	return false
}

// number reads an integer or floating point value: which of both a decoder makes of
// "10" depends on where the text came from.
func number(v any) (float64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}

func allEmpty(m map[string]any) bool {
	for _, v := range m {
		if !within(v, nil) {
			return false
		}
	}
	return true
}
