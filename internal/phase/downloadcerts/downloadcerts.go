// Package downloadcerts borrows the certificates and keys that control planes share from the cluster,
// where another control plane has lent them under the certificate key.
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
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Phase writes the lent files, if the user gives the key that opens them.
var Phase = flow.Phase{
	Name:  "download-certs",
	Short: "Get the shared certificates that another control plane lends",
	Long:  "Get the certificates and keys that all control planes share from the Secret kubeadm-certs, and open them with the certificate key.",
	Flags: flag.WithDiscovery(flag.CertificateKey, flag.Config, flag.ControlPlane, flag.DryRun),
	When:  hasCertificateKey,
	Run:   downloadCerts,
}

func hasCertificateKey(n *node.Node) (bool, string) {
	if ok, why := node.IsControlPlane(n); !ok {
		return false, why
	}
	return n.CertificateKey != "", "no certificate key was given: the shared certificates are those on this machine"
}

// uploadAgainHint is the command that lends the certificates once more, under a new key.
const uploadAgainHint = "on a control plane, lend them anew and get a fresh join command: kubeadm token create --print-join-command --upload-certs"

func downloadCerts(ctx context.Context, e *flow.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	key, err := pki.ParseCertificateKey(n.CertificateKey)
	if err != nil {
		return err
	}
	places := n.SharedFiles()
	if isDownloaded(ctx, e, places) && isOfDiscoveredCluster(ctx, e, n) {
		e.Say("using the shared certificates that an earlier run has got")
		return nil
	}
	e.Say("getting the shared certificates from Secret %q of namespace %q", manifest.CertsSecret, "kube-system")
	sealed, err := readSecret(ctx, e, n)
	if err != nil {
		return err
	}
	plain, err := decryptFiles(key, sealed, places)
	if err != nil {
		return err
	}
	if err := checkFiles(n, plain); err != nil {
		return problem.New("checking the files in Secret "+manifest.CertsSecret+" before any of them is written", err, uploadAgainHint)
	}
	files := newFiles(plain, places)
	if err := checkNoForeignFiles(ctx, e, files); err != nil {
		return err
	}
	e.Say("writing the shared certificates to %q", n.Paths.Certificates)
	return e.Do(ctx, files...)
}

// isDownloaded tells whether an earlier run of this same command has got all that there is to get: by now what
// was lent may have gone.
func isDownloaded(ctx context.Context, e *flow.Env, places map[string]string) bool {
	for _, path := range places {
		if _, err := e.World.Stat(ctx, path); err != nil || !e.World.Made(change.FileTarget(path)) {
			return false
		}
	}
	return true
}

// isOfDiscoveredCluster tells whether the CA that is here is that of the cluster that was found: the earlier run may have
// found another one.
func isOfDiscoveredCluster(ctx context.Context, e *flow.Env, n *node.Node) bool {
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	here, err := certstore.ReadCA(ctx, e.World, n, profile)
	return err == nil && certstore.CheckDiscoveredCA(n, here.Certificate) == nil
}

// readSecret reads the Secret as the machine that joins.
func readSecret(ctx context.Context, e *flow.Env, n *node.Node) (map[string][]byte, error) {
	ref := state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: "kube-system", Name: manifest.CertsSecret,
		As: state.Identity{Config: n.Bootstrap}}
	u, err := discovery.Object(ctx, e, ref)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, problem.New("", fmt.Errorf("no control plane lends its certificates (they are taken back after two hours): %w", err), uploadAgainHint)
	case apierrors.IsUnauthorized(err):
		return nil, problem.New("", fmt.Errorf("the API server does not accept the bootstrap token any more: %w", err), uploadAgainHint)
	case err != nil:
		return nil, fmt.Errorf("reading the lent certificates: %w", err)
	}
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return nil, fmt.Errorf("reading the lent certificates: %w", err)
	}
	return s.Data, nil
}

// decryptFiles decrypts all files. Only the key of a CA may be empty, sealed or not, where the control plane that uploaded
// the files does not have it: it is left out.
func decryptFiles(key pki.CertificateKey, sealed map[string][]byte, places map[string]string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(places)) {
		data, ok := sealed[name]
		if len(data) > 0 {
			var err error
			if data, err = key.Open(data); err != nil {
				return nil, problem.New("decrypting "+name+" of Secret "+manifest.CertsSecret, err,
					"compare --certificate-key with what the control plane printed that uploaded the certificates", uploadAgainHint)
			}
		}
		switch {
		case len(data) > 0:
			all[name] = data
		case !ok || !strings.HasSuffix(name, "ca.key"):
			return nil, problem.New("", fmt.Errorf("the Secret %s lacks %q", manifest.CertsSecret, name), uploadAgainHint)
		}
	}
	return all, nil
}

// checkFiles is an error unless the files fit each other, and the cluster's CA is the one that discovery has verified.
func checkFiles(n *node.Node, plain map[string][]byte) error {
	parsed, err := pki.ParseShared(plain)
	if err != nil {
		return err
	}
	name := pki.SealedName("ca.crt")
	if ca := parsed[name].Certificates[0]; certstore.CheckDiscoveredCA(n, ca) != nil {
		return fmt.Errorf("%s, with hash %s, is not the CA of the cluster that was found", name, pki.PinOf(ca))
	}
	return nil
}

// newFiles gives whatever holds a private key to root alone, be it in a file of certificates.
func newFiles(plain map[string][]byte, places map[string]string) []change.Change {
	var files []change.Change
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		f := change.WriteFile{Path: places[name], Data: plain[name], Mode: 0o644}
		if strings.HasSuffix(name, ".key") || pki.HoldsPrivateKey(f.Data) {
			f.Mode, f.Secret = 0o600, true
		}
		files = append(files, f)
	}
	return files
}

// checkNoForeignFiles refuses to write over files of somebody else that differ from what is lent.
func checkNoForeignFiles(ctx context.Context, e *flow.Env, files []change.Change) error {
	var errs []error
	for _, c := range files {
		f := c.(change.WriteFile)
		old, err := e.World.ReadFile(ctx, f.Path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && (bytes.Equal(old, f.Data) || e.World.Made(f.Target())) {
			continue
		}
		if err == nil {
			err = fmt.Errorf("%s is there already and differs from that of the cluster", f.Path)
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return problem.New("", errors.Join(errs...), "move these files away, or run kubeadm reset if they are of another cluster, then give this command again")
}
