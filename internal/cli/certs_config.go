package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/world"
)

// certsOptions are the flags that say where the certificates of a control plane are.
type certsOptions struct{ certDir, file, kubeconfig string }

// bind defines the flags.
func (o *certsOptions) bind(c *cobra.Command) {
	paths := node.DefaultPaths()
	o.certDir, o.kubeconfig = paths.Certificates, paths.Kubeconfig("admin.conf")
	flagTargets{flag.CertDir: &o.certDir, flag.Config: &o.file,
		flag.Kubeconfig: &o.kubeconfig}.bind(c.Flags())
}

// readClusterOrConfig returns where the certificates of this control plane are and how they are
// generated: from the configuration file, or else from the cluster. If the cluster does not
// answer, the default paths are used, and the key algorithm is unknown.
func (p *program) readClusterOrConfig(c *cobra.Command, o *certsOptions,
	r *run.Run) (*node.Node, []string, error) {
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
	if !path.IsAbs(o.certDir) {
		return nil, nil, problem.New("",
			fmt.Errorf("--%s %q is not an absolute path", flag.CertDir, o.certDir),
			"set the absolute path of the directory")
	}
	p.warnOfForeignClient(ctx, c, r.World(), o.kubeconfig)
	n, warnings := p.readClusterConfig(ctx, o, r, planned)
	if c.Flags().Changed(string(flag.CertDir)) {
		n.Paths.Certificates = o.certDir
	}
	return n, warnings, nil
}

// Limits of reading the configuration of certificates from the cluster: a load balancer with a
// dead backend gets a second connection, and certificates can be renewed although the cluster is
// down.
const (
	memberLimit   = 10 * time.Second
	memberRetries = 3 * time.Second
)

// readClusterConfig reads the configuration from the cluster of this control plane, or returns the
// default one with a warning.
func (p *program) readClusterConfig(ctx context.Context, o *certsOptions, r *run.Run,
	defaults *node.Node) (*node.Node, []string) {
	defaults.Cluster.Algorithm = ""
	if _, err := r.World().Stat(ctx, o.kubeconfig); errors.Is(err, fs.ErrNotExist) {
		return defaults, nil
	}
	var warnings []string
	e := r.NewEnv(engine.Env{Local: defaults.Local,
		Emit: func(e engine.Event) { warnings = append(warnings, e.Text) }})
	ctx, cancel := context.WithTimeout(ctx, memberLimit)
	defer cancel()
	n, err := discovery.ExistingNode(world.WithRetry(ctx, memberRetries), e,
		p.readIdentity(ctx, e.World, o.kubeconfig))
	if err != nil {
		return defaults, []string{"could not read the configuration of certificates from the cluster, using the default: " + err.Error()}
	}
	return n, warnings
}
