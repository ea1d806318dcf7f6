package laws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// A worker follows: its kubelet gets the endpoint and is restarted. Wherever that is killed, the same command
// completes it; whatever fails, the kubelet has its kubeconfig from before, or the same command goes on.
func TestWorkerFollowsEndpoint(t *testing.T) {
	s := followEndpoint()
	file := node.DefaultPaths().KubeletKubeconfig()
	before := s.machine(t)
	if !strings.Contains(string(before.Files[file].Data), bareURL) {
		t.Fatalf("the kubelet connects to another server:\n%s", before.Files[file].Data)
	}
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	moved := slices.IndexFunc(whole.did, func(c change.Change) bool { return c.Target() == change.FileTarget(file) })
	if moved < 0 {
		t.Fatal("the kubelet keeps its kubeconfig")
	}
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		again := r.rerun()
		again.mustSucceed(t)
		if now := string(again.machine.Files[file].Data); !strings.Contains(now, newEndpoint) {
			t.Errorf("the kubelet connects to:\n%s", now)
		}
		if started := again.machine.Services["kubelet"].Since; started.Before(again.machine.Files[file].ModTime) {
			t.Error("the kubelet is older than its kubeconfig")
		}
	})
	failing := s.newRun(s.machine(t))
	failing.fault = &fault.World{At: slices.IndexFunc(whole.did, func(c change.Change) bool {
		return c.Target() == "service:kubelet"
	})}
	if out := failing.execute(t); out.err == nil || !strings.Contains(out.err.Error(), "run as before") {
		t.Errorf("the command ended with: %v", out.err)
	}
	if now := string(failing.machine.Files[file].Data); !strings.Contains(now, bareURL) {
		t.Errorf("the kubelet connects to:\n%s", now)
	}
}

// A worker whose kubelet connects to an endpoint that is gone asks another API server. Wherever that is killed, the
// same command completes it.
func TestWorkerFollowsByAnotherServer(t *testing.T) {
	file := node.DefaultPaths().KubeletKubeconfig()
	find := func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		here.As.Server = bareURL
		w, err := reconfiguration.FindFollow(ctx, e, here)
		return w.Wanted, err
	}
	s := followEndpoint().with(find)
	s.name = "endpoint follow"
	newMachine := s.machine
	s.machine = func(t testing.TB) *fake.World {
		w := newMachine(t)
		f := w.Files[file]
		f.Data = []byte(strings.ReplaceAll(string(f.Data), bareURL, "https://gone.example.com:6443"))
		w.Files[file] = f
		return w
	}
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		done := tryFind(t, r.machine, func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
			w, err := reconfiguration.FindFollow(ctx, e, here)
			if err == nil && !w.Done {
				err = errors.New("it is not done")
			}
			return w.Wanted, err
		})
		if done != nil {
			r.rerun().mustSucceed(t)
		}
		if now := string(r.machine.Files[file].Data); !strings.Contains(now, newEndpoint) {
			t.Errorf("the kubelet connects to:\n%s", now)
		}
		if r.machine.Services["kubelet"].Since.Before(r.machine.Files[file].ModTime) {
			t.Error("the kubelet is older than its kubeconfig")
		}
	})
}

// A worker that reaches no API server learns by which command it follows to another endpoint.
func TestWorkerWithoutEndpointLearnsToFollow(t *testing.T) {
	w := followEndpoint().machine(t)
	w.RemoteAPIServer = false
	for name, find := range map[string]findChange{
		"reconfigure node": func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
			return reconfiguration.FindStored(ctx, e, here, nil)
		},
		"endpoint follow": func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
			w, err := reconfiguration.FindFollow(ctx, e, here)
			return w.Wanted, err
		},
	} {
		err := tryFind(t, w, find)
		if hints := strings.Join(problem.Hints(err), "\n"); !strings.Contains(hints, "kubeadm endpoint follow HOST[:PORT]") {
			t.Errorf("%s: %v, with the hints:\n%s", name, err, hints)
		}
	}
}
