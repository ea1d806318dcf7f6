// Package finished checks a machine on which init or join has finished before. It changes nothing:
// users may have changed what the command created, and a re-run must not revert that.
package finished

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Record is what the journal records of the finished run.
type Record struct {
	Recorded func(target string) bool // reports whether the run created the target
	Skipped  []string                 // phases that the run skipped and that are selected now
}

// Init checks the control plane of a finished init, and waits for its API server.
func Init(run Record) engine.Phase {
	return engine.Phase{
		Name:  "finished",
		Short: "Check the control plane node that a finished init created",
		Run: func(ctx context.Context, e *engine.Env) error {
			as, err := e.Admin(ctx)
			if err != nil {
				return err
			}
			reportFinished(e, "init", run)
			if err := missingFiles(ctx, e, "init", controlPlaneFiles(e.Local), run); err != nil {
				return err
			}
			return awaitRegistration(ctx, e, as)
		},
	}
}

// Join checks the node of a finished join, and waits for its cluster.
func Join(run Record) engine.Phase {
	return engine.Phase{
		Name:  "finished",
		Short: "Check the node that a finished join created",
		Run: func(ctx context.Context, e *engine.Env) error {
			reportFinished(e, "join", run)
			files := []requiredFile{{path: e.Local.Paths.KubeletKubeconfig(), made: true},
				{path: e.Local.Paths.KubeletConfig()}, {path: e.Local.CACertPath}}
			if e.Local.Role == node.ControlPlane {
				files = append(files, controlPlaneFiles(e.Local)...)
			}
			if err := missingFiles(ctx, e, "join", files, run); err != nil {
				return err
			}
			if err := sameCluster(ctx, e); err != nil {
				return err
			}
			return awaitRegistration(ctx, e,
				state.Identity{Kubeconfig: e.Local.Paths.KubeletKubeconfig()})
		},
	}
}

func reportFinished(e *engine.Env, command string, run Record) {
	e.Say("this command has already succeeded on this machine; nothing was changed")
	for _, phase := range run.Skipped {
		e.Warn("the finished run skipped phase %q; to run it: kubeadm %s phase %s", phase, command,
			strings.ReplaceAll(phase, "/", " "))
	}
}

// startup is how long an API server that has just started may reject users and their permissions,
// and a kubelet that has just started may take to register its Node.
const startup = 15 * time.Second

// awaitRegistration waits until the API server reports whether the cluster has this machine's
// Node.
func awaitRegistration(ctx context.Context, e *engine.Env, as state.Identity) error {
	ref := state.Ref{GVK: state.NodeKind, Name: e.Local.Name, As: as}
	var absent, refused error
	var since time.Time // when the API server first refused
	err := e.Await(ctx, world.Condition{
		Name:     "the API server to answer",
		Timeout:  e.Local.Timeouts.KubernetesAPI,
		External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			_, err := r.Object(ctx, ref)
			switch {
			case apierrors.IsNotFound(err):
				// A kubelet registers its Node a moment after the join that started it has ended.
				kubelet, unknown := r.Service(ctx, localkubelet.Service)
				if unknown == nil && r.Now().Sub(kubelet.Since) < startup {
					return err
				}
				absent = err
				return nil
			case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
				if since.IsZero() {
					since = r.Now()
				}
				if r.Now().Sub(since) < startup {
					return err
				}
				refused = err
				return world.Permanent(err)
			case isUntrusted(err):
				refused = err
				return world.Permanent(err)
			}
			return err
		},
	})
	switch {
	case absent != nil:
		return problem.New(fmt.Errorf("the cluster has no Node %s", e.Local.Name),
			"restart the kubelet, which registers it again: "+
				e.Local.Platform.ServiceCommand("restart", "kubelet"),
			"to remove this machine from its cluster: kubeadm reset")
	case refused != nil:
		return problem.During("reading Node "+e.Local.Name, refused,
			"to remove this machine from its cluster: kubeadm reset")
	case err != nil:
		return problem.During("checking the existing node", err,
			"check whether the API server runs: crictl ps -a --name kube-apiserver",
			"check the kubelet log: "+e.Local.Platform.LogHint("kubelet"),
			"when the API server answers, re-run the command")
	}
	return nil
}

// sameCluster is an error if the arguments name another cluster than the one of this node.
func sameCluster(ctx context.Context, e *engine.Env) error {
	path := e.Local.Paths.KubeletKubeconfig()
	data, err := e.World.ReadFile(ctx, path)
	if err != nil {
		return fmt.Errorf("reading the kubelet's kubeconfig: %w", err)
	}
	own, err := pki.ParseKubeconfig(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	trusted, err := own.EmbeddedCAs()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var pins []string
	for _, ca := range trusted {
		pins = append(pins, pki.PinOf(ca).String())
	}
	j := e.Local.Discovery
	other := problem.New(
		fmt.Errorf("this machine is a node of a different cluster: %s trusts the CA %s",
			path, strings.Join(pins, ", ")),
		"to leave that cluster: run kubeadm reset, then re-run the command")
	shares := func(cas []string) bool {
		return slices.ContainsFunc(cas,
			func(ca string) bool { return slices.Contains(pins, strings.ToLower(ca)) })
	}
	if len(j.CACertHashes) > 0 && !shares(j.CACertHashes) {
		return other
	}
	switch {
	case len(j.CACertHashes) > 0:
		return nil
	case j.File != "":
		cas, err := pinsOfDiscoveryFile(ctx, e, j.File)
		if err == nil && len(cas) > 0 && !shares(cas) {
			return other
		}
		return err
	}
	if server, err := own.Endpoint(); err == nil && server == j.Endpoint {
		return nil
	}
	err = awaitVerifiedServer(ctx, e, pki.EncodeCertificates(trusted...))
	if isUntrusted(err) {
		return other
	}
	return err
}

// awaitVerifiedServer waits until the server at the endpoint to join presents a certificate signed
// by the CA.
func awaitVerifiedServer(ctx context.Context, e *engine.Env, ca []byte) error {
	server := "https://" + e.Local.Discovery.Endpoint
	return e.Await(ctx, world.Condition{
		Name:     "the API server at " + server,
		Timeout:  e.Local.Timeouts.KubernetesAPI,
		External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			_, err := r.ClusterInfo(ctx, server, ca)
			var answer apierrors.APIStatus
			switch {
			case isUntrusted(err), errors.Is(err, state.ErrRedirected):
				return world.Permanent(err)
			case errors.As(err, &answer) && !apierrors.IsServiceUnavailable(err): // it came over a verified connection
				return nil
			}
			return err
		},
	})
}

func isUntrusted(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &untrusted)
}
