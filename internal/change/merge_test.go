package change

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestIsSubset(t *testing.T) {
	type m = map[string]any
	cases := []struct {
		name       string
		want, have any
		subset     bool
	}{
		{"an additional field", m{"a": "x"}, m{"a": "x", "b": "y"}, true},
		{"a missing field", m{"a": "x", "b": "y"}, m{"a": "x"}, false},
		{"empty values match anything", m{"a": "", "b": m{}, "c": nil}, m{}, true},
		{"false and true", m{"a": false}, m{"a": true}, false},
		{"an additional label", m{"labels": m{"a": "x"}}, m{"labels": m{"a": "x", "b": "y"}}, true},
		{"an additional key of data", m{"data": m{"a": "x"}}, m{"data": m{"a": "x", "b": "y"}},
			false},
		{"empty data", m{"data": m{}}, m{"data": m{"b": "y"}}, true},
		{"an additional list element", m{"l": []any{"a"}}, m{"l": []any{"a", "b"}}, false},
		{"an empty list and a full one", m{"l": []any{}}, m{"l": []any{"b"}}, false},
		{"an empty list and none", m{"l": []any{}}, m{}, true},
		{"an additional field in a list", []any{m{"a": "x"}}, []any{m{"a": "x", "b": "y"}}, true},
		{"another order", []any{"a", "b"}, []any{"b", "a"}, false},
		{"numbers of different types", m{"n": int64(10)}, m{"n": float64(10)}, true},
		{"different numbers", m{"n": int64(10)}, m{"n": int64(11)}, false},
		{"a number and a text", m{"n": int64(10)}, m{"n": "10"}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := isSubset("", c.want, c.have); got != c.subset {
				t.Errorf("isSubset(%v, %v) is %v", c.want, c.have, got)
			}
		})
	}
}

func newStoredObject(data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": "c", "namespace": "n", "uid": "1", "resourceVersion": "7",
			"labels": map[string]any{"theirs": "x"},
		},
		"data": data,
	}}
}

func newApply(data map[string]string) ApplyObject {
	return ApplyObject{Object: &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n",
			Labels: map[string]string{"ours": "y"}, ResourceVersion: "0"},
		Data: data,
	}}
}

func TestMergeKeepsUnsetFieldsAndReplacesData(t *testing.T) {
	existing := newStoredObject(map[string]any{"old": "1", "same": "2"})
	before := existing.DeepCopy()
	got, err := newApply(map[string]string{"same": "2"}).MergeInto(existing)
	if err != nil {
		t.Fatal(err)
	}
	want := newStoredObject(map[string]any{"same": "2"})
	want.SetLabels(map[string]string{"theirs": "x", "ours": "y"})
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Object, existing.Object); diff != "" {
		t.Errorf("the existing object was changed: %s", diff)
	}
}

func TestMergeWithoutDifferenceChangesNothing(t *testing.T) {
	existing := newStoredObject(map[string]any{"same": "2"})
	existing.SetLabels(map[string]string{"theirs": "x", "ours": "y"})
	got, err := newApply(map[string]string{"same": "2"}).MergeInto(existing)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(existing.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestExactMergeKeepsServerFieldsOnly(t *testing.T) {
	c := newApply(map[string]string{"same": "2"})
	c.Exact = true
	got, err := c.MergeInto(newStoredObject(map[string]any{"old": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	want := newStoredObject(map[string]any{"same": "2"})
	want.SetLabels(map[string]string{"ours": "y"})
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestMergeResultHasAllFields(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		want, have := randomObject(random, 3), randomObject(random, 3)
		mergeFields(have, want)
		if !isSubset("", want, have) {
			t.Fatalf("%v is no subset of the merged %v", want, have)
		}
		before := (&unstructured.Unstructured{Object: have}).DeepCopy().Object
		if mergeFields(have, want); !cmp.Equal(before, have) {
			t.Fatalf("merging %v twice made %v of %v", want, have, before)
		}
	}
}

// randomObject has few different fields and values, so that two random objects are often equal in
// part.
func randomObject(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for _, field := range []string{"a", "b", "data", "labels"} {
		switch r.IntN(6 - min(depth, 1)) {
		case 0:
			m[field] = "x"
		case 1:
			m[field] = int64(r.IntN(2))
		case 2:
			m[field] = []any{"x", int64(r.IntN(2))}[:r.IntN(3)]
		case 3:
			m[field] = nil
		case 4:
			m[field] = map[string]any{}
			if depth > 0 {
				m[field] = randomObject(r, depth-1)
			}
		}
	}
	return m
}

func TestWithFieldsOf(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct{ shape, object, want m }{
		"fields outside of lists stay": {m{"spec": m{"a": "1"}}, m{"spec": m{"a": "2", "b": "3"},
			"status": m{}}, m{"spec": m{"a": "2", "b": "3"}, "status": m{}}},
		"defaults within a list are left out": {m{"list": []any{m{"a": "1"}}},
			m{"list": []any{m{"a": "2", "b": "3"}}}, m{"list": []any{m{"a": "2"}}}},
		"also in maps below": {m{"list": []any{m{"a": m{"x": "1"}}}},
			m{"list": []any{m{"a": m{"x": "2", "y": "3"}}}}, m{"list": []any{m{"a": m{"x": "2"}}}}},
		"lists of different lengths are not compared": {m{"list": []any{m{"a": "1"}}},
			m{"list": []any{m{"b": "2"}, m{"c": "3"}}}, m{"list": []any{m{"b": "2"}, m{"c": "3"}}}},
		"lists of text": {m{"list": []any{"a"}}, m{"list": []any{"b"}}, m{"list": []any{"b"}}},
		"another type": {m{"list": []any{"a"}}, m{"list": []any{m{"b": "2"}}},
			m{"list": []any{m{"b": "2"}}}},
		"an empty shape": {nil, m{"list": []any{m{"a": "1"}}}, m{"list": []any{m{"a": "1"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := WithFieldsOf(&unstructured.Unstructured{Object: c.shape},
				&unstructured.Unstructured{Object: c.object})
			if diff := cmp.Diff(c.want, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
