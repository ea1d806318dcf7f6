// Package reconfiguration is about changing the configuration of a running cluster: what the cluster
// stores of such a change, which nodes have followed, and what a change means for a node.
package reconfiguration

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// State is the latest change of the configuration, as the cluster stores it.
type State struct {
	ID      string      `json:"id"`
	Started metav1.Time `json:"started"`
	Node    string      `json:"node"`             // where it was started
	Undoes  string      `json:"undoes,omitempty"` // the ID of the change that it takes back
	// ControlPlanes and Workers say whose nodes the change concerns.
	ControlPlanes bool `json:"controlPlanes"`
	Workers       bool `json:"workers"`
	// Stored is when the cluster's own configuration was replaced; nil before that.
	Stored *metav1.Time `json:"stored,omitempty"`
	// Earlier is the change before this one, as long as the cluster has not stored this one.
	Earlier *State `json:"earlier,omitempty"`
	// Before and After are what the cluster stores before and after the change.
	Before config.StoredConfig `json:"before"`
	After  config.StoredConfig `json:"after"`
}

const (
	configMapKey = "reconfiguration"
	// NodeAnnotation is the annotation of a Node with the ID of the change that it has followed last.
	NodeAnnotation = "kubeadm.kubernetes.io/reconfiguration"
)

// New is a change that begins.
func New(nodeName string, before, after config.StoredConfig, now time.Time) *State {
	s := &State{Started: metav1.Time{Time: now}.Rfc3339Copy(), Node: nodeName, Before: before,
		After: after}
	s.ID = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %v", s.Started.UTC(), nodeName,
		after)))[:12]
	return s
}

// Read returns the latest change of the configuration; nil if there was none.
func Read(ctx context.Context, r state.Reader, as state.Identity) (*State, error) {
	u, err := r.Object(ctx, state.RefOf(manifest.NewReconfiguration(""), as))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the reconfiguration: %w", err)
	}
	text, _, _ := unstructured.NestedString(u.Object, "data", configMapKey)
	var found State
	if err = yaml.Unmarshal([]byte(text), &found); err == nil && (found.ID == "" || found.After.Cluster == "") {
		err = errors.New("it has no id or no configuration")
	}
	if err != nil {
		return nil, problem.New(fmt.Errorf("reading ConfigMap %s/%s: %w", u.GetNamespace(), u.GetName(),
			untrusted.Error(err)), untrusted.CommandHint("to forget the latest change, delete the ConfigMap",
			"kubectl delete configmap --namespace", u.GetNamespace(), u.GetName()))
	}
	return &found, nil
}

// Latest is the latest change that the cluster has stored; nil if there is none.
func (s *State) Latest() *State {
	for s != nil && s.Stored == nil {
		s = s.Earlier
	}
	return s
}

// TakeBackChanges returns the changes that forget a change that the cluster has not stored.
func (s *State) TakeBackChanges(as state.Identity) ([]change.Change, error) {
	if s.Earlier == nil {
		return []change.Change{change.DeleteObject{Ref: state.RefOf(manifest.NewReconfiguration(""), as)}}, nil
	}
	return s.Earlier.StoreChanges(as)
}

// StoreChanges returns the changes that store the state in the cluster, where every node may read it.
func (s *State) StoreChanges(as state.Identity) ([]change.Change, error) {
	text, err := yaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	return change.ApplyAll(as, append(manifest.ReconfigurationAccess.Objects(),
		manifest.NewReconfiguration(string(text)))...), nil
}

// NodeProgress says whether a node has followed the change.
type NodeProgress struct {
	Name         string `json:"name"`
	ControlPlane bool   `json:"controlPlane"`
	Done         bool   `json:"done"`
}

// ReadProgress returns which of the nodes that the change concerns have followed, in the order of their
// names. A node that joined some time after the cluster's configuration was replaced joined with it: the
// time when it was, and that of the Node, are of different clocks.
func (s *State) ReadProgress(ctx context.Context, reader state.Reader,
	as state.Identity) ([]NodeProgress, error) {
	list, err := reader.List(ctx, state.Query{GVK: state.NodeKind, As: as})
	if err != nil {
		return nil, fmt.Errorf("reading which nodes have followed: %w", err)
	}
	var all []NodeProgress
	for _, u := range list {
		n := NodeProgress{Name: u.GetName()}
		_, n.ControlPlane = u.GetLabels()[node.ControlPlaneLabel]
		if n.ControlPlane && !s.ControlPlanes || !n.ControlPlane && !s.Workers {
			continue
		}
		created := u.GetCreationTimestamp()
		n.Done = u.GetAnnotations()[NodeAnnotation] == s.ID || s.Stored != nil && created.Sub(s.Stored.Time) > joinMargin
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b NodeProgress) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// joinMargin is longer than a join takes, and than clocks of control plane nodes may differ.
const joinMargin = 5 * time.Minute

// ListBehind returns the names of the nodes that have not followed: control plane nodes or workers.
func ListBehind(all []NodeProgress, controlPlane bool) (names []string) {
	for _, n := range all {
		if !n.Done && n.ControlPlane == controlPlane {
			names = append(names, untrusted.Line(n.Name))
		}
	}
	return names
}

// ReportChange returns the change that says in the Node that it has followed. A kubelet may do that for
// its own Node.
func (s *State) ReportChange(name string, as state.Identity) change.Change {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.SetGroupVersionKind(state.NodeKind)
	return change.MutateObject{Object: n, As: as, Mutate: func(u *unstructured.Unstructured) error {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[NodeAnnotation] = s.ID
		u.SetAnnotations(annotations)
		return nil
	}}
}
