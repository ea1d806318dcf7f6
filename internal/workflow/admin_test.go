package workflow

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// late is a machine whose API server gives no answer to the first questions.
type late struct {
	*fake.World
	questions, silent int
}

func (l *late) Object(_ context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if l.questions++; l.questions <= l.silent {
		return nil, fmt.Errorf("reading: %w",
			&url.Error{Op: "Get", URL: "https://10.0.0.1:6443",
				Err: errors.New("connection refused")})
	}
	return &unstructured.Unstructured{}, nil
}

func (l *late) Await(ctx context.Context, c world.Condition) error { return world.Poll(ctx, l, c) }

// Given one by one, phases come to an API server that is only just starting.
func TestClusterAdminBindingWaitsForAPIServer(t *testing.T) {
	for silent, answers := range map[int]bool{0: true, 5: true, 1000: false} {
		l := &late{World: fake.New(), silent: silent}
		e := engine.New(engine.Env{World: l, Emit: func(engine.Event) {}})
		e.Local.Timeouts.KubernetesAPI = time.Minute
		if !answers {
			e.Local.Timeouts.KubernetesAPI = 300 * time.Millisecond
		}
		err := createBinding(t.Context(), e, state.Identity{Kubeconfig: "/admin.conf"})
		if (err == nil) != answers {
			t.Errorf("silent %d times: %v", silent, err)
		}
	}
}

// leaderless is a machine whose API server can answer only when a read is retried, as one whose
// etcd elects a leader.
type leaderless struct{ *fake.World }

func (l leaderless) Object(ctx context.Context, _ state.Ref) (*unstructured.Unstructured, error) {
	if world.RetryLimit(ctx) == 0 {
		return nil, apierrors.NewInternalError(errors.New("etcdserver: no leader"))
	}
	return &unstructured.Unstructured{}, nil
}

func TestClusterAdminBindingRetriesWithoutEtcdLeader(t *testing.T) {
	e := engine.New(engine.Env{World: leaderless{fake.New()}, Emit: func(engine.Event) {}})
	e.Local.Timeouts.KubernetesAPI = time.Minute
	if err := createBinding(t.Context(), e, state.Identity{Kubeconfig: "/admin.conf"}); err != nil {
		t.Error(err)
	}
}

func TestErrorsFromAPIServerAreNotRetried(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "clusterrolebindings"},
		"kubeadm:cluster-admins", nil)
	for _, err := range []error{nil, refused, errors.New("reading the kubeconfig: bad YAML")} {
		if isUnreachable(err) {
			t.Errorf("%v passes for silence", err)
		}
	}
}
