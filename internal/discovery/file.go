package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// byFile finds the cluster by the kubeconfig that the user names. A token for the TLS bootstrap takes the
// place of the credentials in it.
func byFile(ctx context.Context, e *flow.Env, j node.Join) (found, error) {
	d, err := open(ctx, e, j.File)
	if err != nil {
		return found{}, err
	}
	if j.TLSToken == "" && !d.names {
		return found{}, d.speechless(e.Local)
	}
	if j.TLSToken == "" || d.isAdminConf(e.Local) {
		d.warnIfClientCertificateIsForeign(e)
	}
	if len(j.CACertHashes) > 0 {
		err = d.verifyPinned(ctx, e, j.CACertHashes)
	} else {
		err = d.verify(ctx, e)
	}
	if err != nil {
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
	ownAdmin := d.isAdminConf(l)
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

// isAdminConf reports whether the file is this machine's admin.conf, with its credentials.
func (d *document) isAdminConf(l node.Local) bool {
	return d.names && d.source == l.Paths.Kubeconfig("admin.conf")
}

// warnIfClientCertificateIsForeign warns about a client certificate that is not signed by a CA in the file. It
// is no error: the file has the CA of the API server's serving certificate, and --client-ca-file may be another.
func (d *document) warnIfClientCertificateIsForeign(e *flow.Env) {
	user, err := d.config.CurrentUser()
	if err != nil || user.Token != "" || user.TokenFile != "" || user.Exec != nil || user.AuthProvider != nil {
		return // the API server may know the user by these
	}
	cas, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData)
	if err != nil {
		return // no CA in the file to compare with
	}
	var foreign x509.UnknownAuthorityError
	if err := d.config.CheckClient(cas, e.World.Now(), nil); errors.As(err, &foreign) {
		e.Warn("the client certificate in %s is not signed by a CA that this file trusts, so the API server may not accept it: %v",
			d.source, untrusted.Error(err))
	}
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

// verify reads cluster-info from the server that the document names, and takes its CA where the document
// has none. A cluster that keeps cluster-info to itself is joined all the same.
func (d *document) verify(ctx context.Context, e *flow.Env) error {
	shown, refused, err := d.clusterInfo(ctx, e, d.names)
	switch {
	case err != nil:
		return err
	case refused != nil && !d.hasCA():
		return problem.New("", fmt.Errorf("%s holds no CA, and the cluster's cannot be learned: %w", d.source, refused),
			"put the cluster's CA into certificate-authority-data of "+d.source)
	case refused != nil:
		e.Warn("the cluster tells nothing of itself, so %s is taken as it is: %v", d.source, refused)
		return nil
	}
	d.warnOfOtherServer(e, shown)
	if !d.hasCA() {
		e.Say("taking the cluster's CA from its ConfigMap %q", bootstrapapi.ConfigMapClusterInfo)
		d.cluster.CertificateAuthorityData = shown.CertificateAuthorityData
	}
	return nil
}

// verifyPinned is verify where hashes of CA certificates are given. As in discovery by token, only the
// certificates that have one of them verify the server, before it is shown any credentials, and all
// certificates that it then shows are taken.
func (d *document) verifyPinned(ctx context.Context, e *flow.Env, hashes []string) error {
	if !d.hasCA() {
		// This machine's trust store verifies the server; all that is learned from it is which CA to ask for.
		hearsay, refused, err := d.clusterInfo(ctx, e, false)
		if err == nil && refused != nil {
			err = problem.New("", fmt.Errorf("%s holds no CA, and the cluster's cannot be learned: %w", d.source, refused),
				"put the cluster's CA into certificate-authority-data of "+d.source)
		}
		if err != nil {
			return err
		}
		d.cluster.CertificateAuthorityData = hearsay.CertificateAuthorityData
	}
	pinned, err := d.matchPins(d.cluster, hashes)
	if err != nil {
		return err
	}
	d.cluster.CertificateAuthorityData = pinned
	shown, refused, err := d.clusterInfo(ctx, e, d.names)
	if err != nil {
		return err
	}
	if refused != nil {
		e.Warn("the cluster tells nothing of itself, so those CA certificates of %s are taken that a hash was given for: %v", d.source, refused)
		return nil
	}
	if _, err := d.matchPins(shown, hashes); err != nil {
		return err
	}
	d.warnOfOtherServer(e, shown)
	d.cluster.CertificateAuthorityData = shown.CertificateAuthorityData
	return nil
}

// matchPins returns those CA certificates of the cluster that have one of the hashes, as PEM.
func (d *document) matchPins(cluster *api.Cluster, hashes []string) ([]byte, error) {
	certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
	if err == nil {
		certs, err = matchPins(certs, hashes)
	}
	if err != nil {
		return nil, problem.New(d.source+" leads to another cluster than the one that was meant", err, comparePins,
			"if "+d.source+" is left over from another cluster, clean up with `kubeadm reset`; else move it away")
	}
	return pki.EncodeCertificates(certs...), nil
}

func (d *document) warnOfOtherServer(e *flow.Env, shown *api.Cluster) {
	if shown.Server != d.cluster.Server {
		e.Warn("the cluster calls itself %s, and %s calls it %s: the latter counts", untrusted.Quote(shown.Server), d.source, d.cluster.Server)
	}
}

// clusterInfo reads what the cluster publishes about itself; refused says why it publishes nothing of use.
func (d *document) clusterInfo(ctx context.Context, e *flow.Env, asUser bool) (shown *api.Cluster, refused, err error) {
	var info corev1.ConfigMap
	err = await(ctx, e, world.Condition{
		Name:    "the cluster at " + d.cluster.Server + ", which " + d.source + " names",
		Timeout: e.Local.Timeouts.Discovery,
		Check: func(ctx context.Context, r state.Reader) error {
			refused = nil
			err := d.ask(ctx, r, asUser, &info)
			switch {
			case isRefusal(err):
				refused = err
				return nil
			case mistrusted(err) != nil:
				return d.distrusts(err)
			}
			return err
		},
	})
	if err != nil {
		return nil, nil, reachable(d.cluster.Server, err)
	}
	if refused != nil {
		return nil, refused, nil
	}
	text, ok := info.Data[bootstrapapi.KubeConfigKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %q", bootstrapapi.ConfigMapClusterInfo, bootstrapapi.KubeConfigKey), nil
	}
	shown, refused = publishedCluster(text)
	return shown, refused, nil
}

// isRefusal reports whether the cluster answers and does not show the object.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// ask reads cluster-info anonymously, as anyone may, and only where that is refused with the credentials in
// the document.
func (d *document) ask(ctx context.Context, r state.Reader, asUser bool, into *corev1.ConfigMap) error {
	anonymous, err := pki.Anonymous(d.cluster).Encode()
	if err != nil {
		return err
	}
	ref := state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-public", Name: bootstrapapi.ConfigMapClusterInfo,
		As: state.Identity{Config: anonymous}}
	err = configMap(ctx, r, ref, into)
	if asUser && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		if ref.As, err = d.identity(); err != nil {
			return err
		}
		return configMap(ctx, r, ref, into)
	}
	return err
}
