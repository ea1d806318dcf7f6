package change

import (
	"context"
	"fmt"
	"strings"

	"kubeadm/internal/state"
)

// WriteKeyPair writes a private key and its certificate, which a component reads when it starts.
// Both files are complete on the disk before the first of them replaces the one before it, so that
// only a kill or a power cut between two renames can leave a key with the certificate of another one.
type WriteKeyPair struct{ Key, Cert WriteFile }

// Files are the two files, in the order in which they are replaced.
func (c WriteKeyPair) Files() []WriteFile { return []WriteFile{c.Key, c.Cert} }

// Target names the certificate.
func (c WriteKeyPair) Target() string { return c.Cert.Target() }

func (c WriteKeyPair) String() string {
	var names []string
	for _, f := range c.Files() {
		names = append(names, fmt.Sprintf("%q", f.Path))
	}
	return "write files " + strings.Join(names, " and ")
}

// Done reports whether both files have these bytes.
func (c WriteKeyPair) Done(ctx context.Context, r state.Reader) (bool, error) {
	for _, f := range c.Files() {
		if done, err := f.Done(ctx, r); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// Inverse writes the old bytes of both. If one of the files did not exist, it is ErrIrreversible.
func (c WriteKeyPair) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	key, err := c.Key.Inverse(ctx, r)
	if err != nil {
		return nil, err
	}
	cert, err := c.Cert.Inverse(ctx, r)
	if err != nil {
		return nil, err
	}
	oldKey, hadKey := key.(WriteFile)
	oldCert, hadCert := cert.(WriteFile)
	if !hadKey || !hadCert {
		return nil, ErrIrreversible
	}
	return WriteKeyPair{Key: oldKey, Cert: oldCert}, nil
}
