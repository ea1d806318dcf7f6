package portable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// MaxFileSize is how much of a file is read, in bytes.
const MaxFileSize = 16 << 20

// ReadLimited reads a file of at most MaxFileSize.
func ReadLimited(f *os.File) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err == nil && len(all) > MaxFileSize {
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", f.Name(), MaxFileSize>>20)
	}
	return all, err
}

// ReadDir lists a directory in order of names, each as describe describes it.
func ReadDir(dir string,
	describe func(path string, info fs.FileInfo) (state.FileInfo, error)) ([]state.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []state.FileInfo
	for _, e := range entries {
		var file state.FileInfo
		info, err := e.Info()
		if err == nil {
			file, err = describe(filepath.Join(dir, e.Name()), info)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// FileWriter replaces a file atomically. It calls ready when the new contents are in a temporary file;
// the file stays as it was if that fails.
type FileWriter func(ctx context.Context, c change.WriteFile, ready func() error) error

// WriteKeyPair replaces the key when the new certificate is complete in its temporary file. If the
// certificate cannot be replaced after that, the previous key is written again.
func (write FileWriter) WriteKeyPair(ctx context.Context, c change.WriteKeyPair) error {
	isReady := func() error { return nil }
	previous := c.Key
	var unread error
	previous.Data, unread = os.ReadFile(c.Key.Path)
	written := false
	err := write(ctx, c.Cert, func() error {
		err := write(ctx, c.Key, isReady)
		written = err == nil
		return err
	})
	if err != nil && written && unread == nil {
		err = errors.Join(err, write(context.WithoutCancel(ctx), previous, isReady))
	}
	return err
}
