package laws

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/journal"
)

// killedRun is a run that was killed before or after one of its changes: its machine and its journal
// are as they were then.
type killedRun struct {
	run
	name string          // when the run was killed
	did  []change.Change // the changes that were made until then
	nth  int             // the change at which it was killed, from 0
}

// killPoints copies the machine and the journal before and after each change of a run, which is all
// that a kill at that moment leaves. Changes of parallel phases are made one at a time, so that each
// copy is of one moment.
type killPoints struct {
	world.World // below the journal
	of          run
	made        func() []change.Change // the changes that were made

	mu    sync.Mutex
	nth   int
	waits int  // that have not ended
	acted bool // whether the kubelet may have acted since the last change
	all   []killedRun
}

// Do makes the change between two copies.
func (k *killPoints) Do(ctx context.Context, c change.Change) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.add("before"); err != nil {
		return err
	}
	k.acted = k.waits > 0
	err := k.World.Do(ctx, c)
	if err == nil {
		err = k.add("after")
	}
	k.nth++
	return err
}

// add copies what is there now. Between two changes nothing else than the journal and the Pods of the
// kubelet differ: without those, a kill before the second change leaves what one after the first has
// left.
func (k *killPoints) add(when string) error {
	if testing.Short() && k.nth%shortStep != 0 {
		return nil
	}
	store, err := journal.Copy(k.of.store)
	if err != nil {
		return err
	}
	if n := len(k.all); n > 0 && when == "before" && !k.acted && k.all[n-1].nth == k.nth-1 {
		same, err := equalJournals(k.all[n-1].store, store)
		if same || err != nil {
			return err
		}
	}
	killed := killedRun{run: k.of, did: k.made(), nth: k.nth,
		name: fmt.Sprintf("%s change %d", when, k.nth)}
	killed.machine, killed.store, killed.kills = k.of.machine.Clone(), store, nil
	k.all = append(k.all, killed)
	return nil
}

func equalJournals(a, b *journal.Memory) (bool, error) {
	for _, name := range []string{"journal", "values"} {
		first, err := a.Load(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		second, err := b.Load(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if string(first) != string(second) {
			return false, nil
		}
	}
	return true, nil
}

// Await waits, while the kubelet may act.
func (k *killPoints) Await(ctx context.Context, c world.Condition) error {
	k.kubeletActs(1)
	defer k.kubeletActs(-1)
	return k.World.Await(ctx, c)
}

// Containers lists containers. The simulated kubelet acts when it is called.
func (k *killPoints) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	k.kubeletActs(0)
	return k.World.Containers(ctx, socket)
}

func (k *killPoints) kubeletActs(waits int) {
	k.mu.Lock()
	k.waits += waits
	k.acted = true
	k.mu.Unlock()
}

// killedEverywhere runs the command once, and returns it as killed before and after each of its
// changes; in short tests only some.
func (r run) killedEverywhere(t testing.TB) (outcome, []killedRun) {
	t.Helper()
	r.kills = &killPoints{of: r}
	out := r.mustSucceed(t)
	if len(r.kills.all) == 0 {
		t.Fatalf("%s changes nothing: no kill was tested", r.name)
	}
	return out, r.kills.all
}

// killEverywhere kills the command before and after each of its changes, and tests each killed run.
func (s subject) killEverywhere(t *testing.T, test func(t *testing.T, r killedRun)) {
	t.Helper()
	_, all := s.newRun(s.machine(t)).killedEverywhere(t)
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

// forEachKill is killEverywhere without tests of their own.
func (s subject) forEachKill(t testing.TB, test func(r killedRun)) {
	t.Helper()
	_, all := s.newRun(s.machine(t)).killedEverywhere(t)
	for _, r := range all {
		test(r)
	}
}
