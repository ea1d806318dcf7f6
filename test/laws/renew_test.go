package laws

import (
	"context"
	"errors"
	"testing"

	"kubeadm/internal/certstore"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// renewSubject is a command that does all anew each time it is given, so that not every law is one for it.
var renewSubject = subject{name: "renew", phases: workflow.Renew, machine: initializedMachine, setUp: setUpInit, node: "cp1"}

// Wherever a renewal is killed, all that was renewed before is whole, and the same command makes the rest so.
func TestRenewalResumesAtEveryCrashPoint(t *testing.T) {
	whole := renewSubject.newRun(renewSubject.machine(t))
	out := whole.mustSucceed(t)
	if got := listMismatchedKeys(t, whole.machine); len(got) > 0 {
		t.Fatalf("keys and certificates that do not fit: %v", got)
	}
	if len(out.did) != 18 { // seven pairs and four kubeconfigs
		t.Fatalf("did %v", describeChanges(out.did))
	}
	forEachFault(len(out.did), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			t.Parallel()
			at.Crash = true
			r := renewSubject.newRun(renewSubject.machine(t))
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			if got := listMismatchedKeys(t, r.machine); len(got) > 1 {
				t.Errorf("more is broken than what was in hand: %v", got)
			}
			r.rerun().mustSucceed(t)
			if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
				t.Errorf("still broken after the same command: %v", got)
			}
		})
	})
}

// A user who interrupts a renewal has no certificate without its key.
func TestInterruptedRenewalKeepsKeyPairs(t *testing.T) {
	n := len(renewSubject.newRun(renewSubject.machine(t)).mustSucceed(t).did)
	for at := 1; at < n; at++ {
		r := renewSubject.newRun(renewSubject.machine(t))
		r.stop = at
		if out := r.execute(t); !errors.Is(out.err, errInterrupted) {
			t.Errorf("stopped at change %d the run says: %v", at, out.err)
		}
		if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
			t.Errorf("stopped at change %d: %v", at, got)
		}
	}
}

// listMismatchedKeys are the certificates whose key is not theirs.
func listMismatchedKeys(t *testing.T, w *fake.World) (names []string) {
	t.Helper()
	ctx, paths := context.Background(), node.DefaultPaths()
	for _, c := range pki.Renewables() {
		cert, err := certstore.ReadRenewable(ctx, w, paths, c)
		if err != nil || cert == nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		text := w.Files[paths.Key(c.Base)].Data
		if c.File != "" {
			config, err := pki.ParseKubeconfig(w.Files[paths.Kubeconfig(c.File)].Data)
			if err != nil {
				t.Fatal(err)
			}
			user, err := config.CurrentUser()
			if err != nil {
				t.Fatal(err)
			}
			text = user.ClientKeyData
		}
		key, err := pki.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		fits := pki.Owns(key, cert)
		if told := certstore.CheckRenewableKey(ctx, w, paths, c); fits != (told == nil) {
			t.Errorf("of %s, whose key fits: %v, a user is told: %v", c.Name, fits, told)
		}
		if !fits {
			names = append(names, c.Name)
		}
	}
	return names
}
