package workflow

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Admin is the administrator of this machine's cluster, as whom phases speak to its own API server. The
// first call gives him his rights if he has none: those come from a binding that only the
// super administrator of a new cluster can make. Another kubeconfig than admin.conf, where the
// user names one, is taken as it is; so is admin.conf by a command that knows no API server of
// this machine, such as reset.
func Admin(e *flow.Env, kubeconfig string) func(context.Context) (state.Identity, error) {
	var mu sync.Mutex
	var known *state.Identity
	return func(ctx context.Context) (state.Identity, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != nil {
			return *known, nil
		}
		own := e.Local.Paths.Kubeconfig("admin.conf")
		as := state.Identity{Kubeconfig: cmp.Or(kubeconfig, own)}
		if as.Kubeconfig == own && e.Local.Address != "" {
			as.Server = e.Local.LocalServer()
			if err := empower(ctx, e.Named("administrator"), as); err != nil {
				return as, problem.New("giving the administrator his rights", err, lacking(ctx, e)...)
			}
		}
		known = &as
		return as, nil
	}
}

// FinishedAdmin is the administrator of a cluster that a finished init made. It is given no rights: the cluster stays as it is.
func FinishedAdmin(e *flow.Env) func(context.Context) (state.Identity, error) {
	return func(context.Context) (state.Identity, error) {
		return state.Identity{Kubeconfig: e.Local.Paths.Kubeconfig("admin.conf"), Server: e.Local.LocalServer()}, nil
	}
}

// JoinAdmin is the administrator of the cluster that this machine joins, at the address that all control planes
// share: the API server of this machine comes up last.
func JoinAdmin(e *flow.Env) func(context.Context) (state.Identity, error) {
	return func(ctx context.Context) (state.Identity, error) {
		as := state.Identity{Kubeconfig: e.Local.Paths.Kubeconfig("admin.conf")}
		if _, err := e.World.Stat(ctx, as.Kubeconfig); err != nil {
			return as, problem.New("speaking to the cluster as its administrator", err, "run the control-plane-prepare/kubeconfig phase first")
		}
		return as, nil
	}
}

// lacking tells which phases to run for credentials that are missing.
func lacking(ctx context.Context, e *flow.Env) (hints []string) {
	for _, name := range []string{"admin", "super-admin"} {
		file := e.Local.Paths.Kubeconfig(name + ".conf")
		if _, err := e.World.Stat(ctx, file); errors.Is(err, fs.ErrNotExist) {
			hints = append(hints, fmt.Sprintf("%s does not exist: run the kubeconfig/%s phase first", file, name))
		}
	}
	return hints
}

// empower binds the administrators' group to all rights, unless that is so already.
func empower(ctx context.Context, e *flow.Env, admin state.Identity) error {
	binding := manifest.ClusterAdmins()
	look := func(ctx context.Context, r state.Reader) error {
		_, err := r.Object(ctx, state.RefOf(binding, admin))
		return err
	}
	err := look(ctx, e.World)
	if unreachable(err) { // as right after kubelet-start, where phases are given one by one
		if err := e.Await(ctx, reachable(e, admin, look)); err != nil {
			return problem.New("", err, "see whether the control plane runs: kubeadm init phase wait-control-plane")
		}
	}
	if err != nil && !lacksRights(err) { // which says nothing about the rights
		_, err = e.Object(ctx, state.RefOf(binding, admin))
	}
	if !lacksRights(err) {
		return err
	}
	maker := state.Identity{Kubeconfig: e.Local.Paths.Kubeconfig("super-admin.conf"), Server: admin.Server}
	if _, missing := e.World.Stat(ctx, maker.Kubeconfig); missing != nil || apierrors.IsNotFound(err) {
		maker = admin
	}
	if err := e.Do(ctx, change.ApplyObject{Object: binding, As: maker, Keep: true}); err != nil {
		return err
	}
	return e.Await(ctx, world.Condition{
		Name:    "the administrator's rights to take effect",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check:   look,
	})
}

// lacksRights reports whether the API server has answered that the administrator has no rights.
func lacksRights(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// reachable holds once the API server gives any answer at all.
func reachable(e *flow.Env, as state.Identity, look func(context.Context, state.Reader) error) world.Condition {
	return world.Condition{
		Name:    "kube-apiserver at " + as.Server,
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			if err := look(ctx, r); unreachable(err) {
				return err
			}
			return nil
		},
	}
}

// unreachable tells whether err is that of a request that got no answer, other than for lack of trust.
func unreachable(err error) bool {
	var request *url.Error
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &request) && !errors.As(err, &untrusted)
}
