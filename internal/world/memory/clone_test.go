package memory

import (
	"reflect"
	"testing"
)

// A field that a copy lacks would be noticed late, by a test of something else.
func TestCloneHasEveryField(t *testing.T) {
	w := New()
	fields := reflect.ValueOf(w).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(1)
		}
	}
	w.lastMemberID, w.revision = 1, 1
	c := reflect.ValueOf(w.Clone()).Elem()
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; name != "mu" && c.Field(i).IsZero() {
			t.Errorf("the copy lacks %s", name)
		}
	}
}
