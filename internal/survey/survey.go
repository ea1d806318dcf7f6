// Package survey looks at a machine for what finds its way into the files made for it.
// It only reads.
package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// Inputs are all that manifests take besides the intent. warn is told of each patch file that is skipped, and why.
func Inputs(ctx context.Context, r change.Reader, n *node.Node, warn func(format string, args ...any)) (h manifest.Host, p manifest.Patches, err error) {
	if h, err = Host(ctx, r, n); err != nil {
		return h, p, err
	}
	p, notes, err := Patches(ctx, r, n.Patches)
	for _, note := range notes {
		warn("%s", note)
	}
	return h, p, err
}

// Host is what manifests must know of this machine. Members is left for those who join an etcd.
func Host(ctx context.Context, r change.Reader, n *node.Node) (h manifest.Host, err error) {
	for _, dir := range manifest.CADirs() {
		found, err := Exists(ctx, r, dir)
		if err != nil {
			return h, err
		}
		if found {
			h.CADirs = append(h.CADirs, dir)
		}
	}
	info, err := r.Host(ctx)
	if err != nil {
		return h, err
	}
	h.Env = info.Env
	if h.ExternalCA, err = ExternalCA(ctx, r, n.Paths); err != nil {
		return h, err
	}
	if manifest.Rootless(n) {
		if h.Accounts, err = change.ReadAccounts(ctx, r, manifest.SystemAccounts().Dir); err != nil {
			return h, err
		}
	}
	resolved, err := r.Service(ctx, "systemd-resolved")
	if errors.Is(err, change.ErrNoInitSystem) {
		err = nil
	}
	h.Resolved = resolved.Active
	return h, err
}

// ExternalCA tells whether the cluster's CA is here without its key.
func ExternalCA(ctx context.Context, r change.Reader, p node.Paths) (bool, error) {
	cert, err := Exists(ctx, r, p.Cert("ca"))
	if err != nil || !cert {
		return false, err
	}
	key, err := Exists(ctx, r, p.Key("ca"))
	return !key, err
}

// Stored reads the two files of a certificate by its base name, such as "etcd/server".
func Stored(ctx context.Context, r change.Reader, p node.Paths, base string) (s pki.Stored, err error) {
	s.Certificate, err = Optional(ctx, r, p.Cert(base))
	if err == nil {
		s.Key, err = Optional(ctx, r, p.Key(base))
	}
	return s, err
}

// Trusted is an error if the CA is not one of those of the cluster that this machine has found.
func Trusted(n *node.Node, ca *x509.Certificate) error {
	config, err := pki.ParseKubeconfig(n.Bootstrap)
	if err != nil {
		return err
	}
	found, err := config.Trusted()
	if err == nil && !slices.ContainsFunc(found, ca.Equal) {
		err = errors.New("it is of another cluster than the one that was found")
	}
	return err
}

// Optional reads a file; where there is none it returns nil.
func Optional(ctx context.Context, r change.Reader, name string) ([]byte, error) {
	data, err := r.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, change.Misplaced(ctx, r, name, err)
}

// Needed reads a file that must be there.
func Needed(ctx context.Context, r change.Reader, name string) ([]byte, error) {
	data, err := r.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	return data, change.Misplaced(ctx, r, name, err)
}

// Patches reads the user's directory of patch files, and those below it, in order of
// names. An empty dir means that there are none.
func Patches(ctx context.Context, r change.Reader, dir string) (manifest.Patches, []string, error) {
	if dir == "" {
		return manifest.Patches{}, nil, nil
	}
	files, err := patchFiles(ctx, r, dir)
	var p manifest.Patches
	var notes []string
	if err == nil {
		p, notes, err = manifest.ParsePatches(files)
	} else {
		err = fmt.Errorf("reading patches from %s: %w", untrusted.Line(dir), err)
	}
	if err != nil {
		return manifest.Patches{}, nil, problem.New("", err, "fix the patches, or name another directory with --patches")
	}
	return p, notes, nil
}

func patchFiles(ctx context.Context, r change.Reader, dir string) ([]manifest.PatchFile, error) {
	inside, err := r.ReadDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	var all []manifest.PatchFile
	for _, f := range inside {
		if f.Mode.IsDir() {
			below, err := patchFiles(ctx, r, f.Path)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		}
		file := manifest.PatchFile{Name: f.Path}
		if manifest.NamesPatch(f.Path) { // others may be of any size and kind, such as the link ..data of a mounted ConfigMap
			if file.Data, err = r.ReadFile(ctx, f.Path); err != nil {
				return nil, err
			}
		}
		all = append(all, file)
	}
	return all, nil
}

// Exists reports whether there is a file or directory.
func Exists(ctx context.Context, r change.Reader, name string) (bool, error) {
	_, err := r.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, change.Misplaced(ctx, r, name, err)
}
