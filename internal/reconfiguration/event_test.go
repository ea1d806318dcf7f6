package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// eventWorld is a cluster whose API server lets this machine read no Events and, if set, create none.
type eventWorld struct {
	*fake.World
	refuses bool
	created []*corev1.Event
}

func (w *eventWorld) forbid(verb string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, verb, errors.New("no"))
}

func (w *eventWorld) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if ref.GVK.Kind == "Event" {
		return nil, w.forbid("get")
	}
	return w.World.Object(ctx, ref)
}

func (w *eventWorld) Do(ctx context.Context, c change.Change) error {
	if w.refuses {
		return w.forbid("create")
	}
	w.created = append(w.created, c.(change.ApplyObject).Object.(*corev1.Event))
	return w.World.World.Do(ctx, c) // whatever runs on this machine
}

// newEventEnv is that of a change of the kubelet and of an argument, and warned has its warnings.
func newEventEnv(s *State, role node.Role) (w *eventWorld, e *engine.Env, n *node.Node, warned *[]string) {
	w, warned = &eventWorld{World: fake.New()}, new([]string)
	newNode := func(pods int32) *node.Node {
		n := &node.Node{Local: node.Local{Name: "n1", Role: role}}
		n.Cluster.Kubelet.Config = &kubeletconfig.KubeletConfiguration{MaxPods: pods}
		return n
	}
	n = newNode(99)
	e = engine.New(engine.Env{World: w, Intent: Intent{Change: s, Before: newNode(50)}, Emit: func(v engine.Event) {
		if v.Kind == engine.Warned {
			*warned = append(*warned, v.Text)
		}
	}})
	return w, e, n, warned
}

// An Event is created without being read, and a second run with the same change has the same one.
func TestReportFollowed(t *testing.T) {
	for _, role := range []node.Role{node.ControlPlane, node.Worker} {
		w, e, n, warned := newEventEnv(&State{ID: "abc", Undoes: "def", Node: "cp1"}, role)
		for range 2 {
			ReportFollowed(t.Context(), e, n, state.Identity{})
		}
		events := 0
		for k := range w.Objects {
			if k.Kind.Kind == "Event" {
				events++
			}
		}
		event := w.created[0]
		const want = "Applied configuration change abc (started on cp1; reverts def): KubeletConfiguration maxPods. " +
			"Run \"kubeadm reconfigure status\" on a control plane node to see all nodes."
		if events != 1 || len(*warned) > 0 || event.Message != want || event.Name != "n1.kubeadm-reconfigured-abc" ||
			event.Namespace != "default" || event.Reason != "ReconfiguredNode" || event.Type != "Normal" ||
			event.InvolvedObject.Kind != "Node" || event.InvolvedObject.Name != "n1" || event.InvolvedObject.UID != "n1" {
			t.Errorf("%v: %d Events, warnings %q, got %+v", role, events, *warned, event)
		}
	}
}

// The Event of a change that was taken back has the first line of the cause, without secrets.
func TestReportTakenBack(t *testing.T) {
	cause := fmt.Errorf("kube-scheduler exited: it listens nowhere, --token=%s\nlast line", "abcdef.0123456789abcdee")
	for id, want := range map[string]string{
		"abc": "Configuration change abc was rolled back on this node: kube-scheduler exited: it listens nowhere",
		"":    "A change of this node's kubelet arguments was rolled back: kube-scheduler exited",
	} {
		w, e, n, warned := newEventEnv(&State{ID: id}, node.ControlPlane)
		ReportTakenBack(t.Context(), e, n, state.Identity{}, cause)
		event := w.created[0]
		if !strings.HasPrefix(event.Message, want) || strings.Contains(event.Message, "0123456789abcdee") ||
			strings.Contains(event.Message, "last line") || event.Type != "Warning" || len(*warned) > 0 ||
			event.Reason != "ReconfigurationTakenBack" || !strings.HasPrefix(event.Name, "n1.kubeadm-taken-back-") {
			t.Errorf("warnings %q, got %+v", *warned, event)
		}
	}
}

// Without the right to create Events there is a warning.
func TestRefusedEventIsWarning(t *testing.T) {
	w, e, n, warned := newEventEnv(&State{ID: "abc", Node: "cp1"}, node.Worker)
	w.refuses = true
	ReportFollowed(t.Context(), e, n, state.Identity{})
	ReportTakenBack(t.Context(), e, n, state.Identity{}, errors.New("broken"))
	if len(*warned) != 2 || !strings.Contains((*warned)[0], "could not record Event ReconfiguredNode for this node (informational only)") {
		t.Errorf("the warnings are %q", *warned)
	}
}

// Names of nodes and fields of any length lead to an Event that the API server accepts.
func TestEventOfLongNames(t *testing.T) {
	w, e, n, _ := newEventEnv(&State{ID: "abcdef012345", Node: strings.Repeat("a", 253)}, node.ControlPlane)
	n.Name = strings.Repeat("n", 253)
	ReportFollowed(t.Context(), e, n, state.Identity{})
	ReportTakenBack(t.Context(), e, n, state.Identity{}, errors.New(strings.Repeat("ü", 4000)))
	for _, event := range w.created {
		key := memory.Key{Kind: schema.GroupKind{Kind: "Event"}, Namespace: "default", Name: event.Name}
		if len(event.Name) > 253 || len(event.Message) > 1024 || w.Objects[key] == nil {
			t.Errorf("a name of %d bytes, a message of %d", len(event.Name), len(event.Message))
		}
	}
}
