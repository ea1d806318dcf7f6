package kubelet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Rebootstrap gets the kubelet of an existing node a new client certificate by TLS bootstrap, with
// the token of Discovery and with the server and the CA of kubelet.conf, or of the bootstrap
// kubeconfig of a run that was killed. A certificate that is still valid is kept until the new one is
// issued. Without a token it signs the certificate with the CA on this machine.
var Rebootstrap = engine.Phase{
	Name:  "kubelet",
	Short: "Replace the kubelet's client certificate",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if n.Discovery.TLSBootstrapToken == "" {
			return localkubelet.ReplaceClientCert(ctx, e, n)
		}
		c, err := localkubelet.ReadClientCert(ctx, e.World, n.Paths)
		if err != nil {
			return err
		}
		source := n.Paths.KubeletKubeconfig()
		var config *pki.Kubeconfig
		if c == nil {
			source = n.Paths.BootstrapKubeconfig()
			config, err = readBootstrapKubeconfig(ctx, e, n)
		} else {
			config, err = c.Config, c.CheckManaged()
		}
		if err != nil {
			return err
		}
		own := *n
		own.BootstrapKubeconfig, err = newTokenKubeconfig(source, config,
			n.Discovery.TLSBootstrapToken)
		if err != nil {
			return err
		}
		if err := checkToken(ctx, e, &own); err != nil {
			return err
		}
		if c == nil || c.CheckUsable() != nil || pki.CheckPeriod(c.Certificate, e.World.Now()) != nil {
			return rebootstrap(ctx, e, &own, c)
		}
		return replaceValid(ctx, e, &own, c)
	},
}

// replaceValid replaces a certificate that is valid once the cluster has issued another one: the request may have to
// be approved, or be refused, and until then the kubelet needs what it has.
func replaceValid(ctx context.Context, e *engine.Env, n *node.Node, c *localkubelet.ClientCert) error {
	err := localkubelet.CheckService(ctx, e.World)
	if localkubelet.IsUnmanaged(err) {
		return problem.During("restarting the kubelet", err, "restart it yourself once it has rotated its certificate")
	}
	if err != nil {
		return err
	}
	left, err := state.ReadOptional(ctx, e.World, n.Paths.BootstrapKubeconfig())
	if err != nil {
		return err
	}
	if bytes.Equal(left, n.BootstrapKubeconfig) {
		return awaitClient(ctx, e, n) // of a run that was killed, and has got the certificate
	}
	p, err := c.Request(ctx, e, localkubelet.RequestOptions{Name: "kubelet-client-" + cmp.Or(c.NodeName(ctx, e.World), n.Name),
		As: state.Identity{Config: n.BootstrapKubeconfig}, Timeout: n.Timeouts.TLSBootstrap})
	if err != nil {
		return err
	}
	e.Say("the certificate is issued; restarting the kubelet")
	if err := c.Use(ctx, e, p); err != nil {
		return err
	}
	return awaitClient(ctx, e, n)
}

// readBootstrapKubeconfig reads what a run that was killed after it had removed kubelet.conf has left.
func readBootstrapKubeconfig(ctx context.Context, e *engine.Env,
	n *node.Node) (*pki.Kubeconfig, error) {
	const remedy = "join this machine again: kubeadm reset, then kubeadm join"
	file := n.Paths.BootstrapKubeconfig()
	data, err := state.ReadOptional(ctx, e.World, file)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, problem.New(fmt.Errorf("%s does not exist", n.Paths.KubeletKubeconfig()), remedy)
	}
	config, err := pki.ParseKubeconfig(data)
	if err == nil {
		_, err = config.CurrentCluster()
	}
	if err != nil {
		return nil, problem.During("reading "+file, err, remedy)
	}
	config.ResolvePaths(path.Dir(file))
	return config, nil
}

// newTokenKubeconfig returns the kubeconfig in the file with the token as its credentials.
func newTokenKubeconfig(file string, from *pki.Kubeconfig, token string) ([]byte, error) {
	cluster, err := from.CurrentCluster()
	if err != nil {
		return nil, err
	}
	config, err := pki.NewBootstrapKubeconfig(cluster, token)
	if err != nil {
		return nil, problem.New(fmt.Errorf("%s: %w", file, err),
			"set its cluster's certificate-authority-data to the cluster's CA, base64-encoded")
	}
	return config.Encode()
}

// tokenTimeout is how long the API server may take to accept a token. A new one is known to all API
// servers within seconds.
const tokenTimeout = 30 * time.Second

