package nodename

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Rename is what the user wants of a Node that gets another name, for the phases.
type Rename struct {
	Record
	// Member is the etcd member of this machine; nil if it has none.
	Member *etcddata.Member
	// Etcd is how the members are reached.
	Etcd state.Etcd
	// Ask asks the user whether to go on, and is an error if not; nil if there is no question.
	Ask func(context.Context) error
}

// RenameOf is the intent of the command that a phase belongs to.
func RenameOf(e *engine.Env) Rename { return engine.IntentOf[Rename](e) }

// Record is what a machine knows of a change of its node's name, until that is complete.
type Record struct {
	// Original is the name that the node had when the change began, and Other the one that it was to get.
	Original string `json:"original"`
	Other    string `json:"other"`
	// To is the one that it gets now: Original if the change is taken back.
	To string `json:"to"`
	// UID is that of the Node Original: another one of that name is of another machine.
	UID string `json:"uid,omitempty"`
	// Cordoned is set if the node was cordoned before.
	Cordoned bool `json:"cordoned,omitempty"`
}

// From is the name that the node is to lose.
func (r Record) From() string {
	if r.To == r.Original {
		return r.Other
	}
	return r.Original
}

// IsBack reports whether the node returns to the name that it had.
func (r Record) IsBack() bool { return r.To == r.Original }

// Owns reports whether the Node From is of this machine, which may delete it: of the two machines of a name, one may have
// joined since the change began.
func (r Record) Owns(from *corev1.Node) bool {
	if r.IsBack() {
		return from.Annotations[node.RenamedFromAnnotation] == r.Original
	}
	return string(from.UID) == r.UID
}

func renamePath(p node.Paths) string { return path.Join(p.Journal(), "renaming.json") }

// ReadRename reads what a command has begun and not completed; nil if there is nothing.
func ReadRename(ctx context.Context, r state.Reader, p node.Paths) (*Record, error) {
	file := renamePath(p)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return nil, err
	}
	var found Record
	err = json.Unmarshal(data, &found)
	if err == nil && (found.Original == "" || found.Other == "" || found.To != found.Original && found.To != found.Other) {
		err = fmt.Errorf("it does not name two nodes, and one of them")
	}
	if err != nil {
		return nil, problem.New(fmt.Errorf("reading %s: %w", file, err),
			"remove the file once the kubelet runs under the name in its client certificate: kubeadm doctor")
	}
	return &found, nil
}

// CheckComplete is an error if a command has begun to change the name of this node, and has not completed that.
func CheckComplete(ctx context.Context, r state.Reader, p node.Paths) error {
	record, err := ReadRename(ctx, r, p)
	if err != nil || record == nil {
		return err
	}
	return record.NewIncompleteError()
}

// NewIncompleteError is the error of what cannot be done before the change is complete.
func (r Record) NewIncompleteError() error {
	return problem.New(fmt.Errorf("the change of this node's name from %s to %s is not complete",
		untrusted.Line(r.Original), untrusted.Line(r.Other)),
		untrusted.CommandHint("complete it", "kubeadm node-name change", r.Other),
		untrusted.CommandHint("or take it back, as long as that Node exists", "kubeadm node-name change", r.Original))
}

// Store records the change before anything else is changed.
func (r Record) Store(ctx context.Context, e *engine.Env) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file := renamePath(e.Local.Paths)
	return e.Do(ctx, change.MakeDir{Path: path.Dir(file), Mode: 0o700},
		change.WriteFile{Path: file, Data: append(data, '\n'), Mode: 0o600})
}

// RemoveRename forgets the change: it is complete.
func RemoveRename(ctx context.Context, e *engine.Env) error {
	return e.Do(ctx, change.Remove{Path: renamePath(e.Local.Paths)})
}

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
	for i, file := range kubeletfile.EnvFiles(local.Paths) {
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
