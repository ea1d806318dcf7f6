package reconfiguration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// NodeProgress says whether a node has followed the change.
type NodeProgress struct {
	Name         string `json:"name"`
	ControlPlane bool   `json:"controlPlane"`
	Done         bool   `json:"done"`
	// Reregistered is set if another Node of that name was there when the cluster stored the change. Whether the
	// machine has the change is not known then: it may be the same one, or one that has joined since.
	Reregistered bool `json:"reregistered,omitempty"`
	// Untouched is set if the machine is known to have nothing of the change: it has not begun to follow.
	Untouched bool `json:"-"`
}

// ReadProgress returns which of the nodes that the change concerns have followed, in the order of their
// names. A node that joined some time after the cluster's configuration was replaced joined with it: the
// time when it was, and that of the Node, are of different clocks. A Node that was registered again did not
// necessarily join.
func (s *State) ReadProgress(ctx context.Context, reader state.Reader,
	as state.Identity) ([]NodeProgress, error) {
	list, err := listNodes(ctx, reader, as)
	if err != nil {
		return nil, fmt.Errorf("reading which nodes have followed: %w", err)
	}
	return s.progressOf(list), nil
}

// progressOf is ReadProgress of these Nodes.
func (s *State) progressOf(list []unstructured.Unstructured) (all []NodeProgress) {
	known := s.Nodes.byName()
	for _, u := range list {
		n := NodeProgress{Name: u.GetName()}
		_, n.ControlPlane = u.GetLabels()[node.ControlPlaneLabel]
		if n.ControlPlane && !s.ControlPlanes || !n.ControlPlane && !s.Workers {
			continue
		}
		uid, wasThere := known[shortDigest(n.Name)]
		created := u.GetCreationTimestamp()
		switch {
		case u.GetAnnotations()[NodeAnnotation] == s.ID:
			n.Done = true
		case wasThere:
			n.Reregistered = uid != shortDigest(string(u.GetUID()))
			n.Untouched = !n.Reregistered && n.Name != s.Node && u.GetAnnotations()[NodeAnnotation] != s.begun()
		case s.Endpoint == nil: // a machine that joined may use a previous endpoint, by a discovery file
			n.Done = s.Stored != nil && created.Sub(s.Stored.Time) > joinMargin
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b NodeProgress) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// joinMargin is longer than a join takes, and than clocks of control plane nodes may differ.
const joinMargin = 5 * time.Minute

func listNodes(ctx context.Context, reader state.Reader, as state.Identity) ([]unstructured.Unstructured, error) {
	return reader.List(ctx, state.Query{GVK: state.NodeKind, As: as, Fields: []string{"metadata"}})
}

// ListBehind returns the names of the nodes that have not followed: control plane nodes or workers.
func ListBehind(all []NodeProgress, controlPlane bool) (names []string) {
	for _, n := range all {
		if !n.Done && n.ControlPlane == controlPlane {
			names = append(names, untrusted.Line(n.Name))
		}
	}
	return names
}

// KnownNodes are the Nodes of a cluster at some time: of each, the beginnings of the digests of its name and of its UID,
// separated by blanks. Names and UIDs themselves would not fit in an object for a large cluster.
type KnownNodes string

// digestLength is the length of such a beginning, in hex digits. Two names with the same one only cause a node that
// joined to count as one that was registered again.
const digestLength = 8

func shortDigest(text string) string { return digest(text)[:digestLength] }

// RecordNodes records the Nodes that the cluster has now.
func (s *State) RecordNodes(ctx context.Context, reader state.Reader, as state.Identity) error {
	var all []string
	note := func(u *unstructured.Unstructured) bool { // and keep nothing else of thousands
		all = append(all, shortDigest(u.GetName())+shortDigest(string(u.GetUID())))
		return false
	}
	if _, err := reader.List(ctx, state.Query{GVK: state.NodeKind, As: as, Fields: []string{"metadata"}, Keep: note}); err != nil {
		return fmt.Errorf("reading which nodes there are: %w", err)
	}
	slices.Sort(all)
	s.Nodes = KnownNodes(strings.Join(all, " "))
	return nil
}

// byName returns the digests of the UIDs by those of the names.
func (k KnownNodes) byName() map[string]string {
	all := map[string]string{}
	for one := range strings.FieldsSeq(string(k)) {
		if len(one) == 2*digestLength {
			all[one[:digestLength]] = one[digestLength:]
		}
	}
	return all
}

// NodeSet are nodes, as the beginnings of the digests of their names.
type NodeSet string

// NewNodeSet returns the set of nodes with these names.
func NewNodeSet(names []string) NodeSet {
	var all []string
	for _, name := range names {
		all = append(all, shortDigest(name))
	}
	slices.Sort(all)
	return NodeSet(strings.Join(slices.Compact(all), " "))
}

// Has reports whether a node is in the set.
func (s NodeSet) Has(name string) bool { return strings.Contains(string(s), shortDigest(name)) }

// ReportChange returns the change that says in the Node that it has followed. A kubelet may do that for
// its own Node.
func (s *State) ReportChange(name string, as state.Identity) change.Change {
	return change.AnnotateNode(name, as, map[string]string{NodeAnnotation: s.ID})
}

// ReportBegin returns the change that says in a Node that its machine begins to follow; nil if it says that it has followed.
// What is killed before it has followed may have a part of the change.
func (s *State) ReportBegin(n *unstructured.Unstructured, as state.Identity) change.Change {
	if n.GetAnnotations()[NodeAnnotation] == s.ID {
		return nil
	}
	return change.AnnotateNode(n.GetName(), as, map[string]string{NodeAnnotation: s.begun()})
}

func (s *State) begun() string { return s.ID + "-begun" }
