package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// WaitBootstrap waits until the kubelet has its own client certificate, and removes the bootstrap
// kubeconfig.
var WaitBootstrap = engine.Phase{
	Name:  "kubelet-wait-bootstrap",
	Short: "Wait until the kubelet has its own certificate",
	Long:  "Wait until the kubelet is running and the cluster has issued its client certificate, then remove the bootstrap kubeconfig.",
	Flags: []flag.Name{flag.Config, flag.CRISocket, flag.DryRun},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		err = health.WaitCheckingFiles(ctx, e, n, health.ExceptManifests(n), func() error {
			if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
				return health.WithKubeletHints(n.Platform, err)
			}
			return waitForLocalAPIServer(ctx, e, n)
		})
		if err != nil {
			return err
		}
		condition, err := withRequestState(ctx, e, n, newCertificateCondition(n))
		if err != nil {
			return err
		}
		if err := e.Await(ctx, condition); err != nil {
			return problem.New(err,
				"check the kubelet's log: "+n.Platform.LogHint("kubelet"),
				"check whether its certificate signing request is pending: kubectl get csr; kubectl certificate approve <name>")
		}
		if err := forgetMachine(ctx, e, n); err != nil {
			return err
		}
		return e.Do(ctx, change.Remove{Path: n.Paths.BootstrapKubeconfig()})
	},
}

// forgetMachine removes what the Node says of the change of the configuration that it has followed, and of half a move or
// rename, if it is that of a machine which this one replaces: this one may use a previous endpoint, by a discovery file. It
// does not read a Node that this machine's kubelet has created.
func forgetMachine(ctx context.Context, e *engine.Env, n *node.Node) error {
	if e.IsNoted(nodeIsNew) {
		return nil
	}
	as := state.Identity{Kubeconfig: n.Paths.KubeletKubeconfig()}
	if exists, err := state.Exists(ctx, e.World, as.Kubeconfig); err != nil || !exists {
		return err
	}
	u, err := e.Object(ctx, state.Ref{GVK: state.NodeKind, Name: n.Name, As: as})
	if apierrors.IsNotFound(err) {
		return nil // the kubelet creates it
	}
	if err != nil {
		return fmt.Errorf("reading Node %s: %w", n.Name, err)
	}
	if forget := reconfiguration.ForgetMachine(u, as); forget != nil {
		return e.Do(ctx, forget)
	}
	return nil
}

// waitForLocalAPIServer waits for the local API server of a control plane, from which its kubelet
// requests the certificate.
func waitForLocalAPIServer(ctx context.Context, e *engine.Env, n *node.Node) error {
	if n.Role != node.ControlPlane {
		return nil
	}
	hasCertificate := newCertificateCondition(n).Check(ctx, e.World) == nil // from an earlier run
	as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"), Server: n.LocalServerURL()}
	if err := e.Await(ctx, health.JoinedAPIServer(n, as)); err != nil {
		return health.WithComponentHints(n, err)
	}
	if hasCertificate {
		return nil
	}
	if localkubelet.IsUnmanaged(localkubelet.CheckService(ctx, e.World)) {
		return nil // it retries by itself
	}
	// If the API server did not answer or did not authorize the kubelet's first requests, the
	// kubelet backs off: up to 16 seconds until it requests its certificate, up to seven until it
	// registers.
	e.Say("restarting the kubelet so that it requests its certificate and registers at once")
	if err := localkubelet.Stop(ctx, e); err != nil {
		return err
	}
	return localkubelet.Start(ctx, e)
}

// newCertificateCondition is met once kubelet.conf exists with all files that it refers to.
func newCertificateCondition(n *node.Node) world.Condition {
	file := n.Paths.KubeletKubeconfig()
	return world.Condition{
		Name:    "the cluster to issue the kubelet's client certificate",
		Timeout: n.Timeouts.TLSBootstrap,
		Check: func(ctx context.Context, r state.Reader) error {
			data, err := r.ReadFile(ctx, file)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s does not exist yet", file)
			}
			if err != nil {
				return err
			}
			config, err := pki.ParseKubeconfig(data)
			if err != nil {
				return err
			}
			return config.EmbedFiles(
				func(path string) ([]byte, error) { return r.ReadFile(ctx, path) })
		},
	}
}
