package nodename

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

// File is a file before and after the change.
type File struct {
	Path    string `json:"path"`
	Before  string `json:"before"`
	Existed bool   `json:"existed"`
	Now     string `json:"now"`
}

// record is what a run writes before it replaces files, so that one after a kill knows the way back too.
type record struct {
	Files []File `json:"files"`
}

func recordPath(p node.Paths) string { return path.Join(p.Journal(), "node-name.json") }

// readRecord returns the files that an interrupted run has replaced; none if there was no such run.
func readRecord(ctx context.Context, r state.Reader, p node.Paths) ([]File, error) {
	file := recordPath(p)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return nil, err
	}
	var found record
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, problem.New(fmt.Errorf("reading %s: %w", file, err), "remove the file, and run this command again")
	}
	return found.Files, nil
}

// withInterrupted are files that are to be replaced, and those that an interrupted run has replaced.
func withInterrupted(files, interrupted []File) []File {
	all := slices.Clone(files)
	for _, f := range interrupted {
		if !slices.ContainsFunc(files, func(own File) bool { return own.Path == f.Path }) {
			all = append(all, f)
		}
	}
	return all
}

// Store records the files before they are replaced.
func (i Intent) Store(ctx context.Context, e *engine.Env) error {
	if len(i.Replaced) == 0 {
		return nil
	}
	data, err := json.Marshal(record{Files: i.Replaced})
	if err != nil {
		return err
	}
	file := recordPath(e.Local.Paths)
	return e.Do(ctx, change.MakeDir{Path: path.Dir(file), Mode: 0o700},
		change.WriteFile{Path: file, Data: append(data, '\n'), Mode: 0o600, Secret: true})
}

// RemoveRecord forgets the files: the kubelet runs with them, or they are as before.
func RemoveRecord(ctx context.Context, e *engine.Env) error {
	return e.Do(ctx, change.Remove{Path: recordPath(e.Local.Paths)})
}
