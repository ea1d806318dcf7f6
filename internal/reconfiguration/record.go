package reconfiguration

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// Record is what this node ran before the change. It is stored beside the journal until the change is
// complete or taken back, so that a run after a kill knows the way back too.
type Record struct {
	Version   string            `json:"version"`             // of the cluster
	Manifests map[string]string `json:"manifests,omitempty"` // by component
	Kubelet   string            `json:"kubelet"`             // its configuration file
	Flags     string            `json:"flags"`               // its environment file
	// Kubeconfig is that of the kubelet if the change replaces it.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Kubeconfigs are those of administrators and components that the change replaces, by their path.
	Kubeconfigs map[string]string `json:"kubeconfigs,omitempty"`
	// TakesBack is the ID of the change that was being taken back when a run was interrupted; empty for none.
	TakesBack string `json:"takesBack,omitempty"`
	// Leaves is the ID of the change that is the latest one once TakesBack is taken back; empty for none.
	Leaves string `json:"leaves,omitempty"`
	// Written are the digests of what the change, and interrupted ones before it, replace them by.
	Written []string `json:"written"`

	IsStored bool `json:"-"` // a run was interrupted after it had begun to replace them
}

func recordPath(p node.Paths) string { return path.Join(p.Journal(), "reconfiguring.json") }

// readStoredRecord returns what an interrupted run has stored; nil if there is nothing.
func readStoredRecord(ctx context.Context, r state.Reader, p node.Paths) (*Record, error) {
	file := recordPath(p)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return nil, err
	}
	record := &Record{IsStored: true}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, problem.New(fmt.Errorf("reading %s: %w", file, err),
			"remove the file, after you have checked that the components of this node run")
	}
	return record, nil
}

// isBeingTakenBack reports whether a run on this node was interrupted while it took a change back that the cluster has
// not stored. One of the endpoint may have left the node.
func (f finder) isBeingTakenBack(ctx context.Context, s *State) (bool, error) {
	if s.Stored != nil || s.Endpoint != nil || s.Node != f.here.Name {
		return false, nil
	}
	record, err := readStoredRecord(ctx, f.e.World, f.here.Paths)
	return record != nil && record.TakesBack == s.ID, err
}

// findForgotten returns the change that completes a take-back on this node, if a run was killed after the cluster had
// forgotten what it takes back, but before the record was removed; nil for none. Without it, an undo would take back the
// change before that one.
func (f finder) findForgotten(ctx context.Context, stored config.StoredConfig, found *State) (*State, error) {
	latest := ""
	if found != nil {
		latest = found.ID
	}
	record, err := readStoredRecord(ctx, f.e.World, f.here.Paths)
	if err != nil || record == nil || record.TakesBack == "" || record.Leaves != latest || found != nil && found.Stored == nil {
		return nil, err
	}
	s := f.newChange(found.Latest().endpoint(), stored, stored)
	s.Undoes, s.Forgets, s.Prepared = record.TakesBack, true, found.prepared()
	return s, nil
}

// CheckNone is an error if a change of the configuration was interrupted on this node.
func CheckNone(ctx context.Context, r state.Reader, p node.Paths) error {
	record, err := readStoredRecord(ctx, r, p)
	if err == nil && record != nil {
		err = problem.New(errors.New("a change of the configuration was interrupted on this node"),
			"complete it: kubeadm reconfigure node; see where it was begun: kubeadm reconfigure status")
	}
	return err
}

// ReadRecord returns what this node ran before the change: as an interrupted run has recorded it, or as it
// is on disk. A record does not count if something else has changed the node since, such as an upgrade.
func ReadRecord(ctx context.Context, e *engine.Env, n *node.Node) (*Record, error) {
	present, err := readPresent(ctx, e, n)
	if err != nil {
		return nil, err
	}
	r, err := readStoredRecord(ctx, e.World, n.Paths)
	if err != nil || r == nil {
		return present, err
	}
	isKnown := func(now, before string) bool { return now == before || r.hasWritten(now) }
	counts := r.Version == present.Version && isKnown(present.Kubelet, r.Kubelet) && isKnown(present.Flags, r.Flags)
	if r.Kubeconfig != "" {
		onDisk, err := state.ReadRequired(ctx, e.World, n.Paths.KubeletKubeconfig())
		if err != nil {
			return nil, err
		}
		counts = counts && isKnown(string(onDisk), r.Kubeconfig)
	}
	for component, text := range present.Manifests {
		counts = counts && isKnown(text, r.Manifests[component])
	}
	if !counts {
		e.Say("ignoring %s: this node has been changed in another way since", recordPath(n.Paths))
		return present, nil
	}
	return r, nil
}

// readPresent returns what this node runs by its files.
func readPresent(ctx context.Context, e *engine.Env, n *node.Node) (*Record, error) {
	p := &Record{Version: n.Cluster.Version, Manifests: map[string]string{}}
	kubelet, err := state.ReadRequired(ctx, e.World, n.Paths.KubeletConfig())
	if err != nil {
		return p, err
	}
	flags, err := state.ReadOptional(ctx, e.World, n.Paths.KubeletFlags())
	if err != nil {
		return p, err
	}
	p.Kubelet, p.Flags = string(kubelet), string(flags)
	if n.Role != node.ControlPlane {
		return p, nil
	}
	for _, component := range staticpod.Components(n) {
		text, err := state.ReadRequired(ctx, e.World, n.Paths.Manifest(component))
		if err != nil {
			return p, err
		}
		p.Manifests[component] = string(text)
	}
	return p, nil
}

// KubeletFiles are the files of the kubelet from before the change. One that it did not replace is that on disk.
func (r *Record) KubeletFiles(onDisk KubeletFiles) KubeletFiles {
	f := KubeletFiles{Config: []byte(r.Kubelet), Flags: []byte(r.Flags), Kubeconfig: []byte(r.Kubeconfig)}
	if r.Kubeconfig == "" {
		f.Kubeconfig = onDisk.Kubeconfig
	}
	return f
}

// Store stores it, before a part is replaced by what is written.
func (r *Record) Store(ctx context.Context, e *engine.Env, n *node.Node) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	r.IsStored = true
	file := recordPath(n.Paths)
	return e.Do(ctx, change.MakeDir{Path: path.Dir(file), Mode: 0o700},
		change.WriteFile{Path: file, Data: append(data, '\n'), Mode: 0o600, Secret: true})
}

// Expect notes what a part is to be replaced by.
func (r *Record) Expect(text []byte) {
	if !r.hasWritten(string(text)) {
		r.Written = append(r.Written, digest(string(text)))
	}
}

// Replaces notes that a kubeconfig is to be replaced. One that an interrupted run has written is not from before.
func (r *Record) Replaces(file string, before, after []byte) {
	if _, isNoted := r.Kubeconfigs[file]; !isNoted || !r.hasWritten(string(before)) {
		if r.Kubeconfigs == nil {
			r.Kubeconfigs = map[string]string{}
		}
		r.Kubeconfigs[file] = string(before)
	}
	r.Expect(after)
}

// HasWritten reports whether the change has written these data.
func (r *Record) HasWritten(data []byte) bool { return r.hasWritten(string(data)) }

func (r *Record) hasWritten(text string) bool { return slices.Contains(r.Written, digest(text)) }

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// RemoveRecord removes the record: the change is complete, or taken back.
func RemoveRecord(ctx context.Context, e *engine.Env, n *node.Node) error {
	return e.Do(ctx, change.Remove{Path: recordPath(n.Paths)})
}
