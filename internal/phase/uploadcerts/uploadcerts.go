// Package uploadcerts lends the certificates that control planes share to those that join, sealed and for two hours.
package uploadcerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Phase uploads the certificates if it is asked to.
var Phase = flow.Phase{
	Name:  "upload-certs",
	Short: "Lend the shared certificates to control planes that join",
	Long:  "Keep the certificates that all control planes share in a Secret, sealed by the certificate key, for two hours.",
	Flags: []flag.Name{flag.CertificateKey, flag.Config, flag.DryRun, flag.Kubeconfig, flag.SkipCertificateKeyPrint, flag.UploadCerts},
	Run: func(ctx context.Context, e *flow.Env) error {
		if !e.Local.UploadCerts {
			e.Say("nothing is uploaded; ask for it with --upload-certs")
			return nil
		}
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		if err := Upload(ctx, e, n, as); err != nil {
			return err
		}
		shown := n.CertificateKey
		if e.Withhold.CertificateKey {
			shown = flow.Withheld
		}
		e.Say("Using certificate key:\n%s", shown) // what programs look for: test/parity/phrases
		return nil
	},
}

// Upload lends the certificates, sealed by the node's certificate key. Those that were lent before
// under another key are replaced, and the other key opens nothing any more.
func Upload(ctx context.Context, e *flow.Env, n *node.Node, as state.Identity) error {
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
	sealed, err := encryptFiles(ctx, e, as, key, plain)
	if err != nil {
		return err
	}
	secret := manifest.Certs(sealed, owner)
	e.Say("keeping the certificates in Secret %q of namespace %q", secret.Name, secret.Namespace)
	return e.DoAll(ctx, change.ApplyAll(as, append(manifest.CertsAccess(), secret)...)...)
}

// createOwner makes the short-lived token whose end is the end of the uploaded certificates.
func createOwner(ctx context.Context, e *flow.Env, as state.Identity) (*corev1.Secret, error) {
	const name = "upload-certs/owner"
	token, err := e.Once(ctx, name, func() (string, error) {
		id, secret, err := node.NewToken(e.Rand(name))
		return id + "." + secret, err
	})
	if err != nil {
		return nil, err
	}
	id, secret, _ := strings.Cut(token, ".")
	want := manifest.CertsOwner(id, secret, e.World.Now())
	if err := e.Do(ctx, change.ApplyObject{Object: want, As: as, Keep: true}); err != nil {
		return nil, err
	}
	return readSecret(ctx, e, state.RefOf(want, as))
}

func readSecret(ctx context.Context, e *flow.Env, ref state.Ref) (*corev1.Secret, error) {
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

// hasOtherKey tells whether everything was sealed by another key.
func hasOtherKey(key pki.CertificateKey, sealed map[string][]byte) bool {
	for _, data := range sealed {
		if _, err := key.Open(data); err == nil {
			return false
		}
	}
	return len(sealed) > 0
}

// readSharedFiles reads what is to be shared, by the names under which it travels. The key of etcd's authority may be
// kept elsewhere; then what travels is empty.
func readSharedFiles(ctx context.Context, e *flow.Env, n *node.Node) (map[string][]byte, error) {
	plain := map[string][]byte{}
	for name, path := range n.SharedFiles() {
		data, err := e.World.ReadFile(ctx, path)
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, "ca.key")) {
			return nil, problem.New("reading what control planes share", err,
				"give this command on a control plane; where one lacks the file, run the certs phase first")
		}
		if err == nil && len(data) == 0 && !strings.HasSuffix(path, "ca.key") {
			return nil, problem.New("checking the files that control planes share before any of them is uploaded",
				fmt.Errorf("%s is empty", path), "put the file back, or copy it from another control plane")
		}
		plain[name] = data
	}
	if _, err := pki.ParseShared(plain); err != nil {
		return nil, problem.New("checking the files that control planes share before any of them is uploaded", err,
			"fix or replace these files below "+n.Paths.Certificates+", or where the configuration's etcd.external names them")
	}
	return plain, nil
}

// encryptFiles encrypts the files. What an earlier run of this command sealed with the same key is left as it is.
func encryptFiles(ctx context.Context, e *flow.Env, as state.Identity, key pki.CertificateKey, plain map[string][]byte) (map[string][]byte, error) {
	var before map[string][]byte
	old, err := readSecret(ctx, e, state.RefOf(manifest.Certs(nil, &corev1.Secret{}), as))
	switch {
	case err == nil:
		before = old.Data
		if hasOtherKey(key, before) {
			e.Say("replacing the certificates that were lent before: their key opens nothing any more")
		}
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	sealed := map[string][]byte{}
	for name, data := range plain {
		if opened, err := key.Open(before[name]); err == nil && bytes.Equal(opened, data) {
			sealed[name] = before[name]
			continue
		}
		if len(data) == 0 {
			sealed[name] = []byte{}
			continue
		}
		if sealed[name], err = key.Seal(e.Rand("upload-certs/"+name), data); err != nil {
			return nil, err
		}
	}
	return sealed, nil
}
