package nodename

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

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

	isWorker bool // this machine is a worker, by its files
}

// Command is the command that gives this node one of the two names; empty if that is not fit to be copied into a shell. On a
// worker it names the administrator's kubeconfig, since a kubelet cannot create another Node.
func (r Record) Command(name string) string { return untrusted.Command(r.commandText(), name) }

func (r Record) commandText() string {
	if r.isWorker {
		return existing.RenameWorkerCommand
	}
	return existing.RenameCommand
}

// Hint is the hint to run the Command.
func (r Record) Hint(what, name string) string {
	return untrusted.CommandHint(what, r.commandText(), name)
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
	hasAPIServer, err := state.Exists(ctx, r, p.Manifest(release.APIServer))
	found.isWorker = !hasAPIServer
	return &found, err
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
		r.Hint("complete it", r.Other),
		r.Hint("or take it back, as long as that Node exists", r.Original))
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
