package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/health"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// WaitBootstrap waits until the kubelet has traded its bootstrap credential for one of its
// own, and takes the bootstrap credential away.
var WaitBootstrap = flow.Phase{
	Name:  "kubelet-wait-bootstrap",
	Short: "Wait until the kubelet has its own certificate",
	Long:  "Wait until the kubelet runs and the cluster has given it a certificate of its own, then remove the bootstrap credential.",
	Flags: []flag.Name{flag.Config, flag.CRISocket, flag.DryRun},
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		err = health.WaitCheckingFiles(ctx, e, n, nil, func() error {
			if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
				return health.WithKubeletHints(err)
			}
			return waitForLocalAPIServer(ctx, e, n)
		})
		if err != nil {
			return err
		}
		own, err := withRequestState(ctx, e, n, newCertificateCondition(n))
		if err != nil {
			return err
		}
		if err := e.Await(ctx, own); err != nil {
			return problem.New("", err,
				"see what the kubelet says: journalctl -xeu kubelet",
				"see whether its certificate request waits for approval: kubectl get csr; kubectl certificate approve <name>")
		}
		return e.Do(ctx, change.Remove{Path: n.Paths.BootstrapKubeconfig()})
	},
}

// waitForLocalAPIServer waits for the API server beside the kubelet of a control plane, as that is where it asks for its certificate.
func waitForLocalAPIServer(ctx context.Context, e *flow.Env, n *node.Node) error {
	if n.Role != node.ControlPlane {
		return nil
	}
	before := newCertificateCondition(n).Check(ctx, e.World) == nil // by an earlier run
	as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"), Server: n.LocalServer()}
	if err := e.Await(ctx, health.APIServer(n, as)); err != nil {
		return health.WithComponentHints(n, err)
	}
	if before {
		return nil
	}
	if s, err := e.World.Service(ctx, service); errors.Is(err, state.ErrNoInitSystem) || err == nil && !s.Exists {
		return nil // it is not ours to start, and asks again by itself, if later
	}
	// A kubelet whose first questions found no API server, or one that knew nobody's rights yet, waits longer each time: up to 16
	// seconds to ask for its certificate, up to seven to register.
	e.Say("starting the kubelet anew, so that it asks for its certificate and registers at once")
	return e.Do(ctx, change.SetService{Name: service}, change.SetService{Name: service, Active: true})
}

// newCertificateCondition holds once the kubelet's own kubeconfig is there with all that it refers to.
func newCertificateCondition(n *node.Node) world.Condition {
	file := n.Paths.KubeletKubeconfig()
	return world.Condition{
		Name:    "the cluster to give the kubelet its own certificate",
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
			return config.Embed(func(path string) ([]byte, error) { return r.ReadFile(ctx, path) })
		},
	}
}
