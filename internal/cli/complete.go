package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/world"
)

// completeLimit is how long a completion may take.
const completeLimit = 2 * time.Second

// addCompletions registers the possible values of flags, for the command and its subcommands.
// Other flags have no completions: file names would mislead.
func addCompletions(p *program, c *cobra.Command) {
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	offers := flagCompletions(p)
	for _, set := range []*pflag.FlagSet{c.LocalNonPersistentFlags(), c.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			name := flag.Name(f.Name)
			if _, taken := c.GetFlagCompletionFunc(f.Name); taken || offers[name] == nil {
				return
			}
			// fails only for one that was registered before
			_ = c.RegisterFlagCompletionFunc(f.Name, offers[name])
		})
	}
	for _, child := range c.Commands() {
		addCompletions(p, child)
	}
}

// flagCompletions are the values that flags may have.
func flagCompletions(p *program) map[flag.Name]cobra.CompletionFunc {
	file, dir := offerFiles(cobra.ShellCompDirectiveDefault),
		offerFiles(cobra.ShellCompDirectiveFilterDirs)
	var gates []string
	for _, g := range release.FeatureGates() {
		gates = append(gates, g.Name+"=true", g.Name+"=false")
	}
	return map[flag.Name]cobra.CompletionFunc{
		flag.CertDir: dir,
		flag.Clean:   someOf(config.CleanValues()),
		flag.ComponentConfigs: someOf([]string{"KubeletConfiguration",
			"KubeProxyConfiguration"}),
		flag.Config:                file,
		flag.CRISocket:             completeSockets(p.World),
		flag.DiscoveryFile:         file,
		flag.Events:                someOf([]string{eventsFormat}),
		flag.FeatureGates:          someOf(gates),
		flag.IgnorePreflightErrors: someOf(append([]string{"all"}, preflight.Names()...)),
		flag.Kubeconfig:            file,
		flag.KubeconfigDir:         dir,
		flag.KubernetesVersion:     someOf(completeVersions(p)),
		flag.NewConfig:             file,
		flag.OldConfig:             file,
		flag.Output:                someOf(outputFormats()),
		flag.Patches:               dir,
		flag.RootFS:                dir,
		flag.Trace:                 file,
		flag.Usages:                someOf(bootstrapapi.KnownTokenUsages),
	}
}

// offerFiles lets the shell complete names of files or directories.
func offerFiles(d cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) { return nil, d }
}

// someOf completes a list of words with commas between them, each at most once.
func someOf(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var fit []cobra.Completion
		for _, w := range words {
			if strings.HasPrefix(before+w, typed) &&
				!slices.Contains(strings.Split(before, ","), w) {
				fit = append(fit, before+w)
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeVersions are those that this program deploys best: the newest of its own line, and its
// own.
func completeVersions(p *program) []string {
	all := []string{"stable-1"}
	if tool, err := ownRelease(p); err == nil {
		all = append(all, "stable-"+tool.MinorVersion(), tool.String())
	}
	return all
}

// completeSockets are those of the container runtimes that run here.
func completeSockets(world func() world.World) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		found, err := world().Runtimes(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// tokenIDs are those of the tokens that the cluster knows. IDs are no secrets.
func tokenIDs(p *program, o *clusterOptions) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		real := p.World()
		found, _, err := knownTokens(ctx, real, clusterIdentity(ctx, p, c, o, real))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var all []cobra.Completion
		for _, t := range found {
			if !slices.ContainsFunc(args,
				func(arg string) bool { return strings.HasPrefix(arg, t.ID) }) {
				all = append(all, cobra.CompletionWithDesc(t.ID, t.Description))
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}
