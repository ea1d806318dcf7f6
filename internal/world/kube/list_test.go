package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

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
