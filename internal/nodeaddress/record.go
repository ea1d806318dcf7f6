package nodeaddress

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Record is what a control plane node knows of its previous addresses, until the change is finished: its
// certificates have them, and an interrupted run has left them in other files.
type Record struct {
	// From are previous addresses, and To is the one to which the node was moving last: an interrupted run may
	// have written it.
	From []string `json:"from"`
	To   string   `json:"to,omitempty"`
}

func recordPath(p node.Paths) string { return path.Join(p.Journal(), "addresses.json") }

// ReadRecord reads the record; it is empty if there is none.
func ReadRecord(ctx context.Context, r state.Reader, p node.Paths) (record Record, err error) {
	file := recordPath(p)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return record, err
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return record, problem.New(fmt.Errorf("reading %s: %w", file, err),
			"remove the file; the previous addresses stay in the certificates then")
	}
	return record, nil
}

// Store records the addresses of a move, before anything has the new one.
func (m Move) Store(ctx context.Context, e *engine.Env) error {
	record, err := ReadRecord(ctx, e.World, e.Local.Paths)
	if err != nil || slices.Equal(m.From, record.From) && m.To == record.To {
		return err
	}
	data, err := json.Marshal(Record{From: m.From, To: m.To})
	if err != nil {
		return err
	}
	file := recordPath(e.Local.Paths)
	return e.Do(ctx, change.MakeDir{Path: path.Dir(file), Mode: 0o700},
		change.WriteFile{Path: file, Data: append(data, '\n'), Mode: 0o600})
}

// RemoveRecord forgets the previous addresses.
func RemoveRecord(ctx context.Context, e *engine.Env) error {
	return e.Do(ctx, change.Remove{Path: recordPath(e.Local.Paths)})
}
