package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// discoveryFile is a kubeconfig that names the cluster to join. The user trusts it.
type discoveryFile struct {
	source string // path or URL, without parts that may be secret
	// the discovered cluster and the current user; refers to no other file
	config         *pki.Kubeconfig
	cluster        *api.Cluster // the one in config
	hasCredentials bool         // of the user in config
	// why hasCredentials is false, if known: no current user, or a certificate without its key
	credentialsErr error
}

// findClusterByFile finds the cluster by the kubeconfig of --discovery-file. A token for the TLS
// bootstrap replaces the credentials in it.
func findClusterByFile(ctx context.Context, e *engine.Env,
	j node.Discovery) (verifiedCluster, error) {
	d, err := readDiscoveryFile(ctx, e, j.File)
	if err != nil {
		return verifiedCluster{}, err
	}
	if j.TLSBootstrapToken == "" && !d.hasCredentials {
		err := fmt.Errorf("%s has no credentials to join the cluster", d.source)
		if d.credentialsErr != nil {
			err = fmt.Errorf("%w: %w", err, d.credentialsErr)
		}
		return verifiedCluster{}, problem.New(err,
			"set --tls-bootstrap-token; to create a token on a control plane node: kubeadm token create",
			"or add a user with credentials to the current context of "+d.source)
	}
	if j.TLSBootstrapToken == "" || d.isAdminConf(e.Local) {
		d.warnIfClientCertificateIsForeign(e)
	}
	if len(j.CACertHashes) > 0 {
		err = d.verifyPinned(ctx, e, j.CACertHashes)
	} else {
		err = d.verifyUnpinned(ctx, e)
	}
	if err != nil {
		return verifiedCluster{}, err
	}
	return d.chooseCredentials(e.Local)
}

// readDiscoveryFile reads and checks the file and all that it refers to. It does not connect to
// the cluster.
func readDiscoveryFile(ctx context.Context, e *engine.Env, name string) (*discoveryFile, error) {
	d := &discoveryFile{source: name}
	data, err := d.load(ctx, e, name)
	if err != nil {
		return nil, err
	}
	if d.config, err = pki.ParseKubeconfig(data); err != nil {
		return nil, problem.New(
			fmt.Errorf("%s is not a kubeconfig: %w", d.source, untrusted.Error(err)),
			"to print one without credentials, run this on a control plane node: kubectl get configmap cluster-info "+
				"--namespace kube-public --output jsonpath={.data.kubeconfig}")
	}
	if strings.Contains(d.source, "://") {
		err = d.checkNoLocalReferences()
	}
	if err == nil {
		err = d.config.EmbedFiles(func(name string) ([]byte, error) {
			if !pki.IsAbsolute(name) {
				name = path.Join(path.Dir(d.source), name) // as kubectl does
			}
			return e.World.ReadFile(ctx, name)
		})
	}
	if err == nil {
		err = d.reduceAndValidate()
	}
	if err != nil {
		return nil, problem.New(fmt.Errorf("using %s to find the cluster: %w", d.source, err),
			"fix "+d.source+", or join by token")
	}
	return d, nil
}

// load reads the file from this machine, or from a server that this machine's trust store verifies.
func (d *discoveryFile) load(ctx context.Context, e *engine.Env, name string) ([]byte, error) {
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		data, err := e.World.ReadFile(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, problem.New(fmt.Errorf("discovery file %s does not exist", name),
				"check the path given with --discovery-file")
		}
		if err != nil {
			err = problem.During("reading the discovery file", err,
				"set --discovery-file to a kubeconfig file, or to an https URL of one")
		}
		return data, err
	}
	d.source = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	var text []byte
	err = awaitServer(ctx, e, world.Condition{
		Name:    "the discovery file at " + d.source,
		Timeout: e.Local.Timeouts.Discovery,
		Check: func(ctx context.Context, r state.Reader) error {
			answer, err := r.Fetch(ctx, state.Request{URL: name})
			if err != nil {
				return untrusted.Error(err)
			}
			if answer.Status == http.StatusOK {
				text = answer.Body
				return nil
			}
			err = fmt.Errorf("the server returned %d %s", answer.Status,
				http.StatusText(answer.Status))
			if answer.Status < http.StatusInternalServerError &&
				answer.Status != http.StatusTooManyRequests {
				return wrongServer{err}
			}
			return err
		},
	})
	if certificateError(err) != nil {
		return nil, problem.New(err,
			"add that server's CA to the trust store of this machine: "+e.Local.Platform.TrustCommand(),
			"or copy the file to this machine in some other way, and set its path")
	}
	if err != nil && ctx.Err() == nil {
		err = problem.New(err, "check that "+d.source+" serves a kubeconfig to this machine",
			"or copy the file to this machine in some other way, and set its path")
	}
	return text, err
}

