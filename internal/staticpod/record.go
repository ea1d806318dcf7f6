package staticpod

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// record is the file that says that the static Pod of a component is being replaced, and how to
// restore the previous one. It is written before the first change and removed when the new Pod is
// healthy or the previous one is restored, so that the next run can complete one that was killed in
// between. It is stored beside the journal, which a reset removes first.
type record struct {
	// path of the backup of the last manifest whose Pod was healthy
	Backup   string `json:"backup"`
	Previous string `json:"previous"` // digest of that manifest
	// digests of the manifests that replaced it, oldest first
	Written []string `json:"written"`
	PodUIDs []string `json:"podUIDs"` // of the Pods of the previous manifest
	// Wanted is the last manifest that replaced it, so that it can be written again.
	Wanted string `json:"wanted,omitempty"`
	// Restored is set before the previous version of etcd is restored.
	Restored bool `json:"restored,omitempty"`
}

func recordPath(p node.Paths, component string) string {
	return path.Join(p.Journal(), "replacing-"+component+".json")
}

// readRecord returns the record of an unfinished run, nil if there is none. A record that does not
// decode is ignored: the manifest on disk is then the one to restore.
func readRecord(ctx context.Context, e *engine.Env, p node.Paths,
	component string) (*record, error) {
	file := recordPath(p, component)
	data, err := state.ReadOptional(ctx, e.World, file)
	if err != nil || data == nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		e.Warn("ignoring %s, which is not valid: %v", file, err)
		return &record{}, nil
	}
	return &r, nil
}

func (r record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings always encode
	}
	return append(data, '\n')
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
