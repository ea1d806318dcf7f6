package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Key is a digest of a part's inputs.
type Key string

// NewKey returns the key of inputs; their order and their boundaries matter.
func NewKey(inputs ...string) Key {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d:%s", len(in), in)
	}
	return Key(hex.EncodeToString(h.Sum(nil))[:16])
}

// Sources is a digest of the names and contents of the files under root that match the patterns,
// without tests. A pattern that matches nothing is an error.
func Sources(root string, patterns ...string) (string, error) {
	h := sha256.New()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", err
		}
		if len(files) == 0 {
			return "", fmt.Errorf("reading sources: no file matches %s in %s", pattern, root)
		}
		slices.Sort(files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			if err := addFile(h, root, file); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addFile(w io.Writer, root, file string) error {
	name, err := filepath.Rel(root, file)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%q %d:%s", name, len(data), data)
	return err
}
