package discovery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// visitor is as whom the configuration of a cluster is read.
type visitor struct {
	as      state.Identity
	name    string // "the bootstrap token"
	reasons string // for which it may be unknown there, in brackets; may be empty
	remedy  string
}

// bearer is whoever has the bootstrap token.
func bearer(bootstrap *pki.Kubeconfig, l node.Local) (visitor, error) {
	text, err := bootstrap.Encode()
	return visitor{
		as:      state.Identity{Config: text},
		name:    "the bootstrap token",
		reasons: fmt.Sprintf(" (deleted, expired, or without usage %q)", bootstrapapi.KnownTokenUsages[1]),
		remedy:  mint(l),
	}, err
}

// mint is the one command that makes all anew with which this machine can join.
func mint(l node.Local) string {
	command := "kubeadm token create --print-join-command"
	if l.CertificateKey != "" {
		command += " --upload-certs"
	}
	return "get a fresh join command on a control plane: " + command
}

// It may take a moment until an API server knows of a new token, and of rights that were just given.
const (
	unknownFor    = 2 * time.Second
	withoutRights = 10 * time.Second
)

// await reads a ConfigMap that must be there.
func (v visitor) await(ctx context.Context, e *flow.Env, name string, into *corev1.ConfigMap) error {
	begun := e.World.Now()
	return await(ctx, e, world.Condition{
		Name:    "ConfigMap " + name + " of namespace kube-system",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			err := configMap(ctx, r, kept(name, v.as), into)
			since := r.Now().Sub(begun)
			switch {
			case apierrors.IsUnauthorized(err) && since >= unknownFor:
				return v.refused(fmt.Errorf("the API server does not accept %s%s: %w", v.name, v.reasons, err))
			case apierrors.IsForbidden(err) && since >= withoutRights:
				return v.refused(fmt.Errorf("%s may not read ConfigMap %s, as those can who are in group %s: %w", v.name, name, joiners, err))
			}
			return err
		},
	})
}

// joiners may read what a cluster keeps for its nodes.
const joiners = "system:bootstrappers:kubeadm:default-node-token"

// refused tells what to do about it; what is said further down is about other commands.
func (v visitor) refused(err error) error {
	p := problem.New("", err, v.remedy)
	p.Alone = true
	return world.GiveUp(p)
}

// optional reads a ConfigMap that a cluster may do without.
func optional(ctx context.Context, e *flow.Env, as state.Identity, name string) (corev1.ConfigMap, error) {
	var c corev1.ConfigMap
	u, err := Object(ctx, e, kept(name, as))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		e.Warn("ConfigMap %s cannot be read, defaults are assumed: %v", name, err)
		return c, nil
	case err != nil:
		return c, err
	}
	return c, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c)
}

func configMap(ctx context.Context, r state.Reader, ref state.Ref, into *corev1.ConfigMap) error {
	if world.RetryLimit(ctx) == 0 { // asked again by whoever waits
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	u, err := r.Object(ctx, ref)
	if err != nil {
		return err
	}
	*into = corev1.ConfigMap{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}
