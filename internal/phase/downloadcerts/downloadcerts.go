// Package downloadcerts downloads the certificates and keys that control planes share, which
// another control plane has uploaded encrypted with the certificate key.
package downloadcerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
)

// Phase writes the uploaded files, if the user gives the certificate key.
var Phase = engine.Phase{
	Name:  "download-certs",
	Short: "Download the shared certificates that another control plane node has uploaded",
	Long: "Read the Secret kubeadm-certs, decrypt the certificates and keys in it with the certificate key, and write them to this machine. " +
		"The same is done with the Secret kubeadm-files: it has files that arguments of control plane components name, such as an audit policy. " +
		"Files that exist are kept.",
	Flags: flag.WithDiscovery(flag.CertificateKey, flag.Config, flag.ControlPlane, flag.DryRun),
	When: func(n *node.Node) (bool, string) {
		if ok, why := node.IsControlPlane(n); !ok {
			return false, why
		}
		return n.CertificateKey != "",
			"no certificate key was given, so the shared certificates must already be on this machine"
	},
	Run: func(ctx context.Context, e *engine.Env) error {
		if err := downloadCerts(ctx, e); err != nil {
			return err
		}
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		return sharedcerts.DownloadFiles(ctx, e, n, sharedcerts.FilesDownload{Read: discovery.ReadObject,
			As: state.Identity{Config: n.BootstrapKubeconfig}, Remedy: missingFileHint})
	},
}

// missingFileHint is the remedy for a file that no control plane node has uploaded.
const missingFileHint = "copy it to this machine, or upload it again on a control plane node that has it, which prints " +
	"a new join command: kubeadm token create --print-join-command --upload-certs"

// uploadAgainHint names the command that uploads the certificates again, with a new key.
const uploadAgainHint = "upload them again on a control plane node, which prints a new join command: kubeadm token create --print-join-command --upload-certs"

func downloadCerts(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	key, err := pki.ParseCertificateKey(n.CertificateKey)
	if err != nil {
		return err
	}
	if isDownloaded(ctx, e, n) {
		e.Say("using the shared certificates that an earlier run downloaded")
		return nil
	}
	e.Say("downloading the shared certificates from Secret %q in namespace %q",
		manifest.CertsSecret, "kube-system")
	encrypted, err := readSecret(ctx, e, n)
	if err != nil {
		return err
	}
	paths := n.SharedFiles()
	plain, err := decryptFiles(key, encrypted, paths)
	if err != nil {
		return err
	}
	if err := checkFiles(n, plain); err != nil {
		return problem.During("checking the files in Secret "+manifest.CertsSecret+
			" before any of them is written", err, uploadAgainHint)
	}
	files := newFiles(plain, paths)
	if err := checkNoForeignFiles(ctx, e, files); err != nil {
		return err
	}
	e.Say("writing the shared certificates to %q", n.Paths.Certificates)
	return e.Do(ctx, files...)
}

// isDownloaded reports whether an earlier run of the same command has written all files, and the
// CA is that of the discovered cluster: the earlier run may have discovered another one. The key of
// etcd's CA may be nowhere. The Secret may have expired since.
func isDownloaded(ctx context.Context, e *engine.Env, n *node.Node) bool {
	for name, path := range n.SharedFiles() {
		_, err := e.World.Stat(ctx, path)
		if errors.Is(err, fs.ErrNotExist) && name == pki.UploadedName("etcd/ca.key") {
			continue
		}
		if err != nil || !e.World.WasCreated(change.FileTarget(path)) {
			return false
		}
	}
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	here, err := certstore.ReadCA(ctx, e.World, n, profile)
	return err == nil && certstore.CheckDiscoveredCA(n, here.Certificate) == nil
}

// readSecret reads the Secret with the bootstrap credentials of this machine.
func readSecret(ctx context.Context, e *engine.Env, n *node.Node) (map[string][]byte, error) {
	ref := state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: "kube-system",
		Name: manifest.CertsSecret,
		As:   state.Identity{Config: n.BootstrapKubeconfig}}
	u, err := discovery.ReadObject(ctx, e, ref)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, problem.New(
			fmt.Errorf("no certificates are uploaded (an upload expires after two hours): %w",
				err), uploadAgainHint)
	case apierrors.IsUnauthorized(err):
		return nil, problem.New(
			fmt.Errorf("the API server no longer accepts the bootstrap token: %w", err),
			uploadAgainHint)
	case err != nil:
		return nil, fmt.Errorf("reading the uploaded certificates: %w", err)
	}
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return nil, fmt.Errorf("reading the uploaded certificates: %w", err)
	}
	return s.Data, nil
}

// decryptFiles decrypts all files. Only the key of a CA may be empty, encrypted or not: that of an
// external CA. It is left out.
func decryptFiles(key pki.CertificateKey, encrypted map[string][]byte,
	paths map[string]string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		data, ok := encrypted[name]
		if len(data) > 0 {
			var err error
			if data, err = key.Decrypt(data); err != nil {
				return nil, problem.During("decrypting "+name+" of Secret "+manifest.CertsSecret, err,
					"compare --certificate-key with the key that the upload printed", uploadAgainHint)
			}
		}
		switch {
		case len(data) > 0:
			all[name] = data
		case !ok || !strings.HasSuffix(name, "ca.key"):
			return nil, problem.New(
				fmt.Errorf("the Secret %s does not contain %q", manifest.CertsSecret, name), uploadAgainHint)
		}
	}
	return all, nil
}

// checkFiles checks that certificates and keys belong together, and that the CA is the discovered
// one.
func checkFiles(n *node.Node, plain map[string][]byte) error {
	parsed, err := pki.ParseSharedFiles(plain)
	if err != nil {
		return err
	}
	name := pki.UploadedName("ca.crt")
	if ca := parsed[name].Certificates[0]; certstore.CheckDiscoveredCA(n, ca) != nil {
		return fmt.Errorf("%s, with hash %s, is not the CA of the discovered cluster", name,
			pki.PinOf(ca))
	}
	return nil
}

// newFiles returns the files to write. Those with a private key, even if named as a certificate,
// are readable for root only.
func newFiles(plain map[string][]byte, paths map[string]string) []change.Change {
	var files []change.Change
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		f := change.WriteFile{Path: paths[name], Data: plain[name], Mode: 0o644}
		if strings.HasSuffix(name, ".key") || pki.ContainsPrivateKey(f.Data) {
			f.Mode, f.Secret = 0o600, true
		}
		files = append(files, f)
	}
	return files
}

// checkNoForeignFiles is an error if files that this command did not write differ from the
// downloaded ones.
func checkNoForeignFiles(ctx context.Context, e *engine.Env, files []change.Change) error {
	var errs []error
	for _, c := range files {
		f := c.(change.WriteFile)
		old, err := e.World.ReadFile(ctx, f.Path)
		if errors.Is(err, fs.ErrNotExist) || err == nil &&
			(bytes.Equal(old, f.Data) || e.World.WasCreated(f.Target())) {
			continue
		}
		if err == nil {
			err = fmt.Errorf("%s exists, but differs from that of the cluster", f.Path)
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return problem.New(errors.Join(errs...),
		"move these files out of the way, or run kubeadm reset if they belong to another cluster, then re-run the command")
}
