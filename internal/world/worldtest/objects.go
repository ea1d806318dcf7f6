package worldtest

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"testing"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// API is the part of a world that the suite of objects uses.
type API interface {
	state.Objects
	Do(ctx context.Context, c change.Change) error
}

// Objects checks reading and changing objects, with an identity that is authorized for everything.
// It deletes its objects.
func Objects(t *testing.T, w API, as state.Identity) {
	for name, test := range map[string]func(*objectSuite){
		"apply and delete": testApplyAndDelete,
		"mutate":           testMutate,
		"subresource":      testSubresource,
		"inverse":          testInverse,
		"list":             testList,
		"list fields":      testListFields,
		"label Node":       testLabelNode,
	} {
		t.Run(name, func(t *testing.T) {
			s := &objectSuite{t, w, as}
			defer func() {
				node := state.Ref{GVK: state.NodeKind, Name: suiteNode, As: as}
				for _, ref := range []state.Ref{s.ref(), node} {
					if err := w.Do(t.Context(), change.DeleteObject{Ref: ref}); err != nil {
						t.Error(err)
					}
				}
			}()
			test(s)
		})
	}
	t.Run("livez", func(t *testing.T) {
		if err := w.Livez(t.Context(), as); err != nil {
			t.Error(err)
		}
	})
}

const (
	suiteName = "world-contract"
	suiteNode = "world-contract-node"
	suiteMark = "world-contract/mark"
)

type objectSuite struct {
	t  *testing.T
	w  API
	as state.Identity
}

func (s *objectSuite) config(data map[string]string) change.ApplyObject {
	return change.ApplyObject{As: s.as, Object: &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: suiteName,
			Labels: map[string]string{"ours": "1"}},
		Data: data,
	}}
}

func (s *objectSuite) ref() state.Ref { return state.RefOf(s.config(nil).Object, s.as) }

func (s *objectSuite) do(c change.Change) {
	s.t.Helper()
	if err := s.w.Do(s.t.Context(), c); err != nil {
		s.t.Fatalf("%s: %v", c, err)
	}
	s.done(c, true)
}

func (s *objectSuite) done(c change.Change, want bool) {
	s.t.Helper()
	if got, err := c.Done(s.t.Context(), objectsOnly{Objects: s.w}); err != nil || got != want {
		s.t.Errorf("Done of %q is %v, %v", c, got, err)
	}
}

func (s *objectSuite) read(ref state.Ref) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.w.Object(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *objectSuite) wantData(want map[string]string) {
	s.t.Helper()
	got, _, err := unstructured.NestedStringMap(s.read(s.ref()).Object, "data")
	if err != nil || !maps.Equal(got, want) {
		s.t.Errorf("data is %v, %v; want %v", got, err, want)
	}
}

func (s *objectSuite) wantLabels(ref state.Ref, want map[string]string) {
	s.t.Helper()
	got := s.read(ref).GetLabels()
	for k, v := range want {
		if got[k] != v {
			s.t.Errorf("labels are %v; want at least %v", got, want)
			return
		}
	}
}

func testApplyAndDelete(s *objectSuite) {
	_, err := s.w.Object(s.t.Context(), s.ref())
	if !apierrors.IsNotFound(err) {
		s.t.Fatalf("reading an object that does not exist: %v", err)
	}
	first, second := s.config(map[string]string{"a": "1", "b": "2"}),
		s.config(map[string]string{"a": "3"})
	s.done(first, false)
	s.do(first)
	s.wantData(map[string]string{"a": "1", "b": "2"})
	uid := s.read(s.ref()).GetUID()
	s.done(second, false)
	s.do(second)
	s.wantData(map[string]string{"a": "3"})
	s.do(second)
	if now := s.read(s.ref()).GetUID(); uid == "" || now != uid {
		s.t.Errorf("an update should keep the uid: %q became %q", uid, now)
	}

	keep := s.config(map[string]string{"a": "4"})
	keep.Keep = true
	s.done(keep, true)
	for _, keep.Unreadable = range []bool{false, true} {
		s.do(keep)
		s.wantData(map[string]string{"a": "3"})
	}

	// labels of other programs stay
	s.do(change.MutateObject{Object: s.config(nil).Object, As: s.as,
		Mutate: func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(o.Object, "2", "metadata", "labels", "theirs")
		}})
	s.done(second, true)
	s.do(s.config(map[string]string{"a": "5"}))
	s.wantLabels(s.ref(), map[string]string{"ours": "1", "theirs": "2"})

	other := change.DeleteObject{Ref: s.ref(), UID: "of-another"}
	s.done(other, true)
	s.do(other)
	if now := s.read(s.ref()).GetUID(); now != uid {
		s.t.Errorf("an object with another uid was deleted: %q became %q", uid, now)
	}
	own := change.DeleteObject{Ref: s.ref(), UID: string(uid)}
	s.done(own, false)
	s.do(own)
	s.do(second)

	remove := change.DeleteObject{Ref: s.ref()}
	s.done(remove, false)
	s.do(remove)
	s.do(remove)
}

