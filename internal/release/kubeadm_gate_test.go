package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFeatureGates(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]bool
		errs []string
	}{
		{text: "", want: map[string]bool{}},
		{text: "RootlessControlPlane=true", want: map[string]bool{RootlessControlPlane: true}},
		{text: " RootlessControlPlane = f , ", want: map[string]bool{RootlessControlPlane: false}},
		{text: "RootlessControlPlane", errs: []string{"RootlessControlPlane", "has no value"}},
		{text: "X:true", errs: []string{`"X:true" has no value: set X=true`}},
		{text: "X: false", errs: []string{"has no value: set X=false"}},
		{text: "X yes", errs: []string{`"X yes" has no value: set it in the form NAME=true or`}},
		{text: "RootlessControlPlane=yes", errs: []string{"RootlessControlPlane", "yes"}},
		{text: "NodeLocalCRISocket=true", errs: []string{"NodeLocalCRISocket", "removed", "1.37"}},
		{text: "Rootles=true", errs: []string{"Rootles", "RootlessControlPlane"}},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := ParseFeatureGates(c.text)
			wantError(t, err, c.errs...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFeatureGateEnabled(t *testing.T) {
	if IsFeatureGateEnabled(nil, RootlessControlPlane) {
		t.Error("an alpha gate is on by default")
	}
	if !IsFeatureGateEnabled(map[string]bool{RootlessControlPlane: true}, RootlessControlPlane) {
		t.Error("a gate that was set is off")
	}
}