// checkNoLocalReferences refuses a downloaded file that makes this machine read its own files or
// run a program. The server that it came from could choose any of them, and get what is in them.
func (d *discoveryFile) checkNoLocalReferences() error {
	cluster, err := d.config.DiscoveryCluster()
	if err != nil {
		return err
	}
	local := map[string]string{"certificate-authority": cluster.CertificateAuthority}
	if user, err := d.config.CurrentUser(); err == nil {
		local["client-certificate"], local["client-key"], local["tokenFile"] = user.ClientCertificate, user.ClientKey, user.TokenFile
		if user.Exec != nil {
			local["exec"] = user.Exec.Command
		}
		if user.AuthProvider != nil {
			local["auth-provider"] = user.AuthProvider.Name
		}
	}
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(local)) {
		switch value := local[field]; {
		case value == "":
		case field == "exec" || field == "auth-provider":
			errs = append(errs, fmt.Errorf(
				"its %s %s would run code on this machine, which is not allowed in a file fetched from a URL",
				field, untrusted.Quote(value)))
		default:
			errs = append(errs, fmt.Errorf(
				"its %s %s names a file of this machine, which is not allowed in a file fetched from a URL",
				field, untrusted.Quote(value)))
		}
	}
	return errors.Join(errs...)
}

// reduceAndValidate removes all but the discovered cluster and the current user, and checks these.
func (d *discoveryFile) reduceAndValidate() error {
	discovered, err := d.config.DiscoveryCluster()
	if err != nil {
		return err
	}
	if d.config.CurrentContext != "" && d.config.Contexts[d.config.CurrentContext] == nil {
		return fmt.Errorf("its current-context %q does not exist",
			d.config.CurrentContext)
	}
	if d.hasCredentials = d.config.HasCredentials(); !d.hasCredentials {
		if _, d.credentialsErr = d.config.CurrentUser(); d.credentialsErr == nil {
			d.credentialsErr = d.config.CheckComplete()
		}
		d.config = pki.NewAnonymousKubeconfig(discovered)
	}
	if err := d.config.RenameCluster(pki.BootstrapCluster); err != nil {
		return err
	}
	if d.cluster, err = d.config.CurrentCluster(); err != nil {
		return err
	}
	switch u, err := url.Parse(d.cluster.Server); {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("its server %q is not an https URL", d.cluster.Server)
	case discovered.InsecureSkipTLSVerify:
		return errors.New("its insecure-skip-tls-verify disables verification of the server; put the CA into certificate-authority-data instead")
	}
	if d.hasCA() {
		if _, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData); err != nil {
			return fmt.Errorf("reading its CA: %w", err)
		}
	}
	return clientcmd.ConfirmUsable(api.Config(*d.config), "")
}

func (d *discoveryFile) hasCA() bool { return len(d.cluster.CertificateAuthorityData) > 0 }

// isAdminConf reports whether the file is this machine's admin.conf, with its credentials.
func (d *discoveryFile) isAdminConf(l node.Local) bool {
	return d.hasCredentials && d.source == l.Paths.Kubeconfig("admin.conf")
}

