package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// Compare returns what in a JSON value does not match the Go type t, a struct. It returns an
// error if data is not JSON.
func Compare(data []byte, t reflect.Type) (Mismatches, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return Mismatches{}, err
	}
	if _, ok := tree.(map[string]any); !ok {
		return Mismatches{Wrong: []string{fmt.Sprintf("it must be a mapping, not %s",
			describeValue(tree))}}, nil
	}
	w := &walker{root: t, listed: map[reflect.Type]bool{}}
	w.walk("", tree, t)
	w.addRemainingCounts()
	return w.Mismatches, nil
}
