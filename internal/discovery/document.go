package discovery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/flow"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// document is a kubeconfig that tells where a cluster is. Its user vouches for it.
type document struct {
	source  string          // path or address, without what may be secret
	config  *pki.Kubeconfig // the discovered cluster and the current user; refers to no other file
	cluster *api.Cluster    // the one in config
	names   bool            // the user in config has credentials
	nobody  error           // why names is not set, where that is known: no current user, or a certificate without its key
}

// open reads the document and all that it refers to, and says what is wrong with it before anybody is asked.
func open(ctx context.Context, e *flow.Env, name string) (*document, error) {
	d := &document{source: name}
	data, err := d.load(ctx, e, name)
	if err != nil {
		return nil, err
	}
	if d.config, err = pki.ParseKubeconfig(data); err != nil {
		return nil, problem.New("", fmt.Errorf("%s is no kubeconfig: %w", d.source, untrusted.Error(err)),
			"on a control plane this prints one, without credentials: kubectl get configmap cluster-info --namespace kube-public --output jsonpath={.data.kubeconfig}")
	}
	if d.remote() {
		err = d.checkRemote()
	}
	if err == nil {
		err = d.config.Embed(d.beside(ctx, e))
	}
	if err == nil {
		err = d.narrow()
	}
	if err != nil {
		return nil, problem.New("", fmt.Errorf("using %s to find the cluster: %w", d.source, err), "fix "+d.source+", or join by token")
	}
	return d, nil
}

// load reads the text, of this machine or of another one.
func (d *document) load(ctx context.Context, e *flow.Env, name string) ([]byte, error) {
	u, err := url.Parse(name)
	if err == nil && u.Scheme == "https" && u.Host != "" {
		d.source = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		return d.fetch(ctx, e, name)
	}
	data, err := e.World.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New("", fmt.Errorf("there is no discovery file %s", name), "check the path given with --discovery-file")
	}
	return data, err
}

// fetch gets the text from a server that the machine's trust store verifies.
func (d *document) fetch(ctx context.Context, e *flow.Env, address string) (text []byte, err error) {
	err = await(ctx, e, world.Condition{
		Name:    "the discovery file at " + d.source,
		Timeout: e.Local.Timeouts.Discovery,
		Check: func(ctx context.Context, r state.Reader) error {
			answer, err := r.Fetch(ctx, state.Request{URL: address})
			if err != nil {
				return untrusted.Error(err)
			}
			if answer.Status == http.StatusOK {
				text = answer.Body
				return nil
			}
			err = fmt.Errorf("the server answers %d %s", answer.Status, http.StatusText(answer.Status))
			if answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
				return wrongServer{err}
			}
			return err
		},
	})
	if mistrusted(err) != nil {
		return nil, problem.New("", err, "let this machine trust who signed that server's certificate: copy the CA to /usr/local/share/ca-certificates and run update-ca-certificates",
			"or bring the file to this machine in another way and name its path")
	}
	return text, err
}

// remote reports whether the document was fetched from another machine.
func (d *document) remote() bool { return strings.Contains(d.source, "://") }

// checkRemote refuses a fetched document that makes this machine read its own files or run a program: what
// it holds is up to the server that it came from, and would be sent to the cluster that it names.
func (d *document) checkRemote() error {
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
			errs = append(errs, fmt.Errorf("its %s %s would run code on this machine, which a file fetched from a URL may not do",
				field, untrusted.Quote(value)))
		default:
			errs = append(errs, fmt.Errorf("its %s %s names a file of this machine, which a file fetched from a URL may not do",
				field, untrusted.Quote(value)))
		}
	}
	return errors.Join(errs...)
}

// beside reads the files that the document refers to: as everywhere, their paths are relative to where it lies.
func (d *document) beside(ctx context.Context, e *flow.Env) pki.ReadFile {
	return func(name string) ([]byte, error) {
		if !path.IsAbs(name) {
			name = path.Join(path.Dir(d.source), name)
		}
		return e.World.ReadFile(ctx, name)
	}
}

// narrow leaves the discovered cluster and the current user alone, and wants them to be usable.
func (d *document) narrow() error {
	discovered, err := d.config.DiscoveryCluster()
	if err != nil {
		return err
	}
	if d.config.CurrentContext != "" && d.config.Contexts[d.config.CurrentContext] == nil {
		return fmt.Errorf("it has no context %q, though its current-context names it", d.config.CurrentContext)
	}
	if d.names = d.config.HasCredentials(); !d.names {
		if _, d.nobody = d.config.CurrentUser(); d.nobody == nil {
			d.nobody = d.config.CheckComplete()
		}
		d.config = pki.Anonymous(discovered)
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
		return errors.New("its insecure-skip-tls-verify turns off the verification of the server; replace it by the CA in certificate-authority-data")
	}
	if d.hasCA() {
		if _, err := pki.ParseCertificates(d.cluster.CertificateAuthorityData); err != nil {
			return fmt.Errorf("reading its CA: %w", err)
		}
	}
	return clientcmd.ConfirmUsable(api.Config(*d.config), "")
}

func (d *document) hasCA() bool { return len(d.cluster.CertificateAuthorityData) > 0 }

// distrusts explains why the server is not the one that the document leads to.
func (d *document) distrusts(err error) error {
	p := problem.New("", explainMistrust(err), "if the cluster has got a new CA, put that into certificate-authority-data of "+d.source+"; if not, another server answers at "+d.cluster.Server)
	if !d.hasCA() {
		p.Err = untrusted.Error(err)
		p.Hints = []string{"put the cluster's CA into certificate-authority-data of " + d.source + ": without it, this machine's trust store must vouch for the server"}
	}
	p.Alone = true
	return p
}

// identity is the document's user, or nobody.
func (d *document) identity() (state.Identity, error) {
	text, err := d.config.Encode()
	return state.Identity{Config: text}, err
}
