package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
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

// certsConfig is where the certificates of this control plane are and how they are generated.
type certsConfig struct {
	*node.Node
	warnings []string
	asked    bool // there was a kubeconfig with which to read the configuration of the cluster
	answered bool // and the cluster has answered
}

// readClusterOrConfig reads the configuration file, or else the configuration of the cluster. If the
// cluster does not answer, the certificates directory is that of the manifests on this machine, and the
// key algorithm is unknown.
func readClusterOrConfig(p *program, c *cobra.Command, o *certsOptions,
	r *run.Run) (found certsConfig, err error) {
	ctx := c.Context()
	file, err := readConfig(ctx, p, r.World(), o.file)
	if err != nil {
		return found, err
	}
	tool, err := ownRelease(p)
	if err != nil {
		return found, err
	}
	host, err := r.World().Host(ctx)
	if err != nil {
		return found, err
	}
	planned, how, err := config.Certificates(file, config.Facts{Tool: tool, Platform: host.Platform})
	if err != nil || file.Given() {
		return certsConfig{Node: planned, warnings: how.Warnings}, err
	}
	o.certDir = host.Platform.Clean(o.certDir)
	if !host.Platform.IsAbs(o.certDir) {
		return found, problem.New(
			fmt.Errorf("--%s %q is not an absolute path", flag.CertDir, o.certDir),
			"set the absolute path of the directory")
	}
	warnOfForeignClient(ctx, p, c, r.World(), o.kubeconfig)
	found = readClusterConfig(ctx, p, o, r, planned)
	switch {
	case c.Flags().Changed(string(flag.CertDir)):
		found.Paths.Certificates = o.certDir
	case !found.answered:
		found.readCertificatesDir(ctx, r.World())
	}
	return found, nil
}

// readCertificatesDir takes the certificates directory from the manifest of this machine's API server, if there is one.
func (c *certsConfig) readCertificatesDir(ctx context.Context, r state.Reader) {
	local, err := existing.ReadAPIServer(ctx, r, c.Local)
	if dir := local.Paths.Certificates; dir != c.Paths.Certificates {
		c.Paths.Certificates = dir
		c.warnings = append(c.warnings, fmt.Sprintf("the certificates directory is %s, as the manifest of the API server says",
			untrusted.Line(dir)))
	}
	if err != nil {
		c.warnings = append(c.warnings, fmt.Sprintf("the certificates directory may not be %s: %v",
			untrusted.Line(c.Paths.Certificates), err))
	}
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
func readClusterConfig(ctx context.Context, p *program, o *certsOptions, r *run.Run,
	defaults *node.Node) certsConfig {
	defaults.Cluster.Algorithm = ""
	data, err := r.World().ReadFile(ctx, o.kubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return certsConfig{Node: defaults}
	}
	kubeconfig, err := pki.ParseKubeconfig(data)
	found := certsConfig{asked: err == nil && kubeconfig.CheckComplete() == nil}
	e := r.NewEnv(engine.Env{Local: defaults.Local,
		Emit: func(e engine.Event) { found.warnings = append(found.warnings, e.Text) }})
	ctx, cancel := context.WithTimeout(ctx, memberLimit)
	defer cancel()
	found.Node, err = existing.ReadCluster(world.WithRetry(ctx, memberRetries), e,
		readIdentity(ctx, p, e.World, o.kubeconfig))
	if err != nil {
		found.Node, found.warnings = defaults, []string{"could not read the certificate settings from the cluster, so the defaults are used: " + err.Error()}
		return found
	}
	found.answered = true
	return found
}

// completeMachine adds to the Node what the files of this machine say, and as its name the host name:
// the kubelet's certificate has the name that counts. The directory of the certificates stays the one that
// the command works in, which may be that of --cert-dir.
func completeMachine(ctx context.Context, r *run.Run, n *node.Node) (err error) {
	dir := n.Paths.Certificates
	n.Local, err = existing.ReadControlPlane(ctx, r.World(), n.Local)
	n.Paths.Certificates = dir
	n.Name = cmp.Or(n.Name, n.Hostname)
	return err
}