// warnIfClientCertificateIsForeign warns about a client certificate that is not signed by a CA in
// the file. It is no error: the file has the CA of the API server's serving certificate, and
// --client-ca-file may be another.
func (d *discoveryFile) warnIfClientCertificateIsForeign(e *engine.Env) {
	user, err := d.config.CurrentUser()
	if err != nil || user.Token != "" || user.TokenFile != "" || user.Exec != nil ||
		user.AuthProvider != nil {
		return // the API server may know the user by these
	}
	cas, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData)
	if err != nil {
		return // no CA in the file to compare with
	}
	var foreign x509.UnknownAuthorityError
	if err := d.config.CheckClient(cas, e.World.Now(), nil); errors.As(err, &foreign) {
		e.Warn("the client certificate in %s is not signed by a CA that this file trusts, so the API server may reject it: %v",
			d.source, untrusted.Error(err))
	}
}

// verifyUnpinned reads cluster-info from the server in the file, and takes the CA from it if the
// file has none. A cluster that does not publish cluster-info can be joined too.
func (d *discoveryFile) verifyUnpinned(ctx context.Context, e *engine.Env) error {
	published, refused, err := d.awaitClusterInfo(ctx, e, d.hasCredentials)
	switch {
	case err != nil:
		return err
	case refused != nil && !d.hasCA():
		return d.missingCAError(refused)
	case refused != nil:
		e.Warn("the cluster does not publish a cluster-info to compare %s with: %v", d.source, refused)
		return nil
	}
	d.warnIfServerDiffers(e, published)
	if !d.hasCA() {
		e.Say("taking the cluster's CA from its ConfigMap %q", bootstrapapi.ConfigMapClusterInfo)
		d.cluster.CertificateAuthorityData = published.CertificateAuthorityData
	}
	return nil
}

// verifyPinned verifies the cluster with the hashes of CA certificates. As in discovery by token,
// only a CA certificate that has one of the hashes verifies the server, and no credentials are
// sent before. Then all CA certificates in its cluster-info are trusted.
func (d *discoveryFile) verifyPinned(ctx context.Context, e *engine.Env, hashes []string) error {
	if !d.hasCA() {
		// Only this machine's trust store verifies the server yet: this just finds out what the
		// pinned CA is.
		unverified, refused, err := d.awaitClusterInfo(ctx, e, false)
		if err == nil && refused != nil {
			err = d.missingCAError(refused)
		}
		if err != nil {
			return err
		}
		d.cluster.CertificateAuthorityData = unverified.CertificateAuthorityData
	}
	pinned, err := d.matchPins(e.Local, d.cluster, hashes)
	if err != nil {
		return err
	}
	d.cluster.CertificateAuthorityData = pinned
	published, refused, err := d.awaitClusterInfo(ctx, e, d.hasCredentials)
	if err != nil {
		return err
	}
	if refused != nil {
		e.Warn("the cluster does not publish a cluster-info, so only those CA certificates of %s whose hash was given are trusted: %v",
			d.source, refused)
		return nil
	}
	if _, err := d.matchPins(e.Local, published, hashes); err != nil {
		return err
	}
	d.warnIfServerDiffers(e, published)
	d.cluster.CertificateAuthorityData = published.CertificateAuthorityData
	return nil
}

func (d *discoveryFile) missingCAError(refused error) error {
	return problem.New(
		fmt.Errorf("%s has no CA, and the cluster's CA cannot be discovered: %w", d.source,
			refused),
		"set certificate-authority-data in "+d.source+" to the cluster's CA")
}

// matchPins returns those CA certificates of the cluster that have one of the hashes, as PEM.
func (d *discoveryFile) matchPins(l node.Local, cluster *api.Cluster,
	hashes []string) ([]byte, error) {
	certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
	if err == nil {
		certs, err = matchPins(certs, hashes)
	}
	if err != nil {
		hint := "use the discovery file of the cluster that this machine is to join, or correct --discovery-token-ca-cert-hash"
		if d.isAdminConf(l) {
			hint = "if " + d.source + " is left over from another cluster: kubeadm reset"
		}
		return nil, problem.During(d.source+" is for a different cluster than --discovery-token-ca-cert-hash", err,
			comparePinsHint, hint)
	}
	return pki.EncodeCertificates(certs...), nil
}

func (d *discoveryFile) warnIfServerDiffers(e *engine.Env, published *api.Cluster) {
	if published.Server != d.cluster.Server {
		e.Warn("the cluster's server is %s in its cluster-info and %s in %s; using the latter",
			untrusted.Quote(published.Server), d.cluster.Server, d.source)
	}
}

