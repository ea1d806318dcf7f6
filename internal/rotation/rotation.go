// Package rotation has the state of a CA rotation as the cluster stores it: what is replaced, the
// stages, and the one that each node has reached. Phase rotate-ca brings a node to a stage.
//
// ConfigMap kube-system/kubeadm-ca-rotation has the stage of the cluster, an annotation of each Node
// the stage that the node has reached. docs/decisions/0047 has the reasons.
package rotation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Stage is a stage of a rotation.
type Stage string

// The stages. Trust, Sign and Finish follow each other. Trust is undone by Undo, and Sign by UndoSign
// and then Undo.
const (
	Trust    Stage = "trust"     // both CAs are trusted, the old one signs
	Sign     Stage = "sign"      // both are trusted, the new one signs
	Finish   Stage = "finish"    // only the new one is left
	UndoSign Stage = "undo-sign" // both are trusted, the old one signs again
	Undo     Stage = "undo"      // only the old one is left
)

// UsesNew reports whether the new CA signs in this stage.
func (s Stage) UsesNew() bool { return s == Sign || s == Finish }

// IsLast reports whether only one CA is trusted in this stage.
func (s Stage) IsLast() bool { return s == Finish || s == Undo }

// Command is the subcommand of "kubeadm certs rotate-ca" that brings a node to this stage.
func (s Stage) Command() string {
	if s == UndoSign {
		return string(Undo)
	}
	return string(s)
}

// Options are the choices of the user.
type Options struct {
	Authorities       []string // of a new rotation; none for all that this cluster has
	IgnoreRunningPods bool     // Pods and tokens that a stage would break are warnings only
}

// State is a rotation, as the cluster stores it. It has no secrets.
type State struct {
	ID    string `json:"id"`
	Stage Stage  `json:"stage"` // the latest that a node has begun
	// Authorities are the names of what is replaced.
	Authorities []string    `json:"authorities"`
	Started     metav1.Time `json:"started"`
	// Switched is since when all control plane nodes sign with the CA of the stage Sign or UndoSign;
	// nil while one signs with the other.
	Switched *metav1.Time `json:"switched,omitempty"`
	// Completed is set when all nodes have reached the last stage: only this state is to be removed.
	Completed bool `json:"completed,omitempty"`
	// Old and New are the certificates and public keys in PEM form, by the names of Authorities.
	Old map[string]string `json:"old"`
	New map[string]string `json:"new"`
}

const (
	configMapKey = "rotation"
	// NodeAnnotation is the annotation of a Node with the stage that it has reached.
	NodeAnnotation = "kubeadm.kubernetes.io/ca-rotation"
)

// Replaces reports whether the rotation replaces the authority of that name.
func (r *State) Replaces(name string) bool { return slices.Contains(r.Authorities, name) }

// Read returns the rotation in progress; nil if there is none.
func Read(ctx context.Context, r state.Reader, as state.Identity) (*State, error) {
	u, err := r.Object(ctx, state.RefOf(manifest.NewCARotation(""), as))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the rotation: %w", err)
	}
	text, _, _ := unstructured.NestedString(u.Object, "data", configMapKey)
	var found State
	if err = yaml.UnmarshalStrict([]byte(text), &found); err == nil {
		err = found.check()
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", u.GetNamespace(), u.GetName(),
			untrusted.Error(err))
	}
	return &found, nil
}

// check is an error if a field does not make sense.
func (r *State) check() error {
	if !slices.Contains([]Stage{Trust, Sign, Finish, UndoSign, Undo}, r.Stage) {
		return fmt.Errorf("unknown stage %q", r.Stage)
	}
	if r.ID == "" || len(r.Authorities) == 0 {
		return errors.New("it has no id or no authorities")
	}
	for _, name := range r.Authorities {
		a, ok := FindAuthority(name)
		if !ok {
			return fmt.Errorf("unknown authority %q", name)
		}
		for _, text := range []string{r.Old[name], r.New[name]} {
			if err := a.CheckPublic([]byte(text)); err != nil {
				return fmt.Errorf("authority %s: %w", name, err)
			}
		}
	}
	return nil
}

// NewStoreChange returns the change that stores the rotation in the cluster.
func (r *State) NewStoreChange(as state.Identity) (change.Change, error) {
	text, err := yaml.Marshal(r)
	if err != nil {
		return nil, err
	}
	return change.ApplyObject{Object: manifest.NewCARotation(string(text)), As: as}, nil
}

// NodeProgress is the stage that a node has reached.
type NodeProgress struct {
	Name         string `json:"name"`
	ControlPlane bool   `json:"controlPlane"`
	Stage        Stage  `json:"stage"` // empty for none
}

// progress is the content of the annotation.
type progress struct {
	ID    string `json:"id"`
	Stage Stage  `json:"stage"`
	// Switched is that of the rotation when the node reached the stage.
	Switched *metav1.Time `json:"switched,omitempty"`
}

// ReadProgress returns the stage that each node has reached, in the order of their names. Workers
// are left out if the rotation does not concern them. A worker that reached the stage Sign or UndoSign
// before all control plane nodes signed with its CA is still in the stage Trust: since then its
// kubelet may have been given a certificate of the other one.
func (r *State) ReadProgress(ctx context.Context, reader state.Reader,
	as state.Identity) ([]NodeProgress, error) {
	list, err := reader.List(ctx, state.Query{GVK: state.NodeKind, As: as,
		Fields: []string{"metadata"}})
	if err != nil {
		return nil, fmt.Errorf("reading the stages of the nodes: %w", err)
	}
	var all []NodeProgress
	for _, u := range list {
		n := NodeProgress{Name: u.GetName()}
		_, n.ControlPlane = u.GetLabels()[node.ControlPlaneLabel]
		if !n.ControlPlane && !r.Replaces(ClusterAuthority) {
			continue
		}
		var p progress
		text := u.GetAnnotations()[NodeAnnotation]
		if json.Unmarshal([]byte(text), &p) == nil && p.ID == r.ID {
			n.Stage = p.Stage
			if !n.ControlPlane && (p.Stage == Sign || p.Stage == UndoSign) &&
				!p.Switched.Equal(r.Switched) {
				n.Stage = Trust
			}
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b NodeProgress) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// NewReportChange returns the change that says in the Node which stage it has reached. A kubelet may
// do that for its own Node.
func (r *State) NewReportChange(name string, s Stage, as state.Identity) (change.Change, error) {
	text, err := json.Marshal(progress{ID: r.ID, Stage: s, Switched: r.Switched})
	if err != nil {
		return nil, err
	}
	return change.AnnotateNode(name, as, map[string]string{NodeAnnotation: string(text)}), nil
}

// NewForgetChange returns the change that removes from the Node what NewReportChange has written.
func NewForgetChange(name string, as state.Identity) change.Change {
	return change.AnnotateNode(name, as, map[string]string{NodeAnnotation: ""})
}

// ListBehind returns the names of the nodes that have not reached a stage.
func ListBehind(all []NodeProgress, s Stage, onlyControlPlanes bool) (names []string) {
	for _, n := range all {
		if n.Stage != s && (n.ControlPlane || !onlyControlPlanes) {
			names = append(names, untrusted.Line(n.Name))
		}
	}
	return names
}
