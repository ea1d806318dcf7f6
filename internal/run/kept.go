package run

import (
	"context"
	"crypto"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/world/journal"
)

// once returns the function that keeps random values for a re-run. A single phase generates new
// values each time, as its user expects; so does a command without a journal.
func (r *Run) once() func(context.Context, string, func() (string, error)) (string, error) {
	switch {
	case r.journal == nil || !r.IsWhole():
		return func(_ context.Context, _ string, generate func() (string, error)) (string, error) {
			return generate()
		}
	case r.journal.Finished:
		return r.journal.Kept
	}
	return r.journal.Once
}

// versionPrefix precedes a label in the name of the kept version that it stood for.
const versionPrefix = "kubernetes-version/"

// keptVersion returns the version that the label stood for when this command first ran, or else
// the current one.
func (r *Run) keptVersion(label, current string) (string, error) {
	kept, ok, err := journal.LastValue(r.past, r.command.Name, versionPrefix+label)
	if err != nil || !ok || kept == current {
		return current, err
	}
	r.notes = append(r.notes,
		fmt.Sprintf("%s is now %s; continuing with %s", label, current, kept))
	return kept, nil
}

// KeepValues returns the intent with random values that a re-run uses again: those of the
// interrupted run of this command, so that tokens and keys that were shown already stay valid, or
// new ones, which it writes to the journal.
func (r *Run) KeepValues(ctx context.Context, n *node.Node) (*node.Node, error) {
	for _, note := range r.notes {
		r.Emit(engine.Info, note)
	}
	once, reused := r.once(), *n
	if n.Cluster.VersionLabel != "" {
		current := func() (string, error) { return n.Cluster.Version, nil }
		if _, err := once(ctx, versionPrefix+n.Cluster.VersionLabel, current); err != nil {
			return nil, fmt.Errorf("saving the Kubernetes version: %w", err)
		}
	}
	reused.Tokens = slices.Clone(n.Tokens)
	for i := range reused.Tokens {
		if err := r.reuseToken(ctx, &reused.Tokens[i],
			fmt.Sprintf("bootstrap-token/%d", i)); err != nil {
			return nil, err
		}
	}
	if !n.UploadCerts || n.CertificateKey != "" {
		return &reused, nil
	}
	var err error
	reused.CertificateKey, err = once(ctx, "certificate-key", func() (string, error) {
		key, err := pki.NewCertificateKey(r.host.Random("certificate-key"))
		return key.Hex(), err
	})
	return &reused, err
}

func (r *Run) reuseToken(ctx context.Context, t *node.BootstrapToken, name string) error {
	once := r.once()
	if t.Random {
		text, err := once(ctx, name, func() (string, error) { return t.String(), nil })
		if err == nil {
			t.ID, t.Secret, err = node.ParseToken(text)
		}
		if err != nil {
			return fmt.Errorf("saving the bootstrap token: %w", err)
		}
	}
	if t.TTL <= 0 || !t.Expires.IsZero() {
		return nil
	}
	now := r.world.Now()
	// The expiration belongs to this token with this TTL: a re-run with other ones gets another.
	token, err := hashSettings(t.String())
	if err != nil {
		return err
	}
	text, err := once(ctx, fmt.Sprintf("%s/expires/%s/%s", name, token, t.TTL),
		func() (string, error) {
			return now.Add(t.TTL).UTC().Format(time.RFC3339), nil
		})
	if err != nil {
		return fmt.Errorf("saving the expiration of the bootstrap token: %w", err)
	}
	// A run that is resumed much later must not create a token that has expired.
	if end, err := time.Parse(time.RFC3339, text); err == nil && end.After(now) {
		t.Expires = end
	}
	return nil
}

// Keys returns a function that generates private keys of the cluster's algorithm. Those that the
// run is going to need are generated ahead of need, in the background.
func (r *Run) Keys(ctx context.Context, n *node.Node) func(pki.Need) (crypto.Signer, error) {
	local, _ := node.HasLocalEtcd(n)
	missing, first := 0, 0
	for _, f := range phaseindex.Files(n.Local, n.IsJoining()) {
		hasKey := f.Kind == phaseindex.PrivateKey || f.Kind == phaseindex.Kubeconfig
		if !hasKey || f.Shared && n.IsJoining() || f.LocalEtcd && !local || !r.Runs(f.Phase) {
			continue
		}
		if _, err := r.host.World.Stat(ctx, f.Path); err != nil {
			missing++
			if f.Need == pki.First {
				first++
			}
		}
	}
	return pki.NewKeyPool(ctx, r.host.NewKey, n.Cluster.Algorithm, missing, first).Key
}
