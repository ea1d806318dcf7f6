package config

import (
	"reflect"
	"strings"
	"testing"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
)

func TestFlagsStandForFieldsThatExist(t *testing.T) {
	kinds := map[string]reflect.Type{
		v1beta4.KindInit:    reflect.TypeFor[v1beta4.InitConfiguration](),
		v1beta4.KindCluster: reflect.TypeFor[v1beta4.ClusterConfiguration](),
		v1beta4.KindJoin:    reflect.TypeFor[v1beta4.JoinConfiguration](),
		v1beta4.KindReset:   reflect.TypeFor[v1beta4.ResetConfiguration](),
	}
	for _, c := range []flag.Command{flag.Init, flag.Join, flag.Reset, flag.TokenCreate} {
		fields := fieldsOf(c)
		if len(fields) < 5 {
			t.Errorf("%s: only %d flags stand for fields", c, len(fields))
		}
		for _, f := range fields {
			kind, ok := kinds[f.Kind]
			if !ok || !hasField(kind, strings.Split(f.Path, ".")) {
				t.Errorf("%s --%s: there is no field %s of %s", c, f.Flag, f.Path, f.Kind)
			}
			if flag.IsAllowedWithConfig(f.Flag) && f.Flag != flag.NodeName &&
				f.Flag != flag.IgnorePreflightErrors {
				t.Errorf("--%s is allowed with --config and stands for a field", f.Flag)
			}
		}
	}
}

// hasField reports whether the type has a field with that path of JSON names.
func hasField(of reflect.Type, path []string) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if len(path) == 0 {
		return true
	}
	name, _, _ := strings.Cut(path[0], "[")
	for i := range of.NumField() {
		f := of.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && hasField(f.Type, path[1:]) || options == "inline" &&
			hasField(f.Type, path) {
			return true
		}
	}
	return false
}
