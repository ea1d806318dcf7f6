// Package uploadcerts has the phase that uploads the certificates that control planes share.
package uploadcerts

import (
	"context"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
)

// Phase uploads the certificates if --upload-certs is set.
var Phase = engine.Phase{
	Name:  string(phaseindex.UploadCerts),
	Short: "Upload the shared certificates so that other control plane nodes can join",
	Long: "Use the certificate key to encrypt the certificates that all control plane nodes share, and upload them to a Secret, which is deleted after two hours. " +
		"Files that arguments of control plane components name, such as an audit policy, are uploaded in the same way to another Secret.",
	Flags: []flag.Name{flag.CertificateKey, flag.Config, flag.DryRun, flag.Kubeconfig,
		flag.SkipCertificateKeyPrint, flag.UploadCerts},
	Run: func(ctx context.Context, e *engine.Env) error {
		if !e.Local.UploadCerts {
			e.Say("nothing is uploaded; to upload the certificates, set --upload-certs")
			return nil
		}
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		if err := sharedcerts.Upload(ctx, e, withStoredComponents(ctx, e, n, as), as); err != nil {
			return explainUpload(ctx, e, n, err)
		}
		shown := n.CertificateKey
		if e.Withhold.CertificateKey {
			shown = engine.Withheld
		}
		e.Result("Using certificate key:\n%s", shown) // what programs look for: test/parity/phrases
		return nil
	},
}

// explainUpload adds a hint if there is no CA of etcd: its certificates are elsewhere if etcd is
// external, which without a file the phase does not know.
func explainUpload(ctx context.Context, e *engine.Env, n *node.Node, err error) error {
	local, _ := node.HasLocalEtcd(n)
	exists, statErr := state.Exists(ctx, e.World, n.Paths.Cert("etcd/ca"))
	if !local || exists || statErr != nil {
		return err
	}
	return problem.New(err, "with an external etcd, set --config to a file with the configuration of the cluster: "+
		"kubectl -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' >config.yaml")
}

// withStoredComponents returns the node with the components that the cluster stores, whose arguments may name
// files, if the phase runs alone and its configuration names none.
func withStoredComponents(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) *node.Node {
	named, err := preflight.UploadedFiles(n)
	if e.Selection().Only == "" || len(named) > 0 {
		return n
	}
	complete := *n
	if err == nil {
		err = func() error {
			found, err := existing.ReadConfigMap(ctx, e.Reader(), as, manifest.KubeadmConfigMap)
			if err != nil || found == nil {
				return err
			}
			stored, _, err := config.CompleteMember(e.Local, found.Data[manifest.KubeadmConfigKey], e.Tool)
			if err != nil {
				return err
			}
			c := &complete.Cluster
			c.APIServer, c.ControllerManager, c.Scheduler = stored.Cluster.APIServer, stored.Cluster.ControllerManager,
				stored.Cluster.Scheduler
			c.FeatureGates = stored.Cluster.FeatureGates
			return nil
		}()
	}
	if err != nil {
		e.Warn("files referenced by component arguments are not uploaded: %v", err)
		return n
	}
	return &complete
}

// Reconfigured uploads the same after a change of the cluster's configuration. Without the keys of the CAs it
// uploads the files alone.
var Reconfigured = engine.Phase{
	Name:  string(phaseindex.UploadCerts),
	Short: "Upload the certificates, and files that arguments name",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil || !n.UploadCerts {
			return err
		}
		upload := sharedcerts.Upload
		if err := certstore.CheckUploadable(ctx, e.World, n); err != nil {
			e.Say("only files referenced by component arguments are uploaded: %v", err)
			upload = sharedcerts.UploadFiles
		}
		return upload(ctx, e, n, as)
	},
}
