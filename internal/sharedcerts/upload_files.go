package sharedcerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// A Secret holds at most 1 MiB.
const (
	maxFileSize  = 512 << 10
	maxFilesSize = 900 << 10 // of all files, encrypted
)

// UploadFiles uploads the files referenced by component arguments, encrypted with the node's certificate key.
// A file that cannot be uploaded is a warning. Without such files it does nothing.
func UploadFiles(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) error {
	return uploadFiles(ctx, e, n, as, nil)
}

// uploadFiles creates the owner of the Secret if it is nil.
func uploadFiles(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity, owner *corev1.Secret) error {
	files, err := readArgumentFiles(ctx, e, n)
	if err != nil || len(files) == 0 {
		return err
	}
	if owner == nil {
		if owner, err = createOwner(ctx, e, as); err != nil {
			return err
		}
	}
	encrypted, err := encryptArgumentFiles(ctx, e, as, n.CertificateKey, files)
	if err != nil {
		return err
	}
	secret := manifest.NewFilesSecret(encrypted, owner)
	var names []string
	for _, f := range files {
		names = append(names, untrusted.Line(f.Path))
	}
	e.Say("uploading files referenced by component arguments to Secret %q in namespace %q: %s", secret.Name,
		secret.Namespace, strings.Join(names, ", "))
	return e.DoAll(ctx, change.ApplyAll(as, append(manifest.FilesAccess.Objects(), secret)...)...)
}

// readArgumentFiles reads those files, as far as they are regular files that fit in the Secret.
func readArgumentFiles(ctx context.Context, e *engine.Env, n *node.Node) (all []argumentFile, err error) {
	named, err := preflight.UploadedFiles(n)
	if err != nil || len(named) == 0 {
		return nil, err
	}
	var accounts change.Accounts
	if manifest.IsRootless(n) {
		if accounts, err = change.ReadAccounts(ctx, e.World, manifest.SystemAccounts().Dir); err != nil {
			return nil, err
		}
	}
	// The names in the Secret follow the paths, so that an upload that is repeated changes nothing.
	slices.SortFunc(named, func(a, b preflight.ArgumentFile) int { return strings.Compare(a.Path, b.Path) })
	size := 0
	for _, from := range named {
		skip := func(why string, args ...any) {
			e.Warn("%s (%s) is not uploaded: %s; copy it to each control plane node manually", untrusted.Line(from.Path),
				untrusted.Line(from.Argument), fmt.Sprintf(why, args...))
		}
		info, err := e.World.Stat(ctx, from.Path)
		if errors.Is(err, fs.ErrNotExist) {
			skip("it is not on this machine")
			continue
		}
		if err != nil {
			return nil, err
		}
		if !info.Mode.IsRegular() {
			skip("it is not a regular file")
			continue
		}
		if info.Size > maxFileSize {
			skip("it has %d bytes, and at most %d KiB fit in the Secret", info.Size, maxFileSize>>10)
			continue
		}
		data, err := e.World.ReadFile(ctx, from.Path)
		if err != nil {
			return nil, err
		}
		if size += len(data) + 1024; size > maxFilesSize || len(data) > maxFileSize {
			size -= len(data) + 1024
			skip("the files together have more than %d KiB", maxFilesSize>>10)
			continue
		}
		f := newArgumentFile(from, info, data)
		f.nameAccounts(n, accounts)
		all = append(all, f)
	}
	return all, nil
}

// encryptArgumentFiles encrypts the files. It keeps the encrypted text of an earlier upload with the same key.
func encryptArgumentFiles(ctx context.Context, e *engine.Env, as state.Identity, certificateKey string,
	files []argumentFile) (map[string][]byte, error) {
	key, err := pki.ParseCertificateKey(certificateKey)
	if err != nil {
		return nil, err
	}
	var before map[string][]byte
	old, err := readSecret(ctx, e, state.RefOf(manifest.NewFilesSecret(nil, &corev1.Secret{}), as))
	switch {
	case err == nil:
		before = old.Data
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	encrypted := map[string][]byte{}
	for i, f := range files {
		plain, err := f.encode()
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("file-%d", i)
		if opened, err := key.Decrypt(before[name]); err == nil && bytes.Equal(opened, plain) {
			encrypted[name] = before[name]
			continue
		}
		if encrypted[name], err = key.Encrypt(e.Rand("upload-certs/"+name), plain); err != nil {
			return nil, err
		}
	}
	return encrypted, nil
}
