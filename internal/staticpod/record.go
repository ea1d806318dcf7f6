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

// record says on disk that the static Pod of a component is being replaced, and what leads back.
// It is written before the first change and removed when the new Pod serves or the old one is
// back, so that a run that was killed in between is completed by the next one. It lies with the
// journal, which a reset removes first.
type record struct {
	// path of the copy of the last manifest that is known to have worked
	Backup   string `json:"backup"`
	Previous string `json:"previous"` // digest of that manifest
	// digests of the manifests that were to take its place, oldest first
	Written []string `json:"written"`
	PodUIDs []string `json:"podUIDs"` // of the Pod that ran by the previous manifest
}

func recordFile(p node.Paths, component string) string {
	return path.Join(p.Journal(), "replacing-"+component+".json")
}

// readRecord returns what an unfinished run has left, nil if there is nothing. What cannot be read
// is as good as nothing: the manifest on disk is then what leads back.
func readRecord(ctx context.Context, e *engine.Env, p node.Paths, component string) (*record, error) {
	file := recordFile(p, component)
	data, err := state.ReadOptional(ctx, e.World, file)
	if err != nil || data == nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		e.Warn("%s cannot be read and is ignored: %v", file, err)
		return &record{}, nil
	}
	return &r, nil
}

func (r record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // plain strings always encode
	}
	return append(data, '\n')
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
