package discovery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// flapping is a cluster that gives the answers in order, and then repeats the last one.
type flapping struct {
	*fake.World
	says  []error
	asked int
}

// Now advances by a second with each request.
func (f *flapping) Now() time.Time { return time.Unix(int64(f.asked), 0) }

func (f *flapping) Object(context.Context, state.Ref) (*unstructured.Unstructured, error) {
	f.asked++
	return &unstructured.Unstructured{}, f.says[min(f.asked, len(f.says))-1]
}

func (f *flapping) Await(ctx context.Context, c world.Condition) error {
	return world.Poll(ctx, f, c)
}

func TestObjectBehindFlappingLoadBalancer(t *testing.T) {
	cut := errors.New("connection refused")
	absent := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "cp2")
	for name, c := range map[string]struct {
		says  []error
		asked int
		want  error
	}{
		"an answer":                     {[]error{nil}, 1, nil},
		"that there is none":            {[]error{absent}, 1, absent},
		"an answer in the end":          {[]error{cut, cut, nil}, 3, nil},
		"in the end that there is none": {[]error{cut, absent}, 2, absent},
		"a redirection":                 {[]error{state.ErrRedirected}, 11, state.ErrRedirected},
		"one wrong backend": {[]error{state.ErrRedirected, cut, state.ErrRedirected,
			nil}, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flapping{World: fake.New(), says: c.says}
			e := engine.New(engine.Env{World: f, Emit: func(engine.Event) {}})
			e.Local.Timeouts.KubernetesAPI = time.Minute
			_, err := discovery.ReadObject(t.Context(), e,
				state.Ref{GVK: state.NodeKind, Name: "cp2"})
			if !errors.Is(err, c.want) || f.asked != c.asked {
				t.Errorf("asked %d times: %v", f.asked, err)
			}
		})
	}
	f := &flapping{World: fake.New(), says: []error{cut}}
	e := engine.New(engine.Env{World: f, Emit: func(engine.Event) {}})
	e.Local.Timeouts.KubernetesAPI = 50 * time.Millisecond
	_, err := discovery.ReadObject(t.Context(), e, state.Ref{GVK: state.NodeKind, Name: "cp2"})
	if !errors.Is(err, cut) ||
		!strings.Contains(err.Error(), "waited 50ms for the cluster to answer") {
		t.Errorf("%v", err)
	}
}

// A busy server's pauses take nothing of the time in which the cluster must answer.
func TestObjectOfBusyServer(t *testing.T) {
	busy := world.RetryAfter(apierrors.NewTooManyRequestsError("too many requests"), 25*time.Second)
	for name, c := range map[string]struct {
		pauses int
		want   error
	}{"for two minutes": {5, nil}, "for hours": {1000, busy}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flapping{World: fake.New(), says: []error{errors.New("connection refused")}}
				for range c.pauses {
					f.says = append(f.says, busy)
				}
				f.says = append(f.says, nil)
				e := engine.New(engine.Env{World: f, Emit: func(engine.Event) {}})
				e.Local.Timeouts.KubernetesAPI = time.Minute
				begun := time.Now()
				_, err := discovery.ReadObject(t.Context(), e, state.Ref{GVK: state.NodeKind, Name: "cp2"})
				if !errors.Is(err, c.want) || time.Since(begun) > time.Minute+world.Patience {
					t.Errorf("asked %d times in %s: %v", f.asked, time.Since(begun), err)
				}
			})
		})
	}
}

func TestJoinBehindFlappingLoadBalancer(t *testing.T) {
	for _, name := range []string{"kubeadm-config", "kubelet-config", "kube-proxy", "worker1"} {
		t.Run(name, func(t *testing.T) {
			c, m := newCluster(t), newMachine()
			m.cut[name] = 2
			m.joined(t, c.flags(c.server))
			if m.cut[name] >= 0 {
				t.Errorf("it was not asked for again")
			}
		})
	}
}
