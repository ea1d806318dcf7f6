package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

func newKubeconfigCommand(p *program) *cobra.Command {
	c := newGroup("kubeconfig", "Generate kubeconfig files", newKubeconfigUserCommand(p))
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// userOptions are the flags of "kubeconfig user".
type userOptions struct {
	file, name, token string
	groups            []string
	validity          time.Duration
}

func newKubeconfigUserCommand(p *program) *cobra.Command {
	o := &userOptions{validity: v1beta4.DefaultCertValidity}
	c := &cobra.Command{
		Use:   "user",
		Short: "Print a kubeconfig for an additional user",
		Long: `Print a kubeconfig for an additional user of the cluster, with a token or with a client certificate that
the cluster CA on this machine signs. The user has no permissions until RBAC grants some to the user name or to one of
the groups. The certificate cannot be revoked before it expires. Without --config, the kubeconfig points to the server
in admin.conf.`,
		Example: `  # for user foo
  kubeadm kubeconfig user --client-name foo

  # for a user in a group, valid for a day, with the cluster's configuration
  kubeadm kubeconfig user --client-name foo --org viewers --validity-period 24h --config cluster.yaml`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return printKubeconfig(c.Context(), p, o) },
	}
	flagTargets{flag.ClientName: &o.name, flag.Config: &o.file, flag.Org: &o.groups,
		flag.Token: &o.token, flag.ValidityPeriod: &o.validity}.bind(c.Flags())
	c.Flags().Lookup(string(
		flag.Token)).Usage = "Token to put in the kubeconfig instead of a client certificate"
	return c
}

func printKubeconfig(ctx context.Context, p *program, o *userOptions) error {
	switch {
	case o.name == "":
		return problem.New(fmt.Errorf("--%s is required", flag.ClientName),
			fmt.Sprintf("set --%s to the name of the user", flag.ClientName))
	case o.validity <= 0:
		return fmt.Errorf("--%s: %s: must be a positive duration such as 24h", flag.ValidityPeriod,
			o.validity)
	}
	n, how, err := resolveOffline(ctx, p, o.file, config.NewInitFlags(), false)
	warnings := how.Warnings
	if o.token == "" && o.validity > v1beta4.DefaultCertValidity {
		warnings = append(warnings,
			fmt.Sprintf("--%s %s is longer than %s: a stolen key could be used for all that time",
				flag.ValidityPeriod, o.validity, v1beta4.DefaultCertValidity))
	}
	warn(p, "config", warnings...)
	if err != nil {
		return err
	}
	ca, err := userAuthority(ctx, p.World(), n)
	if err != nil {
		return err
	}
	access := pki.KubeconfigSpec{Server: n.ServerURL(), Cluster: n.Cluster.Name, User: o.name,
		CA: pki.EncodeCertificates(ca.Certificate)}
	if o.file == "" {
		useAdminCluster(ctx, p.World(), n, ca, &access)
	}
	config := access.WithToken(o.token)
	if o.token == "" {
		cert, key, err := issueUserCertificate(p, n, ca, o)
		if err != nil {
			return err
		}
		config = access.WithCertificate(cert, key)
	}
	text, err := config.Encode()
	if err == nil {
		_, err = fmt.Fprintln(p.Out, string(text))
	}
	return err
}

// userAuthority is the CA that signs the client certificate.
func userAuthority(ctx context.Context, real state.Reader, n *node.Node) (pki.CA, error) {
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	found, err := certstore.ReadPair(ctx, real, n.Paths, profile.Base)
	if err != nil {
		return pki.CA{}, err
	}
	cert, key := n.Paths.Cert(profile.Base), n.Paths.Key(profile.Base)
	remedy := "run the command on a control plane node that has the key of the cluster CA, or set certificatesDir in a file for --config"
	switch {
	case found.Certificate == nil:
		return pki.CA{}, problem.New(fmt.Errorf("the CA certificate %s does not exist", cert),
			remedy)
	case found.Key == nil:
		return pki.CA{}, problem.New(fmt.Errorf("%s does not exist", key), remedy)
	}
	return certstore.ReadCA(ctx, real, n, profile)
}

// useAdminCluster takes the name and the endpoint of the cluster from admin.conf: without a file the
// endpoint is not known otherwise. An admin.conf that trusts another CA, or names a server on this
// machine alone, is not used.
func useAdminCluster(ctx context.Context, real state.Reader, n *node.Node, ca pki.CA,
	access *pki.KubeconfigSpec) {
	admin, err := certstore.ReadAdmin(ctx, real, n.Paths.Kubeconfig("admin.conf"))
	if err != nil {
		return
	}
	trusted, err := admin.EmbeddedCAs()
	if err != nil || !slices.ContainsFunc(trusted, ca.Certificate.Equal) {
		return
	}
	cluster, err := admin.CurrentCluster()
	if err != nil {
		return
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "localhost" ||
		net.ParseIP(server.Hostname()).IsLoopback() {
		return
	}
	access.Server, access.Cluster = cluster.Server, admin.Contexts[admin.CurrentContext].Cluster
}

// issueUserCertificate returns a client certificate of the user, and its key, in PEM form.
func issueUserCertificate(p *program, n *node.Node, ca pki.CA, o *userOptions) (cert, key []byte, err error) {
	private, err := p.NewKey(n.Cluster.Algorithm)
	if err != nil {
		return nil, nil, err
	}
	validity := pki.Validity{NotBefore: ca.Certificate.NotBefore,
		NotAfter: p.World().Now().UTC().Add(o.validity)}
	issued, err := ca.Issue(p.Random("kubeconfig/user"), pki.ClientSpec(o.name, o.groups, validity),
		private.Public())
	if err != nil {
		return nil, nil, err
	}
	key, err = pki.EncodeKey(private)
	return pki.EncodeCertificates(issued), key, err
}
