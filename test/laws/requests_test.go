package laws

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/config"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/node"
	"kubeadm/internal/rotation"
	"kubeadm/internal/snapshots"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// requestCounter counts what a run asks of an API server and of etcd. How often a wait checks depends on the machine:
// of a wait, the last check counts. The lock of the cluster is not counted, which is renewed now and then.
type requestCounter struct {
	world.World
	mu     sync.Mutex
	counts map[string]int
	all    map[string]int // with each check of a wait
}

func (w *requestCounter) count(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts, w.all = map[string]int{}, map[string]int{}
	}
	what := fmt.Sprintf(format, args...)
	w.counts[what]++
	w.all[what]++
}

func (w *requestCounter) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if ref.Name != clusterlock.LeaseName {
		w.count("get %s", ref.GVK.Kind)
	}
	return w.World.Object(ctx, ref)
}

func (w *requestCounter) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	isOfLock := q.GVK.Kind == "EndpointSlice" || q.LabelSelector == node.ControlPlaneLabel && q.Fields == nil
	switch {
	case q.LabelSelector+q.FieldSelector+q.Namespace == "" && q.Limit == 0:
		w.count("list all %s", q.GVK.Kind)
	case !isOfLock:
		w.count("list %s", q.GVK.Kind)
	}
	return w.World.List(ctx, q)
}

func (w *requestCounter) TryCreate(ctx context.Context, object state.Object, as state.Identity) error {
	w.count("try to create %s", object.GetObjectKind().GroupVersionKind().Kind)
	return w.World.TryCreate(ctx, object, as)
}

func (w *requestCounter) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	w.count("list members of etcd")
	return w.World.Members(ctx, via)
}

func (w *requestCounter) Do(ctx context.Context, c change.Change) error {
	if kind, ok := strings.CutPrefix(c.Target(), "object:"); ok && c.Target() != clusterLock {
		kind, _, _ = strings.Cut(kind, ":")
		kind, _, _ = strings.Cut(kind, ".")
		w.count("%s of %s", strings.TrimPrefix(fmt.Sprintf("%T", c), "change."), kind)
	}
	return w.World.Do(ctx, c)
}

func (w *requestCounter) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	var last *requestCounter
	c.Check = func(ctx context.Context, _ state.Reader) error {
		last = &requestCounter{World: w.World}
		err := check(ctx, last)
		w.mu.Lock()
		defer w.mu.Unlock()
		for what, n := range last.counts {
			if w.counts == nil {
				w.counts, w.all = map[string]int{}, map[string]int{}
			}
			w.all[what] += n
		}
		return err
	}
	err := w.World.Await(ctx, c)
	if last != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		for what, n := range last.counts {
			w.counts[what] += n
		}
	}
	return err
}

// countedRuns are the commands that test/scale runs on nodes only, as they need a container runtime, a kubelet or members of etcd.
func countedRuns(t *testing.T) map[string]run {
	runs := map[string]run{}
	for _, s := range []subject{findSubject("join"), findSubject("join a control plane"),
		findSubject("reset one of three control planes"), findSubject("upgrade apply"), findSubject("upgrade node of a control plane"),
		approveSubject(), reconfigure(changedConfig), changeEndpoint(newEndpoint), changeAddress(newMovingMachine, newAddress),
		restoreSubject(etcddata.Options{}), rejoinSubject(), recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}}),
		saveSubject(snapshots.Options{}), defragSubject()} {
		runs[s.name] = s.newRun(s.machine(t))
	}
	for name, commands := range rotationSteps() {
		w, last := newRotatingMachine(t), len(commands)-1
		rotate(t, w, commands[:last]...)
		runs["certs rotate-ca "+name] = rotateCA(commands[last], rotation.Options{}).newRun(w)
		if name == "sign" { // the same on the next node
			again := newRotatingMachine(t)
			rotate(t, again, commands...)
			runs["certs rotate-ca sign, once the stage has begun"] = rotateCA(commands[last], rotation.Options{}).newRun(again)
		}
	}
	s := reconfigure(changedConfig)
	for name, next := range map[string]subject{"reconfigure undo": undoReconfigure(s),
		"reconfigure node": reconfigureNode(config.KubeletArgs{})} {
		w := s.machine(t)
		s.newRun(w).mustSucceed(t)
		runs[name] = next.newRun(w)
	}
	return runs
}

const requestsFile = "testdata/requests.txt"

// No command asks more of an API server than testdata/requests.txt says. In "list all", the number of objects grows with the
// cluster.
func TestRequestsOfCommands(t *testing.T) {
	runs := countedRuns(t)
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		r, counted := runs[name], &requestCounter{}
		r.observe = func(w world.World) world.World { counted.World = w; return counted }
		r.mustSucceed(t)
		fmt.Fprintln(&got, name)
		for _, what := range slices.Sorted(maps.Keys(counted.counts)) {
			fmt.Fprintf(&got, "    %3d %s\n", counted.counts[what], what)
		}
	}
	if *update {
		if err := os.WriteFile(requestsFile, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(requestsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffLines(string(want), got.String()); diff != "" {
		t.Errorf("the requests differ (-allowed +run); if the run is right: go test ./test/laws -run Requests -update\n%s", diff)
	}
}
