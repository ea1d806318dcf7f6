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

// renewSubject renews all certificates in each run, so not every law applies to it.
var renewSubject = subject{name: "renew", phases: workflow.Renew, machine: initializedMachine,
	setUp: setUpInit, node: "cp1"}

// Wherever a renewal is killed, each key matches its certificate, and the same command goes on.
func TestRenewalResumesAtEveryCrashPoint(t *testing.T) {
	whole := renewSubject.newRun(renewSubject.machine(t))
	out := whole.mustSucceed(t)
	if got := listMismatchedKeys(t, whole.machine); len(got) > 0 {
		t.Fatalf("keys that do not match their certificates: %v", got)
	}
	if len(out.did) != 11 { // seven pairs and four kubeconfigs
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
			if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
				t.Errorf("keys that do not match their certificates: %v", got)
			}
			r.rerun().mustSucceed(t)
			if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
				t.Errorf("after the same command these keys do not match: %v", got)
			}
		})
	})
}

// After an interrupted renewal all keys match their certificates.
func TestInterruptedRenewalKeepsKeyPairs(t *testing.T) {
	n := len(renewSubject.newRun(renewSubject.machine(t)).mustSucceed(t).did)
	for at := 1; at < n; at++ {
		r := renewSubject.newRun(renewSubject.machine(t))
		r.stop = at
		if out := r.execute(t); !errors.Is(out.err, errInterrupted) {
			t.Errorf("interrupted at change %d, the run returns: %v", at, out.err)
		}
		if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
			t.Errorf("stopped at change %d: %v", at, got)
		}
	}
}

// listMismatchedKeys lists the certificates whose key does not match.
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
		matches := pki.IsKeyOf(key, cert.PublicKey)
		if err := certstore.CheckRenewableKey(ctx, w, paths, c); matches != (err == nil) {
			t.Errorf("%s: the key matches: %v, but the check returns: %v", c.Name, matches, err)
		}
		if !matches {
			names = append(names, c.Name)
		}
	}
	return names
}
