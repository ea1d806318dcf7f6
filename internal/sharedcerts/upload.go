// Package sharedcerts uploads what control planes share for those that join: the certificates, and the
// files of the user that arguments of components name. They are encrypted, in Secrets that expire after
// two hours. It also downloads these files.
package sharedcerts

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Upload uploads the certificates and the files that arguments name, encrypted with the node's
// certificate key. It replaces those that were uploaded before with another key, which then decrypts
// nothing any more.
func Upload(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) error {
	key, err := pki.ParseCertificateKey(n.CertificateKey)
	if err != nil {
		return err
	}
	if err := certstore.CheckUploadable(ctx, e.World, n); err != nil {
		return err
	}
	plain, err := readSharedFiles(ctx, e, n)
	if err != nil {
		return err
	}
	owner, err := createOwner(ctx, e, as)
	if err != nil {
		return err
	}
	encrypted, err := encryptFiles(ctx, e, as, key, plain)
	if err != nil {
		return err
	}
	secret := manifest.NewCertsSecret(encrypted, owner)
	e.Say("uploading the certificates to Secret %q in namespace %q", secret.Name, secret.Namespace)
	if err := e.DoAll(ctx, change.ApplyAll(as, append(manifest.CertsAccess.Objects(), secret)...)...); err != nil {
		return err
	}
	return uploadFiles(ctx, e, n, as, owner)
}

// createOwner creates the bootstrap token that owns the Secret. When it expires, its Secret and
// that of the certificates are deleted. That of an interrupted run gets its whole lifetime again,
// unless it has lost less than renewAfter of it.
func createOwner(ctx context.Context, e *engine.Env, as state.Identity) (*corev1.Secret, error) {
	const name = "upload-certs/owner"
	token, err := e.Once(ctx, name, func() (string, error) {
		id, secret, err := node.NewToken(e.Rand(name))
		return id + "." + secret, err
	})
	if err != nil {
		return nil, err
	}
	id, secret, _ := strings.Cut(token, ".")
	want := manifest.NewCertsOwner(id, secret, e.World.Now())
	renew := func(existing *unstructured.Unstructured) error { return renewOwner(existing, want) }
	if err := e.Do(ctx, change.MutateObject{Object: want, As: as, Mutate: renew}); err != nil {
		return nil, err
	}
	return readSecret(ctx, e, state.RefOf(want, as))
}

// renewAfter is how much earlier than promised an upload may expire: a run that is resumed within
// that time changes nothing.
const renewAfter = 10 * time.Minute

// renewOwner gives the existing token the expiration of the new one, if that is renewAfter later.
func renewOwner(existing *unstructured.Unstructured, want *corev1.Secret) error {
	const key = bootstrapapi.BootstrapTokenExpirationKey
	var old corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(existing.Object, &old); err != nil {
		return fmt.Errorf("reading Secret %s: %w", existing.GetName(), err)
	}
	end, err := time.Parse(time.RFC3339, string(want.Data[key]))
	if err != nil {
		return err
	}
	if now, err := time.Parse(time.RFC3339, string(old.Data[key])); err == nil &&
		end.Sub(now) < renewAfter {
		return nil
	}
	return unstructured.SetNestedField(existing.Object,
		base64.StdEncoding.EncodeToString(want.Data[key]), "data", key)
}

func readSecret(ctx context.Context, e *engine.Env, ref state.Ref) (*corev1.Secret, error) {
	u, err := e.Object(ctx, ref)
	if err != nil {
		return nil, err
	}
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return &s, nil
}

// readSharedFiles reads the shared files, by their names in the Secret. The file of an external
// CA's key is empty.
func readSharedFiles(ctx context.Context, e *engine.Env, n *node.Node) (map[string][]byte, error) {
	plain := map[string][]byte{}
	for name, path := range n.SharedFiles() {
		data, err := e.World.ReadFile(ctx, path)
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, "ca.key")) {
			return nil, problem.During("reading the shared certificates", err,
				"run this command on a control plane node; if the file is missing there, create it: kubeadm init phase certs all")
		}
		if err == nil && len(data) == 0 && !strings.HasSuffix(path, "ca.key") {
			return nil, problem.During(
				"checking the shared certificates before the upload",
				fmt.Errorf("%s is empty", path),
				"restore the file, or copy it from another control plane node")
		}
		plain[name] = data
	}
	if _, err := pki.ParseSharedFiles(plain); err != nil {
		return nil, problem.During(
			"checking the shared certificates before the upload", err,
			"fix or replace these files in "+n.Paths.Certificates+
				", or those of etcd.external in the configuration")
	}
	return plain, nil
}

// encryptFiles encrypts the files. It keeps the encrypted text of an earlier upload with the same
// key.
func encryptFiles(ctx context.Context, e *engine.Env, as state.Identity, key pki.CertificateKey,
	plain map[string][]byte) (map[string][]byte, error) {
	var before map[string][]byte
	old, err := readSecret(ctx, e, state.RefOf(manifest.NewCertsSecret(nil, &corev1.Secret{}), as))
	switch {
	case err == nil:
		before = old.Data
		decrypts := func(data []byte) bool { _, err := key.Decrypt(data); return err == nil }
		if len(before) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(before)), decrypts) {
			e.Say("replacing the certificates that were uploaded earlier: their certificate key becomes invalid")
		}
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	encrypted := map[string][]byte{}
	for name, data := range plain {
		if opened, err := key.Decrypt(before[name]); err == nil && bytes.Equal(opened, data) {
			encrypted[name] = before[name]
			continue
		}
		if len(data) == 0 {
			encrypted[name] = []byte{}
			continue
		}
		if encrypted[name], err = key.Encrypt(e.Rand("upload-certs/"+name), data); err != nil {
			return nil, err
		}
	}
	return encrypted, nil
}
