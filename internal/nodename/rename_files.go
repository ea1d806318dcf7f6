package nodename

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// FindFiles finds the files of the kubelet that change with the name of its Node: environment files and, on a machine with an
// etcd member, its manifest. It is told the name, unless nothing tells it one and that is the name of the host.
func (r Rename) FindFiles(ctx context.Context, e *engine.Env, local node.Local) (all []File, err error) {
	local.Name = r.To
	k, err := ReadKubelet(ctx, e.World, local)
	if err != nil {
		return nil, err
	}
	if k.IsUnit && k.Name != r.To {
		return nil, newPresentUnitError(k, r.From())
	}
	for i, file := range local.Paths.KubeletEnvFiles() {
		before, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return nil, err
		}
		now := []byte(replaceOverride(string(before), r.To))
		if i == 0 && k.File == "" && k.Name != r.To {
			if now, err = config.HostnameOverride(r.To).Edit(before); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
		if string(now) != string(before) {
			all = append(all, File{Path: file, Before: string(before), Existed: before != nil, Now: string(now)})
		}
	}
	if !r.RenamesMember() {
		return all, nil
	}
	file := local.Paths.Manifest(manifest.Etcd)
	before, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return nil, err
	}
	now, err := r.renameMember(before)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if string(now) != string(before) {
		all = append(all, File{Path: file, Before: string(before), Existed: true, Now: string(now)})
	}
	return all, nil
}

// RenamesMember reports whether the etcd member of this machine has the name of the node. An administrator may have given it
// another one, by the argument name in etcd.local.extraArgs: it keeps that.
func (r Rename) RenamesMember() bool {
	return r.Member != nil && (r.Member.Name == r.From() || r.Member.Name == r.To)
}

// newPresentUnitError is the error of a kubelet that has its name from the unit of its service. It is not told to change the
// name there: a kubelet that restarts with another name than its certificate is refused.
func newPresentUnitError(k Kubelet, name string) error {
	return problem.New(fmt.Errorf("%s sets the name of the kubelet, --hostname-override, and kubeadm does not edit that file",
		untrusted.Line(k.File)), "move the argument to KUBELET_EXTRA_ARGS in /etc/default/kubelet, or /etc/sysconfig/kubelet with "+
		"RPM packages, with its present value: --hostname-override="+untrusted.Line(name),
		"then run: systemctl daemon-reload, and this command again")
}

// renameMember returns the manifest of etcd with the new name of the member; the same data if it has that. Comments of a
// manifest that changes are lost.
func (r Rename) renameMember(data []byte) ([]byte, error) {
	var pod map[string]any
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, err
	}
	changed := false
	spec, _ := pod["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, one := range containers {
		c, _ := one.(map[string]any)
		for _, field := range []string{"command", "args"} {
			list, _ := c[field].([]any)
			for i, value := range list {
				if text, ok := value.(string); ok {
					list[i] = r.renameArgument(text)
					changed = changed || list[i] != text
				}
			}
		}
	}
	if !changed {
		return data, nil
	}
	return yaml.Marshal(pod)
}