// checkToken checks that the API server of kubelet.conf answers and accepts the token, before
// anything is changed.
func checkToken(ctx context.Context, e *engine.Env, n *node.Node) error {
	config, err := pki.ParseKubeconfig(n.BootstrapKubeconfig)
	if err != nil {
		return err
	}
	endpoint, err := config.Endpoint()
	if err != nil {
		return err
	}
	e.Say("checking the token at https://%s", endpoint)
	ref := state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-system",
		Name: manifest.KubeletConfigMap, As: state.Identity{Config: n.BootstrapKubeconfig}}
	err = e.Await(ctx, world.Condition{
		Name: "the API server to accept the token", Timeout: tokenTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err := r.Object(ctx, ref)
			if apierrors.IsForbidden(err) {
				return nil // it is accepted, and may request a certificate
			}
			return err
		},
	})
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case apierrors.IsUnauthorized(err):
		return problem.New(fmt.Errorf("the API server at https://%s does not accept the token: %w",
			endpoint, err), "create another one on a control plane node: kubeadm token create")
	}
	return problem.New(errors.Join(err, certstore.CheckClock(ctx, e.World, endpoint)),
		"check whether the API server is reachable from this machine: curl -k https://"+endpoint+
			"/livez")
}

// rebootstrap makes the kubelet request a certificate in place of c, which is nil if a run that was
// killed has removed it. While the kubelet is stopped, the bootstrap kubeconfig is there and the file
// with the certificate is gone: a kubelet uses a certificate that it finds. Without a service that can
// be stopped, nothing is changed.
func rebootstrap(ctx context.Context, e *engine.Env, n *node.Node, c *localkubelet.ClientCert) error {
	err := localkubelet.CheckService(ctx, e.World)
	if localkubelet.IsUnmanaged(err) {
		return problem.During("stopping the kubelet", err,
			"join this machine again: kubeadm reset, then kubeadm join")
	}
	if err != nil {
		return err
	}
	// The kubelet writes another kubelet.conf if the certificate is embedded in it.
	old := n.Paths.KubeletKubeconfig()
	if c != nil {
		old = cmp.Or(c.File, old)
		if err := c.UseFile(ctx, e); err != nil {
			return err
		}
	}
	if err := e.Do(ctx, change.WriteFile{Path: n.Paths.BootstrapKubeconfig(),
		Data: n.BootstrapKubeconfig, Mode: 0o600, Secret: true}); err != nil {
		return err
	}
	// An interrupt does not leave the node without a kubelet: its Pods would be evicted.
	whole := context.WithoutCancel(ctx)
	if err := localkubelet.Stop(whole, e); err != nil {
		return err
	}
	e.Say("removing %q, the old certificate", old)
	err = e.Do(whole, change.Remove{Path: old})
	if err = errors.Join(err, localkubelet.Start(whole, e, n.Paths.BootstrapKubeconfig())); err != nil {
		return err
	}
	return awaitClient(ctx, e, n)
}

// awaitClient waits until the kubelet runs and has a certificate, and removes the token.
func awaitClient(ctx context.Context, e *engine.Env, n *node.Node) error {
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
		return health.WithKubeletHints(n.Platform, err)
	}
	condition, err := withRequestState(ctx, e, n, newClientCondition(n))
	if err != nil {
		return err
	}
	if err := e.Await(ctx, condition); err != nil {
		return problem.New(err, "check the kubelet's log: "+n.Platform.LogHint("kubelet"),
			"check whether its certificate signing request is pending: kubectl get csr; kubectl certificate approve <name>",
			"then re-run the command")
	}
	if err := e.Do(ctx, change.Remove{Path: n.Paths.BootstrapKubeconfig()}); err != nil {
		return err
	}
	return reportNode(ctx, e, n)
}

// newClientCondition is met once the kubelet has a certificate with which it can log in.
func newClientCondition(n *node.Node) world.Condition {
	return world.Condition{
		Name: "the cluster to issue the kubelet's client certificate", Timeout: n.Timeouts.TLSBootstrap,
		Check: func(ctx context.Context, r state.Reader) error {
			c, err := localkubelet.ReadClientCert(ctx, r, n.Paths)
			if err == nil && c == nil {
				err = fmt.Errorf("%s does not exist yet", n.Paths.KubeletKubeconfig())
			}
			if err != nil {
				return err
			}
			return c.Check(nil, r.Now())
		},
	}
}

// reportNode waits until the Node is Ready, and says when the new certificate expires. That the Node
// is not Ready is a warning: it may have other causes.
func reportNode(ctx context.Context, e *engine.Env, n *node.Node) error {
	c, err := localkubelet.ReadClientCert(ctx, e.World, n.Paths)
	if err != nil || c == nil || c.Certificate == nil {
		return err
	}
	e.Say("the kubelet uses %s: serial number %x, expires %s", cmp.Or(c.File, c.Path), c.Certificate.SerialNumber,
		c.Certificate.NotAfter.UTC().Format(time.RFC3339))
	name := c.NodeName(ctx, e.World)
	err = e.Await(ctx, world.Condition{
		Name: "Node " + name + " to be Ready", Timeout: n.Timeouts.Kubelet,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name,
				As: state.Identity{Kubeconfig: n.Paths.KubeletKubeconfig()}})
			if err != nil {
				return err
			}
			var own corev1.Node
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object,
				&own); err != nil {
				return err
			}
			for _, c := range own.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return fmt.Errorf("it is not Ready: %s", c.Message)
				}
			}
			return nil
		},
	})
	if err != nil && ctx.Err() == nil {
		e.Warn("Node %s is not Ready yet: %v", name, err)
		return nil
	}
	return err
}
