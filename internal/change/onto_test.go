package change

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWithin(t *testing.T) {
	type m = map[string]any
	cases := []struct {
		name       string
		want, have any
		within     bool
	}{
		{"a field more is no difference", m{"a": "x"}, m{"a": "x", "b": "y"}, true},
		{"a field less is", m{"a": "x", "b": "y"}, m{"a": "x"}, false},
		{"an empty field asks for nothing", m{"a": "", "b": m{}, "c": nil}, m{}, true},
		{"false is not true", m{"a": false}, m{"a": true}, false},
		{"a label more is no difference", m{"labels": m{"a": "x"}}, m{"labels": m{"a": "x", "b": "y"}}, true},
		{"a key of data more is", m{"data": m{"a": "x"}}, m{"data": m{"a": "x", "b": "y"}}, false},
		{"no data asks for nothing", m{"data": m{}}, m{"data": m{"b": "y"}}, true},
		{"a list element more is", m{"l": []any{"a"}}, m{"l": []any{"a", "b"}}, false},
		{"an empty list is not a full one", m{"l": []any{}}, m{"l": []any{"b"}}, false},
		{"an empty list may be absent", m{"l": []any{}}, m{}, true},
		{"fields filled in within a list", []any{m{"a": "x"}}, []any{m{"a": "x", "b": "y"}}, true},
		{"an order is a difference", []any{"a", "b"}, []any{"b", "a"}, false},
		{"numbers are compared by value", m{"n": int64(10)}, m{"n": float64(10)}, true},
		{"numbers that differ", m{"n": int64(10)}, m{"n": int64(11)}, false},
		{"a number is not a text", m{"n": int64(10)}, m{"n": "10"}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := within(c.want, c.have); got != c.within {
				t.Errorf("within(%v, %v) is %v", c.want, c.have, got)
			}
		})
	}
}

func stored(data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": "c", "namespace": "n", "uid": "1", "resourceVersion": "7",
			"labels": map[string]any{"theirs": "x"},
		},
		"data": data,
	}}
}

func stated(data map[string]string) ApplyObject {
	return ApplyObject{Object: &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", Labels: map[string]string{"ours": "y"}, ResourceVersion: "0"},
		Data:       data,
	}}
}

func TestOntoKeepsWhatIsNotStatedAndReplacesData(t *testing.T) {
	existing := stored(map[string]any{"old": "1", "same": "2"})
	before := existing.DeepCopy()
	got, err := stated(map[string]string{"same": "2"}).Onto(existing)
	if err != nil {
		t.Fatal(err)
	}
	want := stored(map[string]any{"same": "2"})
	want.SetLabels(map[string]string{"theirs": "x", "ours": "y"})
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Object, existing.Object); diff != "" {
		t.Errorf("the existing object was altered: %s", diff)
	}
}

func TestOntoChangesNothingWhereAllIsSaid(t *testing.T) {
	existing := stored(map[string]any{"same": "2"})
	existing.SetLabels(map[string]string{"theirs": "x", "ours": "y"})
	got, err := stated(map[string]string{"same": "2"}).Onto(existing)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(existing.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestExactTakesOverServerFieldsOnly(t *testing.T) {
	c := stated(map[string]string{"same": "2"})
	c.Exact = true
	got, err := c.Onto(stored(map[string]any{"old": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	want := stored(map[string]any{"same": "2"})
	want.SetLabels(map[string]string{"ours": "y"})
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestOntoSaysAllThatIsStated(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		want, have := tree(random, 3), tree(random, 3)
		merge(have, want)
		if !within(want, have) {
			t.Fatalf("%v was merged into %v", want, have)
		}
		before := (&unstructured.Unstructured{Object: have}).DeepCopy().Object
		if merge(have, want); !cmp.Equal(before, have) {
			t.Fatalf("merging %v twice made %v of %v", want, have, before)
		}
	}
}

// tree is a random object of few different fields and values, so that trees often agree.
func tree(r *rand.Rand, depth int) map[string]any {
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
				m[field] = tree(r, depth-1)
			}
		}
	}
	return m
}