func testMutate(s *objectSuite) {
	c := change.MutateObject{
		Object: s.config(map[string]string{"fresh": "1"}).Object, As: s.as,
		Mutate: func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(o.Object, "2", "data", "added")
		},
	}
	existing := c
	existing.MustExist = true
	if err := s.w.Do(s.t.Context(), existing); !apierrors.IsNotFound(err) {
		s.t.Errorf("an object that must exist and does not: %v", err)
	}
	if _, err := s.w.Object(s.t.Context(), s.ref()); !apierrors.IsNotFound(err) {
		s.t.Errorf("it was created: %v", err)
	}
	s.done(c, false)
	if err := s.w.Do(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
	s.wantData(map[string]string{"fresh": "1"})
	s.done(existing, false)
	s.done(c, false)
	s.do(existing)
	s.wantData(map[string]string{"fresh": "1", "added": "2"})
	s.done(existing, true)
	s.do(c)
	refused := errors.New("refused")
	c.Mutate = func(*unstructured.Unstructured) error { return refused }
	if err := s.w.Do(s.t.Context(), c); !errors.Is(err, refused) {
		s.t.Errorf("got %v, want the error of Mutate", err)
	}
}

// testSubresource approves a certificate signing request.
func testSubresource(s *objectSuite) {
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "suite"}}, key)
	if err != nil {
		s.t.Fatal(err)
	}
	csr := &certv1.CertificateSigningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: certv1.SchemeGroupVersion.String(),
			Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: "suite"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: "example.com/suite", Usages: []certv1.KeyUsage{certv1.UsageClientAuth}},
	}
	approve := change.MutateObject{Object: csr, As: s.as, Subresource: "approval",
		Mutate: func(o *unstructured.Unstructured) error {
			if _, ok, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); ok {
				return nil
			}
			return unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Approved",
				"status": "True", "reason": "Suite"}}, "status", "conditions")
		}}
	if err := s.w.Do(s.t.Context(), approve); !apierrors.IsNotFound(err) {
		s.t.Errorf("approving a request that does not exist: %v", err)
	}
	s.do(change.ApplyObject{Object: csr, As: s.as})
	s.do(approve)
	found := s.read(state.RefOf(csr, s.as))
	all, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
	if err != nil || len(all) != 1 || all[0].(map[string]any)["type"] != "Approved" {
		s.t.Errorf("the conditions are %v (%v)", all, err)
	}
	s.do(change.DeleteObject{Ref: state.RefOf(csr, s.as)})
}

