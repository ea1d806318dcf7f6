package reconfigure

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// previous is what this node ran before the change. It is stored beside the journal until the change is
// complete or taken back, so that a run after a kill knows the way back too.
type previous struct {
	Version   string            `json:"version"`             // of the cluster
	Manifests map[string]string `json:"manifests,omitempty"` // by component
	Kubelet   string            `json:"kubelet"`             // its configuration file
	// Written are the digests of what the change, and interrupted ones before it, replace them by.
	Written []string `json:"written"`

	isRecorded bool // a run was interrupted after it had begun to replace them
}

func recordPath(p node.Paths) string { return path.Join(p.Journal(), "reconfiguring.json") }

// readPrevious returns what this node ran before the change: as an interrupted run has recorded it, or as it
// is on disk. A record does not count if something else has changed the node since, such as an upgrade.
func readPrevious(ctx context.Context, e *engine.Env, n *node.Node) (previous, error) {
	present, err := readPresent(ctx, e, n)
	if err != nil {
		return present, err
	}
	file := recordPath(n.Paths)
	data, err := state.ReadOptional(ctx, e.World, file)
	if err != nil || data == nil {
		return present, err
	}
	var p previous
	if err := json.Unmarshal(data, &p); err != nil {
		return p, problem.New(fmt.Errorf("reading %s: %w", file, err),
			"remove the file, after you have checked that the components of this node run")
	}
	isKnown := func(now, before string) bool { return now == before || slices.Contains(p.Written, digest(now)) }
	counts := p.Version == present.Version && isKnown(present.Kubelet, p.Kubelet)
	for component, text := range present.Manifests {
		counts = counts && isKnown(text, p.Manifests[component])
	}
	if !counts {
		e.Say("ignoring %s: this node has been changed in another way since", file)
		return present, nil
	}
	p.isRecorded = true
	return p, nil
}

// readPresent returns what this node runs by its files.
func readPresent(ctx context.Context, e *engine.Env, n *node.Node) (previous, error) {
	p := previous{Version: n.Cluster.Version, Manifests: map[string]string{}}
	kubelet, err := state.ReadRequired(ctx, e.World, n.Paths.KubeletConfig())
	if err != nil {
		return p, err
	}
	p.Kubelet = string(kubelet)
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

// keep records it, before a part is replaced by what is written.
func (p *previous) keep(ctx context.Context, e *engine.Env, n *node.Node) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	p.isRecorded = true
	file := recordPath(n.Paths)
	return e.Do(ctx, change.MakeDir{Path: path.Dir(file), Mode: 0o700},
		change.WriteFile{Path: file, Data: append(data, '\n'), Mode: 0o600, Secret: true})
}

// expect notes what a part is to be replaced by.
func (p *previous) expect(text []byte) {
	if d := digest(string(text)); !slices.Contains(p.Written, d) {
		p.Written = append(p.Written, d)
	}
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// forgetPrevious removes the record: the change is complete, or taken back.
func forgetPrevious(ctx context.Context, e *engine.Env, n *node.Node) error {
	return e.Do(ctx, change.Remove{Path: recordPath(n.Paths)})
}
