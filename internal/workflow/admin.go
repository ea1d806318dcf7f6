package workflow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// InitAdmin is the user that the phases of a whole init are: that of super-admin.conf where it exists,
// whom a new API server authorizes at once, else that of admin.conf.
func InitAdmin(r state.Reader, l node.Local) func(context.Context) (state.Identity, error) {
	return func(ctx context.Context) (state.Identity, error) {
		as := state.Identity{Kubeconfig: l.Paths.Kubeconfig("super-admin.conf"),
			Server: l.LocalServerURL()}
		if exists, err := state.Exists(ctx, r, as.Kubeconfig); err != nil || exists {
			return as, err
		}
		return existing.Admin(l, ""), nil
	}
}

// JoinAdmin is the admin of the cluster that this machine joins, at the address that all control
// planes share: the API server of this machine is started last.
func JoinAdmin(r state.Reader, l node.Local) func(context.Context) (state.Identity, error) {
	return func(ctx context.Context) (state.Identity, error) {
		as := state.Identity{Kubeconfig: l.Paths.Kubeconfig("admin.conf")}
		if _, err := r.Stat(ctx, as.Kubeconfig); err != nil {
			return as, problem.During("accessing the cluster as an administrator", err,
				"run this phase first: kubeadm join phase control-plane-prepare kubeconfig")
		}
		return as, nil
	}
}

// bindClusterAdmins creates the ClusterRoleBinding that makes the group of admin.conf
// cluster-admin, if there is none. In a new cluster only super-admin.conf has the rights to create
// it. Another kubeconfig, where the user names one, is not given any rights.
var bindClusterAdmins = engine.Step{
	Name: "cluster-admin",
	Run: func(ctx context.Context, e *engine.Env) error {
		as, err := e.Admin(ctx)
		if err != nil || as.Server == "" {
			return err
		}
		if err = createBinding(ctx, e, as); err == nil {
			return nil
		}
		p := problem.During("creating the cluster-admin ClusterRoleBinding", err)
		for _, name := range []string{"admin", "super-admin"} {
			file := e.Local.Paths.Kubeconfig(name + ".conf")
			if _, err := e.World.Stat(ctx, file); errors.Is(err, fs.ErrNotExist) {
				p.Hints = append(p.Hints,
					fmt.Sprintf("%s does not exist; run this phase first: kubeadm init phase kubeconfig %s", file, name))
			}
		}
		return p
	},
}

// clusterAdmin does that step in a whole init, and waits until the user of admin.conf has the rights.
var clusterAdmin = engine.Phase{
	Name:   string(phaseindex.ClusterAdmin),
	Short:  "Bind the group of admin.conf to cluster-admin",
	Hidden: true,
	OnlyWith: []string{"wait-control-plane", "upload-config", "upload-certs", "mark-control-plane",
		"bootstrap-token", "addon"},
	Before: []engine.Step{bindClusterAdmins},
	Points: []engine.Milestone{phaseindex.AdminsBound},
	Run: func(ctx context.Context, e *engine.Env) error {
		if err := e.Reach(ctx, phaseindex.AdminsBound); err != nil {
			return err
		}
		if err := e.AwaitMilestones(ctx, phaseindex.RBACComplete); err != nil {
			return err
		}
		as := existing.Admin(e.Local, "")
		if exists, err := state.Exists(ctx, e.World, as.Kubeconfig); err != nil || !exists {
			return err
		}
		return e.Await(ctx, bindingInEffect(e, as))
	},
}

// createBinding creates the binding unless admin finds it or is denied for another reason than a
// lack of rights.
func createBinding(ctx context.Context, e *engine.Env, admin state.Identity) error {
	binding := manifest.ClusterAdmins()
	look := func(ctx context.Context, r state.Reader) error {
		_, err := r.Object(ctx, state.RefOf(binding, admin))
		return err
	}
	err := look(ctx, e.World)
	if isUnreachable(err) { // as right after kubelet-start, where phases are run one by one
		noAnswer := e.Await(ctx, world.Condition{
			Name:    "kube-apiserver at " + admin.Server,
			Timeout: e.Local.Timeouts.KubernetesAPI,
			Check: func(ctx context.Context, r state.Reader) error {
				if err := look(ctx, r); isUnreachable(err) {
					return err
				}
				return nil // any answer will do
			},
		})
		if noAnswer != nil {
			return problem.New(noAnswer,
				"check whether the control plane is running: kubeadm init phase wait-control-plane")
		}
	}
	if err != nil && !lacksRights(err) { // which says nothing about the rights
		_, err = e.Object(ctx, state.RefOf(binding, admin))
	}
	if !lacksRights(err) {
		return err
	}
	super := state.Identity{Kubeconfig: e.Local.Paths.Kubeconfig("super-admin.conf"),
		Server: admin.Server}
	maker := super
	if _, missing := e.World.Stat(ctx, maker.Kubeconfig); missing != nil ||
		apierrors.IsNotFound(err) {
		maker = admin
	}
	err = e.Do(ctx, change.ApplyObject{Object: binding, As: maker, Keep: true})
	if err != nil || admin.Kubeconfig == super.Kubeconfig { // who has the rights without it
		return err
	}
	return e.Await(ctx, bindingInEffect(e, admin))
}

// bindingInEffect is met once that user can read the binding, and so has its rights.
func bindingInEffect(e *engine.Env, as state.Identity) world.Condition {
	return world.Condition{
		Name:    "the cluster-admin ClusterRoleBinding to take effect",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			_, err := r.Object(ctx, state.RefOf(manifest.ClusterAdmins(), as))
			return err
		},
	}
}

// lacksRights reports whether the API server has answered that the admin has no rights.
func lacksRights(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// isUnreachable reports whether err is that of a request that got no answer, other than because of
// an untrusted certificate.
func isUnreachable(err error) bool {
	var request *url.Error
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &request) && !errors.As(err, &untrusted)
}
