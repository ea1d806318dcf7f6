package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// newPage returns an answer with a page of Nodes.
func newPage(next string, names ...string) answer {
	var items []string
	for _, name := range names {
		items = append(items, fmt.Sprintf(
			`{"metadata": {"name": %q}, "spec": {"number": 5}, "status": {"phase": "x"}}`, name))
	}
	return answer{http.StatusOK, fmt.Sprintf(`{"kind": "NodeList", "apiVersion": "v1", "metadata":
		{"resourceVersion": "1", "continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))}
}

// listNames lists Nodes, and returns their names and how often Keep was called.
func listNames(t *testing.T, s *scripted) (names string, kept int, err error) {
	t.Helper()
	data := s.kubeconfig(t)
	found, err := newCluster(&data).List(world.WithRetry(t.Context(), bound), state.Query{
		GVK: state.NodeKind, As: state.Identity{Kubeconfig: admin}, Fields: []string{"spec"},
		Keep: func(o *unstructured.Unstructured) bool {
			kept++
			return o.GetName() != "unwanted"
		}})
	for _, o := range found {
		names += " " + o.GetName()
		if o.Object["spec"].(map[string]any)["number"] != int64(5) || o.Object["status"] != nil {
			t.Errorf("listed %v", o.Object)
		}
	}
	return names, kept, err
}

func TestListReadsPages(t *testing.T) {
	s := startServer(t, newPage("second", "a", "unwanted"), newPage("third"), newPage("", "b"))
	names, kept, err := listNames(t, s)
	if err != nil || names != " a b" || kept != 3 || len(s.asked) != 3 {
		t.Errorf("listed%s of %d with %d requests: %v", names, kept, len(s.asked), err)
	}
}

// With a limit one page is read, however many objects there are.
func TestListWithLimit(t *testing.T) {
	s := startServer(t, newPage("second", "a", "b"), newPage("", "c"))
	data := s.kubeconfig(t)
	found, err := newCluster(&data).List(t.Context(), state.Query{GVK: state.NodeKind,
		As: state.Identity{Kubeconfig: admin}, Limit: 2})
	if err != nil || len(found) != 2 || len(s.asked) != 1 {
		t.Errorf("listed %d with %d requests: %v", len(found), len(s.asked), err)
	}
}

// A page that fails is read again, and no other one.
func TestListRetriesOnePage(t *testing.T) {
	whole := newPage("", "b", "c")
	text := whole.body.(string)
	s := startServer(t, newPage("second", "a"),
		answer{http.StatusOK, text[:len(text)-20]}, // the connection is lost
		newRejection(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), whole)
	names, kept, err := listNames(t, s)
	if err != nil || names != " a b c" || kept != 3 || len(s.asked) != 4 {
		t.Errorf("listed%s of %d with %d requests: %v", names, kept, len(s.asked), err)
	}
}

// A list that takes longer than the API server keeps its revision goes on with what is there now.
// The limit is that of the first page; each page that arrives adds five seconds.
func TestListHasALimitThatGrows(t *testing.T) {
	t.Parallel()
	s := startServer(t, newPage("second", "a"), newRejection(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests))
	data := s.kubeconfig(t)
	begun := time.Now()
	_, err := newCluster(&data).List(world.WithRetry(t.Context(), time.Second), state.Query{
		GVK: state.NodeKind, As: state.Identity{Kubeconfig: admin}})
	if took := time.Since(begun); !apierrors.IsTooManyRequests(err) || took < 4*time.Second || took > 30*time.Second {
		t.Errorf("ended after %s: %v", took, err)
	}
}

func TestListContinuesExpiredList(t *testing.T) {
	expired := newRejection(http.StatusGone, metav1.StatusReasonExpired)
	status := expired.body.(metav1.Status)
	status.Continue = "fresh"
	expired.body = status
	s := startServer(t, newPage("second", "a"), expired, newPage("", "b"))
	names, _, err := listNames(t, s)
	if err != nil || names != " a b" {
		t.Errorf("listed%s: %v", names, err)
	}
	status.Continue = ""
	expired.body = status
	if _, _, err := listNames(t, startServer(t, newPage("second", "a"), expired)); !apierrors.IsResourceExpired(err) {
		t.Errorf("without a token to continue with: %v", err)
	}
}

// Members that are not named are skipped, managedFields always are, and whole numbers stay whole.
func TestListDecodesNamedFields(t *testing.T) {
	const item = `{"apiVersion": "v1", "metadata": {"name": "a", "generation": 7, "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
		"spec": {"taints": [{"key": "k"}], "podCIDR": "10.0.0.0/24"}, "status": {"nodeInfo": {"kubeletVersion": "v1", "osImage": "x"},
		"images": [{"sizeBytes": 1}], "phase": null}}`
	for fields, want := range map[string]string{
		"spec.taints":                            `{"spec":{"taints":[{"key":"k"}]}}`,
		"spec.podCIDR,spec":                      `{"spec":{"podCIDR":"10.0.0.0/24","taints":[{"key":"k"}]}}`,
		"status.nodeInfo.osImage,status.missing": `{"status":{"nodeInfo":{"osImage":"x"}}}`,
		"status.phase":                           `{"status":{"phase":null}}`,
		"status.phase.below":                     `{}`,
	} {
		s := startServer(t, answer{http.StatusOK, `{"items": [` + item + `], "metadata": {}}`})
		data := s.kubeconfig(t)
		found, err := newCluster(&data).List(t.Context(), state.Query{GVK: state.NodeKind, As: state.Identity{Kubeconfig: admin},
			Fields: strings.Split(fields, ",")})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", fields, found, err)
		}
		o := found[0].Object
		if meta := o["metadata"].(map[string]any); meta["generation"] != int64(7) || meta["managedFields"] != nil || o["kind"] != "Node" {
			t.Errorf("%s: %v", fields, o)
		}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(o, name)
		}
		if got, _ := json.Marshal(o); string(got) != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
}

// The versions of kubelets are read from a table, where the API server has such a column.
func TestListOfVersionsIsATable(t *testing.T) {
	const rows = `"rows": [{"cells": ["a", "Ready", "v1.37.1"], "object": {"kind": "PartialObjectMetadata",
		"metadata": {"name": "a", "labels": {"x": "y"}, "managedFields": [{}]}}}]}`
	const list = `{"items": [{"metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.1"}}}]}`
	column := func(name string) string {
		return `{"kind": "Table", "metadata": {}, "columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "` + name + `"}], `
	}
	for name, texts := range map[string][]string{
		"a table":                    {column("Version") + rows},
		"no table":                   {list},
		"a table of other columns":   {column("Release") + rows, list},
		"a table without columns":    {"{" + rows, list},
		"a table with fewer cells":   {strings.Replace(column("Version")+rows, `"Ready", `, "", 1), list},
		"an empty page, then a list": {`{"metadata": {"continue": "x"}, "columnDefinitions": [{"name": "Version"}], "rows": null}`, list},
	} {
		var answers []answer
		for _, text := range texts {
			answers = append(answers, answer{http.StatusOK, text})
		}
		s := startServer(t, answers...)
		data := s.kubeconfig(t)
		found, err := newCluster(&data).List(t.Context(), state.Query{GVK: state.NodeKind, As: state.Identity{Kubeconfig: admin},
			Fields: []string{"status.nodeInfo.kubeletVersion"}})
		want := `{"apiVersion":"v1","kind":"Node","metadata":{"labels":{"x":"y"},"name":"a"},"status":{"nodeInfo":{"kubeletVersion":"v1.37.1"}}}`
		if err != nil || len(found) != 1 || len(s.asked) != len(answers) {
			t.Errorf("%s: listed %v with %d requests: %v", name, found, len(s.asked), err)
		} else if got, _ := json.Marshal(found[0].Object); string(got) != want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// What is no list of objects is an error, and no empty list.
func TestListOfOddAnswers(t *testing.T) {
	for text, want := range map[string]string{
		`{"items": null}`: "", `{"items": []}`: "", `{}`: "",
		`{"items": {}}`: "has { where [ belongs", `{"items": ["x"]}`: `has string where ] belongs`,
		`[]`: "has [ where { belongs", `<html>`: "invalid", ``: "EOF",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel() // each is asked again until the time is over
			s := startServer(t, answer{http.StatusOK, text})
			data := s.kubeconfig(t)
			k := newCluster(&data)
			k.Timeout = 2 * time.Second
			found, err := k.List(t.Context(), state.Query{GVK: state.NodeKind, As: state.Identity{Kubeconfig: admin},
				Fields: []string{"spec"}})
			if len(found) > 0 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, %v, want %q", text, found, err, want)
			}
		})
	}
}
