package cli

import (
	"context"
	"io"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
)

// clusterOptions are the flags of commands that change the cluster and not this machine.
type clusterOptions struct {
	kubeconfig string
	dryRun     bool
}

func (o *clusterOptions) bindTo(c *cobra.Command) {
	flagTargets{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun}.bind(c.PersistentFlags())
}

// openClusterRun opens the run of such a command. Events go to out.
func openClusterRun(ctx context.Context, p *program, c run.Command,
	out io.Writer) (*run.Run, error) {
	h := runHost(p)
	h.Report.Text.Out = out
	c.Unlocked = true
	return run.Open(ctx, h, c)
}

// beginClusterRun chooses the world of such a command and returns the Env of its changes.
func beginClusterRun(ctx context.Context, r *run.Run, o *clusterOptions,
	local node.Local) (*engine.Env, error) {
	if err := r.Begin(ctx, &node.Node{Local: local}, config.RunOptions{DryRun: o.dryRun}); err != nil {
		return nil, err
	}
	return r.NewEnv(engine.Env{Local: local}), nil
}

// clusterIdentity is the user that such a command is towards the API server: that of --kubeconfig,
// or of the first default kubeconfig that exists.
func clusterIdentity(ctx context.Context, p *program, c *cobra.Command, o *clusterOptions,
	r state.Reader) state.Identity {
	if c.Flags().Changed(string(flag.Kubeconfig)) {
		warnOfForeignClient(ctx, p, c, r, o.kubeconfig)
		return readIdentity(ctx, p, r, o.kubeconfig)
	}
	var defaults []string // first those of kubectl
	if list, ok := p.Getenv("KUBECONFIG"); ok && list != "" {
		defaults = filepath.SplitList(list)
	} else if home := homeDir(p); home != "" {
		defaults = []string{path.Join(home, ".kube", "config")}
	}
	defaults = append(defaults, o.kubeconfig)
	for _, file := range defaults {
		if _, err := r.Stat(ctx, file); err == nil {
			return readIdentity(ctx, p, r, file)
		}
	}
	return state.Identity{Kubeconfig: defaults[0]}
}

// homeDir is the user's home directory, in the variable of Linux or that of Windows; it may be empty.
func homeDir(p *program) string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if dir, _ := p.Getenv(name); dir != "" {
			return filepath.ToSlash(dir)
		}
	}
	return ""
}

// apiLimit is how long such commands retry requests to the API server.
const apiLimit = time.Minute

// apiLimits are the settings of this machine that a command needs which reads no configuration.
func apiLimits() node.Local {
	return node.Local{Paths: node.DefaultPaths(), Timeouts: node.Timeouts{KubernetesAPI: apiLimit}}
}
