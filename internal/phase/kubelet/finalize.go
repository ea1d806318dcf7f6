package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/pki"
)

// Finalize makes the first control plane's kubelet use its rotated client certificate.
var Finalize = engine.Phase{
	Name:  "kubelet-finalize",
	Short: "Switch the kubelet to its auto-rotated client certificate",
	Long:  "Point kubelet.conf at the client certificate file that the kubelet rotates, and restart the kubelet.",
	Phases: []engine.Phase{{
		Name:  "enable-client-cert-rotation",
		Short: "Point the kubelet at its auto-rotated client certificate",
		Flags: FinalizeFlags,
		Run:   useRotatedCertificate,
	}},
}

// FinalizeFlags are the flags of Finalize and its children.
var FinalizeFlags = []flag.Name{flag.CertDir, flag.Config, flag.DryRun}

func useRotatedCertificate(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	pem := n.KubeletClientCertificate()
	if _, err := e.World.Stat(ctx, pem); errors.Is(err, fs.ErrNotExist) {
		return nil // the user has disabled rotation
	} else if err != nil {
		return err
	}
	file := n.Paths.Kubeconfig("kubelet.conf")
	old, err := e.World.ReadFile(ctx, file)
	if err != nil {
		return err
	}
	config, err := pki.ParseKubeconfig(old)
	if err == nil {
		err = config.UseRotatedCertificate(pem)
	}
	if err != nil {
		return fmt.Errorf("switching %s to the rotated client certificate: %w", file, err)
	}
	data, err := config.Encode()
	if err != nil {
		return err
	}
	e.Say("switching %q to the client certificate that the kubelet rotates", file)
	if err := e.Do(ctx, change.WriteFile{Path: file, Data: data, Mode: 0o600,
		Secret: true}); err != nil {
		return err
	}
	return localkubelet.Start(ctx, e, file)
}
