package cli

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/run"
	"kubeadm/internal/world"
)

// certsOptions are the flags by which commands find the certificates of a control plane.
type certsOptions struct{ certDir, file, kubeconfig string }

func newCertsOptions() *certsOptions {
	paths := node.DefaultPaths()
	return &certsOptions{certDir: paths.Certificates, kubeconfig: paths.Kubeconfig("admin.conf")}
}

func (o *certsOptions) values() values {
	return values{flag.CertDir: &o.certDir, flag.Config: &o.file, flag.Kubeconfig: &o.kubeconfig}
}

// readClusterOrConfig is what is known of the certificates of this control plane: from the file that the user names, or
// else from the cluster. A machine whose cluster gives no answer has them where they usually are; which kind of keys
// it wants is not known then.
func (p *program) readClusterOrConfig(c *cobra.Command, o *certsOptions, r *run.Run) (*node.Node, []string, error) {
	ctx := c.Context()
	file, err := p.readConfig(ctx, r.World(), o.file)
	if err != nil {
		return nil, nil, err
	}
	tool, err := p.tool()
	if err != nil {
		return nil, nil, err
	}
	planned, how, err := config.Certificates(file, config.Facts{Tool: tool})
	if err != nil || file.Given() {
		return planned, how.Warnings, err
	}
	p.warnOfForeignClient(ctx, c, r.World(), o.kubeconfig)
	n, warnings := p.readClusterConfig(ctx, o, r, planned)
	if c.Flags().Changed(string(flag.CertDir)) {
		n.Paths.Certificates = o.certDir
	}
	return n, warnings, nil
}

// Bounds of asking the cluster about its certificates: a load balancer with a dead backend gets a second connection, and a
// cluster that is down does not keep its certificates from being renewed.
const (
	memberLimit   = 10 * time.Second
	memberRetries = 3 * time.Second
)

// readClusterConfig asks the cluster of which this control plane is part; where it cannot be asked, the usual is taken.
func (p *program) readClusterConfig(ctx context.Context, o *certsOptions, r *run.Run, usual *node.Node) (*node.Node, []string) {
	usual.Cluster.Algorithm = ""
	if _, err := r.World().Stat(ctx, o.kubeconfig); errors.Is(err, fs.ErrNotExist) {
		return usual, nil
	}
	var warnings []string
	e := r.NewEnv(flow.Env{Local: usual.Local, Emit: func(e flow.Event) { warnings = append(warnings, e.Text) }})
	ctx, cancel := context.WithTimeout(ctx, memberLimit)
	defer cancel()
	n, err := discovery.Member(world.Retry(ctx, memberRetries), e, p.readIdentity(ctx, e.World, o.kubeconfig))
	if err != nil {
		return usual, []string{"the usual configuration of certificates is taken, since the cluster's is not to be had: " + err.Error()}
	}
	return n, warnings
}