// awaitClusterInfo reads the cluster in cluster-info; refused says why there is none of use.
func (d *discoveryFile) awaitClusterInfo(ctx context.Context, e *engine.Env,
	asUser bool) (published *api.Cluster, refused, err error) {
	var info corev1.ConfigMap
	err = awaitServer(ctx, e, world.Condition{
		Name:    "the cluster at " + d.cluster.Server + ", which " + d.source + " names",
		Timeout: e.Local.Timeouts.Discovery,
		Check: func(ctx context.Context, r state.Reader) error {
			refused = nil
			err := d.readClusterInfo(ctx, r, asUser, &info)
			switch {
			case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err),
				apierrors.IsNotFound(err):
				refused = err
				return nil
			case certificateError(err) != nil:
				return d.explainUntrustedServer(err)
			}
			return err
		},
	})
	if err != nil {
		return nil, nil, withReachabilityHint(d.cluster.Server, err)
	}
	if refused != nil {
		return nil, refused, nil
	}
	text, ok := info.Data[bootstrapapi.KubeConfigKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %q", bootstrapapi.ConfigMapClusterInfo,
			bootstrapapi.KubeConfigKey), nil
	}
	published, refused = parsePublishedCluster(text)
	return published, refused, nil
}

// readClusterInfo reads cluster-info anonymously, and only if that is refused with the credentials
// in the file.
func (d *discoveryFile) readClusterInfo(ctx context.Context, r state.Reader, asUser bool,
	into *corev1.ConfigMap) error {
	anonymous, err := pki.NewAnonymousKubeconfig(d.cluster).Encode()
	if err != nil {
		return err
	}
	ref := state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "kube-public",
		Name: bootstrapapi.ConfigMapClusterInfo, As: state.Identity{Config: anonymous}}
	err = readConfigMap(ctx, r, ref, into)
	if asUser && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		user, err := d.config.Encode()
		if err != nil {
			return err
		}
		ref.As = state.Identity{Config: user}
		return readConfigMap(ctx, r, ref, into)
	}
	return err
}

// explainUntrustedServer explains why the server's certificate is not of the cluster in the file.
func (d *discoveryFile) explainUntrustedServer(err error) error {
	p := problem.New(explainCertificateError(err),
		"if the CA of the cluster was replaced, set certificate-authority-data in "+
			d.source+" to it; if not, another server answers at "+d.cluster.Server)
	if !d.hasCA() {
		p.Err = untrusted.Error(err)
		p.Hints = []string{"set certificate-authority-data in " + d.source +
			" to the cluster's CA: without it, this machine's trust store must verify the server"}
	}
	p.Alone = true
	return p
}

// chooseCredentials returns the kubeconfig for the kubelet's bootstrap and the credentials that
// read the configuration. With a token, this machine's admin.conf only reads the configuration:
// its certificate may outlast the token, and the kubelet must not get its rights.
func (d *discoveryFile) chooseCredentials(l node.Local) (verifiedCluster, error) {
	user, err := d.config.Encode()
	if err != nil {
		return verifiedCluster{}, err
	}
	reader := configReader{as: state.Identity{Config: user},
		credentials: "the credentials in " + d.source,
		remedy:      "set --tls-bootstrap-token to use a token instead; to create one on a control plane node: kubeadm token create"}
	if d.isAdminConf(l) {
		reader.remedy = "move " + d.source +
			" away and join by token; if it is left over from another cluster: kubeadm reset"
	}
	if l.Discovery.TLSBootstrapToken == "" {
		_, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData)
		return verifiedCluster{d.config, reader}, err
	}
	bootstrap, err := pki.NewBootstrapKubeconfig(d.cluster, l.Discovery.TLSBootstrapToken)
	if err != nil {
		return verifiedCluster{}, err
	}
	if d.isAdminConf(l) {
		return verifiedCluster{bootstrap, reader}, nil
	}
	reader, err = newTokenReader(bootstrap, l)
	return verifiedCluster{bootstrap, reader}, err
}
