package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// UseLocalAPIServer makes the kubelet of a control plane node use the API server of its own node,
// so that the kubelet is never newer than its API server.
var UseLocalAPIServer = engine.Phase{
	Name:   "kubeconfig",
	Short:  "Make the kubelet use the API server of its own node",
	Hidden: true,
	When:   isControlPlaneNode,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		file := n.Paths.KubeletKubeconfig()
		old, err := state.ReadOptional(ctx, e.World, file)
		if err != nil || old == nil {
			return err
		}
		config, err := pki.ParseKubeconfig(old)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		cluster, err := config.CurrentCluster()
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if cluster.Server == n.LocalServerURL() { // perhaps since a run that was interrupted
			return restartKubelet(ctx, e, file)
		}
		if cluster.Server != n.ServerURL() {
			return nil
		}
		config.SetServer(n.LocalServerURL())
		data, err := config.Encode()
		if err != nil {
			return err
		}
		e.Say("switching %q to the API server of this node, %s", file, n.LocalServerURL())
		if err := e.Do(ctx, change.WriteFile{Path: file, Data: data, Mode: 0o600,
			Secret: true}); err != nil {
			return err
		}
		return restartKubelet(ctx, e, file)
	},
}

// restartKubelet restarts a running kubelet that is older than the file. A failure is a warning: the
// kubelet can go on with the file as it was. Without an init system it warns only if this run changed
// the file.
func restartKubelet(ctx context.Context, e *engine.Env, file string) error {
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if errors.Is(err, state.ErrNoInitSystem) && !e.Changed(change.FileTarget(file)) {
		return nil
	}
	if err == nil && kubelet.Active {
		err = localkubelet.Start(ctx, e, file)
	}
	if err != nil && ctx.Err() == nil {
		e.Warn("restart the kubelet so that it reads %s: %v", file, err)
		return nil
	}
	return err
}

func isControlPlaneNode(n *node.Node) (bool, string) {
	return n.Role == node.ControlPlane, "this machine is not a control plane node"
}

// UpgradeConfig writes the kubelet's configuration again, from what the cluster stores. The kubelet
// reads it when it is restarted.
var UpgradeConfig = engine.Phase{
	Name:  "kubelet-config",
	Short: "Upgrade the kubelet's configuration on this node",
	Long: "Write the kubelet's configuration file from the configuration stored in the cluster, the " +
		"patches and this node's instance configuration.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.Kubeconfig, flag.Patches},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := kubeletfile.WriteMissingInstance(ctx, e, n); err != nil {
			return err
		}
		data, err := kubeletfile.RenderConfig(ctx, e, n)
		if err != nil {
			return err
		}
		return kubeletfile.Replace(ctx, e, n.Paths.KubeletConfig(), data, staticpod.KubeletConfigBackup)
	},
}

// RemoveFlags removes flags from the kubelet's environment file with which the kubelet of the new
// version does not start.
var RemoveFlags = engine.Phase{
	Name:  "post-upgrade",
	Short: "Remove kubelet flags that the new version no longer supports",
	Long: "Remove flags that kubeadm set, and that the new kubelet version no longer supports, from the " +
		"kubelet's environment file.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := replaceFlags(ctx, e, n); err != nil {
			return err
		}
		return e.Do(ctx, staticpod.EndUpgrade(n.Paths)) // this phase is the last one
	},
}

func replaceFlags(ctx context.Context, e *engine.Env, n *node.Node) error {
	file := n.Paths.KubeletFlags()
	old, err := state.ReadOptional(ctx, e.World, file)
	if err != nil || old == nil {
		return err
	}
	target, err := version.ParseSemantic(n.Cluster.Version)
	if err != nil {
		return err
	}
	text, removed, unknown := removeFlags(string(old), target)
	for _, name := range unknown {
		e.Warn("the kubelet %s has no flag --%s: remove it from %s before you restart the kubelet",
			n.Cluster.Version, name, file)
	}
	if len(removed) == 0 {
		return nil
	}
	e.Say("removing flags that the kubelet %s does not have: --%s", n.Cluster.Version,
		strings.Join(removed, ", --"))
	return kubeletfile.Replace(ctx, e, file, []byte(text), staticpod.KubeletFlagsBackup)
}

// flagsOfKubeadm are flags that kubeadm of an earlier release has written.
func flagsOfKubeadm() []string {
	return []string{"pod-infra-container-image", "container-runtime-endpoint"}
}

// removeFlags removes the flags from an environment file that kubeadm wrote and that the kubelet of
// the version does not have. Of the user's flags it names those that this kubelet does not have.
func removeFlags(text string, kubelet *version.Version) (after string, removed, unknown []string) {
	var lines []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) != manifest.KubeletFlagsVariable || strings.ContainsAny(value, `\'`) {
			lines = append(lines, line)
			continue
		}
		var kept []string
		isValue := false // of the flag that was removed
		for _, word := range strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)) {
			bare, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
			isFlag := strings.HasPrefix(word, "-")
			if isValue && !isFlag {
				isValue = false
				continue
			}
			isValue = false
			gone := isFlag && release.CheckFlag(release.Kubelet, kubelet, bare) != nil
			switch {
			case gone && slices.Contains(flagsOfKubeadm(), bare):
				removed = append(removed, bare)
				isValue = !hasValue
				continue
			case gone:
				unknown = append(unknown, bare)
			}
			kept = append(kept, word)
		}
		lines = append(lines, fmt.Sprintf("%s=%q\n", name, strings.Join(kept, " ")))
	}
	if len(removed) == 0 {
		return text, nil, unknown
	}
	return strings.Join(lines, ""), removed, unknown
}
