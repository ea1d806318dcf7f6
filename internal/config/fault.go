package config

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// faults collects what is wrong with a configuration, so that all of it is said at once.
type faults struct {
	list   []string
	spoken func(kind, path string) string // how the user spells a field
}

func (f *faults) add(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// fields adds faults of a document of that kind.
func (f *faults) fields(kind string, errs field.ErrorList) {
	for _, e := range errs {
		f.add("%s: %s", f.spoken(kind, e.Field), e.ErrorBody())
	}
}

// err is nil if nothing is wrong.
func (f *faults) err(source string) error {
	switch len(f.list) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %s", source, f.list[0])
	}
	return errors.New(source + ":\n\t" + strings.Join(f.list, "\n\t"))
}
