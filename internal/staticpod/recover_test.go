package staticpod_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// downAPI is a machine whose API server answers only if the manifests of etcd and of itself are
// good.
type downAPI struct{ *fake.World }

func (d *downAPI) Livez(context.Context, state.Identity) error {
	for _, component := range []string{etcdComponent, apiserver} {
		if strings.Contains(string(d.Files["/etc/kubernetes/manifests/"+component+".yaml"].Data),
			"--bad") {
			return errors.New("connection refused")
		}
	}
	return nil
}

// Members are answered by an etcd with a good manifest.
func (d *downAPI) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	manifest := d.Files["/etc/kubernetes/manifests/"+etcdComponent+".yaml"].Data
	if strings.Contains(string(manifest), "--bad") {
		return nil, errors.New("connection refused")
	}
	return d.World.Members(ctx, via)
}

func (d *downAPI) Await(ctx context.Context, c world.Condition) error {
	var last error
	for range 3 {
		if last = c.Check(ctx, d); last == nil {
			return nil
		}
	}
	return fmt.Errorf("waiting for %s: %w", c.Name, last)
}

// A run that is killed while a bad manifest is on disk leaves an API server that does not answer.
// Recover restores what the run has recorded. It changes nothing if the API server answers.
func TestRecoverRestoresAPIServer(t *testing.T) {
	for _, component := range []string{etcdComponent, apiserver, scheduler} {
		t.Run(component, func(t *testing.T) {
			recovered := 0
			for at := 0; ; at++ {
				w := newMachine(t)
				killed := &fault.World{World: w, At: at, After: true, Crash: true}
				if _, crashed := runUntilCrash(t, killed,
					withArgument(newManifests("v2"), component, "v2", "--bad")); !crashed {
					break
				}
				d := &downAPI{World: w}
				down := d.Livez(t.Context(), state.Identity{}) != nil
				before := w.Snapshot()
				r := newReplacement()
				e := engine.New(engine.Env{World: d, Emit: func(engine.Event) {}})
				if err := r.Recover(t.Context(), e); err != nil {
					t.Errorf("killed after change %d: %v", at, err)
				}
				if err := d.Livez(t.Context(), state.Identity{}); err != nil {
					t.Errorf("killed after change %d: the API server does not answer", at)
				}
				if down {
					recovered++
				} else if after := w.Snapshot(); after != before {
					t.Errorf("killed after change %d: the API server answered, and changed was:\n%s",
						at, after)
				}
			}
			if (recovered > 0) != (component != scheduler) {
				t.Errorf("%d kills left an API server that did not answer", recovered)
			}
		})
	}
}