func testInverse(s *objectSuite) {
	first, second := s.config(map[string]string{"a": "1"}), s.config(map[string]string{"a": "2"})
	second.Object.SetLabels(map[string]string{"added": "later"})
	r := objectsOnly{Objects: s.w}
	none, err := first.Inverse(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.do(first)
	back, err := second.Inverse(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.do(second)
	s.done(back, false)
	s.do(back)
	s.wantData(map[string]string{"a": "1"})
	if labels := s.read(s.ref()).GetLabels(); len(labels) != 1 || labels["ours"] != "1" {
		s.t.Errorf("labels after the undo are %v", labels)
	}
	s.do(none)
	if _, err := s.w.Object(s.t.Context(), s.ref()); !apierrors.IsNotFound(err) {
		s.t.Errorf("the inverse of a creation should delete: %v", err)
	}
}

func testList(s *objectSuite) {
	c := s.config(map[string]string{"a": "1"})
	c.Object.SetLabels(map[string]string{suiteMark: "1"})
	s.do(c)
	q := state.Query{GVK: s.ref().GVK, Namespace: "kube-system", As: s.as}
	for _, sel := range []struct {
		labels, fields string
		want           int
	}{
		{suiteMark + "=1", "", 1},
		{suiteMark + "=2", "", 0},
		{"", "metadata.name=" + suiteName, 1},
		{suiteMark, "metadata.name=" + suiteName + "-not", 0},
	} {
		q.LabelSelector, q.FieldSelector = sel.labels, sel.fields
		got, err := s.w.List(s.t.Context(), q)
		if err != nil || len(got) != sel.want {
			s.t.Errorf("%q %q lists %d objects, %v; want %d", sel.labels, sel.fields, len(got), err,
				sel.want)
		}
		for _, o := range got {
			if o.GetName() != suiteName || o.GetKind() != "ConfigMap" {
				s.t.Errorf("%q %q lists %s %s", sel.labels, sel.fields, o.GetKind(), o.GetName())
			}
		}
	}
}

// testListFields lists some of the fields of objects.
func testListFields(s *objectSuite) {
	c := s.config(map[string]string{"a": "1", "b": "2"})
	s.do(c)
	for _, want := range []struct {
		fields []string
		data   map[string]string
	}{
		{nil, map[string]string{"a": "1", "b": "2"}},
		{[]string{"data"}, map[string]string{"a": "1", "b": "2"}},
		{[]string{"data.b", "none.at.all", "metadata.name.none"}, map[string]string{"b": "2"}},
		{[]string{"metadata"}, nil},
	} {
		q := state.Query{GVK: s.ref().GVK, Namespace: "kube-system", As: s.as, Fields: want.fields,
			Keep: func(o *unstructured.Unstructured) bool { return o.GetName() == suiteName }}
		got, err := s.w.List(s.t.Context(), q)
		if err != nil || len(got) != 1 {
			s.t.Fatalf("fields %q of %d objects: %v", want.fields, len(got), err)
		}
		data, _, err := unstructured.NestedStringMap(got[0].Object, "data")
		if err != nil || !maps.Equal(data, want.data) || got[0].GroupVersionKind() != q.GVK ||
			got[0].GetLabels()["ours"] != "1" || got[0].GetUID() == "" {
			s.t.Errorf("fields %q are %v (%v)", want.fields, got[0].Object, err)
		}
	}
}

func testLabelNode(s *objectSuite) {
	n := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: suiteNode,
			Labels: map[string]string{corev1.LabelHostname: suiteNode}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "theirs",
			Effect: corev1.TaintEffectNoExecute}}},
	}
	// The API server may add taints to a new Node, so the change may not be done afterwards.
	if err := s.w.Do(s.t.Context(), change.ApplyObject{Object: n, As: s.as}); err != nil {
		s.t.Fatal(err)
	}
	c := change.LabelAndTaintNode{
		Name: suiteNode, As: s.as, Labels: map[string]string{"role": ""},
		Taints: []corev1.Taint{{Key: "ours", Effect: corev1.TaintEffectNoSchedule}},
	}
	s.done(c, false)
	s.do(c)
	s.do(c)
	s.wantLabels(c.Ref(), map[string]string{corev1.LabelHostname: suiteNode, "role": ""})
	s.wantTaints(c.Ref(), map[any]any{"ours": nil, "theirs": nil})
	c.Taints[0].Value = "other"
	s.done(c, false)
	s.do(c)
	s.wantTaints(c.Ref(), map[any]any{"ours": "other", "theirs": nil})
}

// wantTaints compares the values of a Node's taints, by key. The API server may have added others.
func (s *objectSuite) wantTaints(ref state.Ref, want map[any]any) {
	s.t.Helper()
	taints, _, err := unstructured.NestedSlice(s.read(ref).Object, "spec", "taints")
	values := map[any]any{}
	for _, t := range taints {
		taint := t.(map[string]any)
		if _, isDouble := values[taint["key"]]; isDouble {
			s.t.Errorf("taint %v is set twice: %v", taint["key"], taints)
		}
		values[taint["key"]] = taint["value"]
	}
	for key, value := range want {
		if got, found := values[key]; !found || got != value || err != nil {
			s.t.Errorf("taint %v is %v: %v, %v", key, got, taints, err)
		}
	}
}

// objectsOnly is a Reader of objects only.
type objectsOnly struct {
	state.Objects
	otherReads
}
