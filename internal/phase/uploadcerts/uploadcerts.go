// Package uploadcerts has the phase that uploads the certificates that control planes share.
package uploadcerts

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/problem"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
)

// Phase uploads the certificates if --upload-certs is set.
var Phase = engine.Phase{
	Name:  string(phaseindex.UploadCerts),
	Short: "Upload the shared certificates so that other control plane nodes can join",
	Long:  "Use the certificate key to encrypt the certificates that all control plane nodes share, and upload them to a Secret, which is deleted after two hours.",
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
		if err := sharedcerts.Upload(ctx, e, n, as); err != nil {
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
