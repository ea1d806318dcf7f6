package discovery

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// byFile believes the kubeconfig that the user names, and completes it with what the cluster tells of itself.
// A token for the TLS bootstrap takes the place of the credentials in it.
func byFile(ctx context.Context, e *flow.Env, j node.Join) (found, error) {
	d, err := open(ctx, e, j.File)
	if err != nil {
		return found{}, err
	}
	if j.TLSToken == "" && !d.names {
		return found{}, d.speechless(e.Local)
	}
	if err := d.pinned(j.CACertHashes); err != nil {
		return found{}, err
	}
	if err := d.refresh(ctx, e); err != nil {
		return found{}, err
	}
	if err := d.pinned(j.CACertHashes); err != nil {
		return found{}, err
	}
	return d.found(e.Local)
}

// found chooses the credentials. An administrator's file that this machine has is for reading alone where
// there is a token: it goes on to be good when the token is not, and the kubelet needs none that mighty.
func (d *document) found(l node.Local) (found, error) {
	as, err := d.identity()
	if err != nil {
		return found{}, err
	}
	own := visitor{as: as, name: "the credentials in " + d.source,
		remedy: "give a token besides, which takes their place: --tls-bootstrap-token; on a control plane, `kubeadm token create` makes one"}
	ownAdmin := d.names && d.source == l.Paths.Kubeconfig("admin.conf")
	if ownAdmin {
		own.remedy = "move " + d.source + " away and join by token; if it is left over from another cluster, clean up with `kubeadm reset`"
	}
	if l.Join.TLSToken == "" {
		_, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData)
		return found{d.config, own}, err
	}
	bootstrap, err := pki.Bootstrap(d.cluster, l.Join.TLSToken)
	if err != nil {
		return found{}, err
	}
	if ownAdmin {
		return found{bootstrap, own}, nil
	}
	v, err := bearer(bootstrap, l)
	return found{bootstrap, v}, err
}

// speechless says that the document lacks what only a token could make up for.
func (d *document) speechless(l node.Local) error {
	err := fmt.Errorf("%s says where the cluster is, but holds no credentials with which this machine could join it", d.source)
	if d.nobody != nil {
		err = fmt.Errorf("%w: %w", err, d.nobody)
	}
	return problem.New("", err, "give a token besides: --tls-bootstrap-token; on a control plane, `kubeadm token create` makes one",
		"or put a user with credentials into the current context of "+d.source)
}

// pinned wants the document's CA, if it has one by now, to be one that the user named.
func (d *document) pinned(hashes []string) error {
	if len(hashes) == 0 || !d.hasCA() {
		return nil
	}
	certs, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData)
	if err == nil {
		_, err = matching(certs, hashes)
	}
	if err != nil {
		return problem.New(d.source+" leads to another cluster than the one that was meant", err, comparePins,
			"if "+d.source+" is left over from another cluster, clean up with `kubeadm reset`; else move it away")
	}
	return nil
}

// refresh asks the cluster what it tells everybody of itself. A cluster that keeps that to itself is joined all the same.
func (d *document) refresh(ctx context.Context, e *flow.Env) error {
	as, err := d.identity()
	if err != nil {
		return err
	}
	var info corev1.ConfigMap
	var closed error
	err = e.Await(ctx, world.Condition{
		Name:    "the cluster at " + d.cluster.Server + ", which " + d.source + " names",
		Timeout: e.Local.Timeouts.Discovery,
		Outside: true,
		Check: func(ctx context.Context, r change.Reader) error {
			err := d.ask(ctx, r, as, &info)
			switch {
			case refusal(err):
				closed = err
				return nil
			case untrusted(err) != nil:
				return world.GiveUp(d.distrusts(err))
			case lasting(err):
				return world.GiveUp(err)
			}
			return err
		},
	})
	if err != nil {
		return reachable(d.cluster.Server, err)
	}
	told, err := published(info)
	if closed != nil {
		err = closed
	}
	return d.complete(e, told, err)
}

// refusal tells whether the cluster answers and will not tell.
func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// ask reads cluster-info as nobody, as anybody may, and only where that is not so as the document's user.
func (d *document) ask(ctx context.Context, r change.Reader, as change.Identity, into *corev1.ConfigMap) error {
	nobody, err := pki.Anonymous(d.cluster).Encode()
	if err != nil {
		return err
	}
	ref := change.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-public", Name: bootstrapapi.ConfigMapClusterInfo,
		As: change.Identity{Config: nobody}}
	err = configMap(ctx, r, ref, into)
	if d.names && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		ref.As = as
		return configMap(ctx, r, ref, into)
	}
	return err
}

// published is the cluster that a cluster-info speaks of.
func published(info corev1.ConfigMap) (*api.Cluster, error) {
	text, ok := info.Data[bootstrapapi.KubeConfigKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %q", bootstrapapi.ConfigMapClusterInfo, bootstrapapi.KubeConfigKey)
	}
	config, err := pki.ParseKubeconfig([]byte(text))
	if err != nil {
		return nil, err
	}
	return config.DiscoveryCluster()
}

// complete compares what the cluster told of itself, unless that failed, and takes its CA where the document has none.
func (d *document) complete(e *flow.Env, told *api.Cluster, failed error) error {
	switch {
	case failed != nil && !d.hasCA():
		return problem.New("", fmt.Errorf("%s holds no CA, and the cluster's cannot be learned: %w", d.source, failed),
			"put the cluster's CA into certificate-authority-data of "+d.source)
	case failed != nil:
		e.Warn("the cluster tells nothing of itself, so %s is taken as it is: %v", d.source, failed)
		return nil
	case told.Server != d.cluster.Server:
		e.Warn("the cluster calls itself %s, and %s calls it %s: the latter counts", told.Server, d.source, d.cluster.Server)
	}
	if !d.hasCA() {
		e.Say("taking the cluster's CA from its ConfigMap %q", bootstrapapi.ConfigMapClusterInfo)
		d.cluster.CertificateAuthorityData = told.CertificateAuthorityData
	}
	return nil
}
