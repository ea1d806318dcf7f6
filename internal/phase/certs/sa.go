package certs

import (
	"context"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// serviceAccountPhase generates the key pair that signs service account tokens.
var serviceAccountPhase = engine.Phase{
	Name:  "sa",
	Short: "Generate the key pair that signs and verifies service account tokens",
	Flags: certFlags,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		keyFile, pubFile := n.Paths.Certificate(pki.ServiceAccountKey),
			n.Paths.Certificate(pki.ServiceAccountPublicKey)
		if err := certstore.CheckServiceAccountKeys(ctx, e.World, n); err != nil {
			return err
		}
		old, err := state.ReadOptional(ctx, e.World, keyFile)
		if err != nil {
			return err
		}
		if old != nil {
			e.Say("using the existing %q key pair", "sa")
			public, err := state.ReadOptional(ctx, e.World, pubFile)
			if err != nil || public != nil {
				return err
			}
			return writePublicKey(ctx, e, pubFile, old)
		}
		if external, err := certstore.HasExternalClusterCA(ctx, e.World, n.Paths); err != nil ||
			external {
			e.Say("no service account keys are generated for an external CA: provide %s and %s",
				keyFile, pubFile)
			return err
		}
		if public, err := state.ReadOptional(ctx, e.World, pubFile); err != nil || public != nil {
			e.Say("using the existing %s: another program signs service account tokens", pubFile)
			return err
		}
		key, err := e.Keys(pki.Later)
		if err != nil {
			return err
		}
		text, err := pki.EncodeKey(key)
		if err != nil {
			return err
		}
		e.Say("generating the %q key pair", "sa")
		if err := e.Do(ctx, change.WriteFile{Path: keyFile, Data: text, Mode: 0o600,
			Secret: true}); err != nil {
			return err
		}
		return writePublicKey(ctx, e, pubFile, text)
	},
}

func writePublicKey(ctx context.Context, e *engine.Env, path string, key []byte) error {
	signer, err := pki.ParseKey(key)
	if err != nil {
		return err
	}
	public, err := pki.EncodePublicKey(signer.Public())
	if err != nil {
		return err
	}
	return e.Do(ctx, change.WriteFile{Path: path, Data: public, Mode: 0o600})
}
