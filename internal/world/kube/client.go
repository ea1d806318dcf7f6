package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// client is a connection to one API server as one identity.
type client struct {
	objects dynamic.Interface
	lists   rest.Interface
	watches rest.Interface // as lists, but a request may take longer than requestTimeout
	http    *http.Client
	server  string        // URL without a path
	outage  *atomic.Int64 // time of the last failed request, in Unix nanoseconds
}

// clientFor returns the cached client of an identity. It reads the kubeconfig each time, since a
// renewal may have changed it.
func (k *Cluster) clientFor(as state.Identity) (*client, error) {
	data, err := k.readKubeconfig(as)
	if err != nil {
		return nil, state.KubeconfigError{Err: err}
	}
	key := fmt.Sprintf("%s#%x", as.Key(), sha256.Sum256(data))
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.clients[key]; ok {
		return c, nil
	}
	c, err := k.newClient(data, as)
	if err != nil {
		err = fmt.Errorf("using %s: %w", describeIdentity(as), err)
		if as.Kubeconfig != "" {
			err = problem.New(err,
				"fix the file, or set --kubeconfig to another one, such as /etc/kubernetes/admin.conf on a control plane node")
		}
		return nil, world.Permanent(state.KubeconfigError{Err: err})
	}
	k.clients[key] = c
	return c, nil
}

func (k *Cluster) readKubeconfig(as state.Identity) ([]byte, error) {
	if as.Kubeconfig == "" {
		if len(as.Config) == 0 {
			return nil, errors.New("no kubeconfig was given")
		}
		return as.Config, nil
	}
	data, err := k.readFile(as.Kubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.During("reading the kubeconfig", err,
			"set --kubeconfig to an existing file, such as /etc/kubernetes/admin.conf on a control plane node")
	}
	if err != nil {
		return nil, problem.During("reading the kubeconfig", err,
			"set --kubeconfig to another file")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, problem.New(fmt.Errorf("the kubeconfig %s is empty", as.Kubeconfig),
			"restore it, or set --kubeconfig to another file, such as /etc/kubernetes/admin.conf on a control plane node")
	}
	return data, nil
}

func (k *Cluster) newClient(data []byte, as state.Identity) (*client, error) {
	config, err := k.newRESTConfig(data, as)
	if err != nil {
		return nil, err
	}
	config.UserAgent = k.UserAgent
	config.Timeout = requestTimeout
	config.QPS = -1
	config.DisableCompression = true
	config.WarningHandler = rest.NoWarnings{}
	var outage atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return trackingTransport{next, &outage}
	})
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	if server.Scheme != "https" {
		return nil, fmt.Errorf("its server %s is not an https URL", server)
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	// The credentials must not be sent to the target of a redirect.
	transport.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	config = dynamic.ConfigFor(config)
	config.GroupVersion = nil // each request has a path and each object a version of its own
	requests, err := rest.UnversionedRESTClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, err
	}
	endless := *transport
	endless.Timeout = 0
	watches, err := rest.UnversionedRESTClientForConfigAndClient(config, &endless)
	if err != nil {
		return nil, err
	}
	return &client{objects: dynamic.New(requests), lists: requests, watches: watches,
		http: transport, outage: &outage, server: strings.TrimSuffix(server.String(), "/")}, nil
}

// newRESTConfig checks the kubeconfig before client-go parses it, whose errors suggest environment
// variables that kubeadm does not read.
func (k *Cluster) newRESTConfig(data []byte, as state.Identity) (*rest.Config, error) {
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil, err
	}
	config.ResolvePaths(path.Dir(as.Kubeconfig))
	if err := config.CheckComplete(); err != nil {
		return nil, err
	}
	cluster, err := config.CurrentCluster()
	if err != nil {
		return nil, err
	}
	if cluster.InsecureSkipTLSVerify && !as.AllowInsecure {
		return nil, errors.New(
			"its insecure-skip-tls-verify disables verification of the server; put the CA into " +
				"certificate-authority-data instead")
	}
	if err := k.checkCertificates(config, cluster); err != nil {
		return nil, err
	}
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: api.Cluster{Server: as.Server}}
	return clientcmd.NewDefaultClientConfig(api.Config(*config), overrides).ClientConfig()
}

// checkCertificates checks that the CA is readable, and that the client certificate has its key
// and is valid by this machine's clock. Only the server can check which CA signed it.
func (k *Cluster) checkCertificates(config *pki.Kubeconfig, cluster *api.Cluster) error {
	if file := cluster.CertificateAuthority; file != "" &&
		len(cluster.CertificateAuthorityData) == 0 {
		if _, err := k.readFile(file); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("its certificate-authority is the file %s, which does not exist",
				file)
		} else if err != nil {
			return fmt.Errorf("reading its certificate-authority: %w", err)
		}
	}
	user, err := config.CurrentUser()
	if err != nil {
		return nil // anonymous
	}
	certs, err := config.ClientPair(k.readFile)
	if err != nil || certs == nil {
		return err
	}
	if user.Token != "" || user.TokenFile != "" || user.Exec != nil || user.AuthProvider != nil {
		return nil // the API server may authenticate the user by these
	}
	if err := pki.CheckPeriod(certs[0], time.Now()); err != nil {
		return problem.New(fmt.Errorf("its client %w", err),
			"renew the certificate on a control plane node, for example: kubeadm certs renew admin.conf",
			"or check this machine's clock: timedatectl")
	}
	return nil
}

// askedPauseKey is the context key of where a request notes, in nanoseconds, the pause that the server asks for.
type askedPauseKey struct{}

// trackingTransport removes Retry-After headers, as client-go would wait for seconds without a
// message, and notes them for Cluster.retry, which waits. It records the time of failed requests, including those that
// client-go retries itself.
type trackingTransport struct {
	next   http.RoundTripper
	outage *atomic.Int64
}

func (t trackingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if answer != nil {
		if asked, ok := r.Context().Value(askedPauseKey{}).(*atomic.Int64); ok {
			asked.Store(int64(world.AskedPause(answer)))
		}
		answer.Header.Del("Retry-After")
	}
	if failed := answer == nil || answer.StatusCode >= http.StatusInternalServerError; failed &&
		r.Context().Err() == nil {
		t.outage.Store(time.Now().UnixNano())
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport. client-go uses it to cancel requests.
func (t trackingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// readHealth reads one of the health endpoints of the API server.
func (c *client) readHealth(ctx context.Context,
	path string) (status int, report string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	return answer.StatusCode, string(body), err
}

// describeIdentity returns a text for messages.
func describeIdentity(as state.Identity) string {
	if as.Kubeconfig != "" {
		return as.Kubeconfig
	}
	return "the credentials of this command"
}
