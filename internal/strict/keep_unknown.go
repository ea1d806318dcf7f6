package strict

import "reflect"

// KeepUnknown adds to a mapping the fields of another one that the Go type t, a struct, does not have, and those of the
// structs in both: what a newer program has written stays when this one writes the value again. Lists are replaced.
func KeepUnknown(into, from map[string]any, t reflect.Type) {
	fields := fieldsOf(t)
	for name, value := range from {
		field, isKnown := fields[name]
		if !isKnown {
			if _, exists := into[name]; !exists {
				into[name] = value
			}
			continue
		}
		for field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		target, ok := into[name].(map[string]any)
		source, both := value.(map[string]any)
		if ok && both && field.Kind() == reflect.Struct {
			KeepUnknown(target, source, field)
		}
	}
}
