package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// faults collects the errors of a configuration, so that all are reported together.
type faults struct {
	list      []string
	fieldName func(kind, path string) string // the flag or field that the user has set
}

func (f *faults) add(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// fields adds the errors of a document of that kind.
func (f *faults) fields(kind string, errs field.ErrorList) {
	for _, e := range errs {
		f.add("%s: %s", f.fieldName(kind, e.Field), e.ErrorBody())
	}
}

// maxFaults is the number of faults that an error lists. The others are counted.
const maxFaults = 30

// err is nil if there are no faults.
func (f *faults) err(source string) error {
	list := f.list
	switch {
	case len(list) == 0:
		return nil
	case len(list) == 1:
		return fmt.Errorf("%s: %s", source, list[0])
	case len(list) > maxFaults:
		list = append(slices.Clone(list[:maxFaults]),
			fmt.Sprintf("and %d more", len(list)-maxFaults))
	}
	return errors.New(source + ":\n\t" + strings.Join(list, "\n\t"))
}
