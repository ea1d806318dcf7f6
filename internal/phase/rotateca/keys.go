package rotateca

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
)

// newRotation checks what this machine has, generates the new keys beside it and returns the
// rotation.
func newRotation(ctx context.Context, e *engine.Env, n *node.Node,
	names []string) (*rotation.State, error) {
	r := &rotation.State{Stage: rotation.Trust, Authorities: names, Old: map[string]string{},
		New: map[string]string{}, Started: metav1.Time{Time: e.World.Now()}}
	for _, a := range rotation.Authorities() {
		if !slices.Contains(names, a.Name) {
			continue
		}
		old, err := readPresent(ctx, e, n, a)
		if err != nil {
			return nil, err
		}
		r.Old[a.Name] = string(old)
	}
	for _, a := range rotation.Authorities() {
		if !slices.Contains(names, a.Name) {
			continue
		}
		text, err := createNew(ctx, e, n, a)
		if err != nil {
			return nil, err
		}
		r.New[a.Name] = string(text)
	}
	id, err := newID(r.New)
	r.ID = id
	return r, err
}

// newID names a rotation after its new keys.
func newID(public map[string]string) (string, error) {
	for _, name := range rotation.AuthorityNames() {
		if a, _ := rotation.FindAuthority(name); public[name] != "" {
			key, err := a.ParsePublicKey([]byte(public[name]))
			if err != nil {
				return "", err
			}
			id, err := keyID(key)
			return id[:min(12, len(id))], err
		}
	}
	return "", errors.New("there is nothing to replace")
}

// readPresent returns the certificate or public key that is replaced. There must be exactly one, and
// its key must be on this machine.
func readPresent(ctx context.Context, e *engine.Env, n *node.Node, a rotation.Authority) ([]byte, error) {
	file := n.Paths.Certificate(a.PublicKey)
	data, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return nil, err
	}
	if err := a.CheckPublic(data); err != nil {
		return nil, problem.New(fmt.Errorf("%s cannot be replaced: %w", file, err),
			"a CA bundle or chain of your own must be replaced manually",
			"leave it out: set --ca to the others of cluster,front-proxy,etcd,service-account")
	}
	if a.IsCA() {
		profile, _ := pki.ProfileOf(a.Profile)
		ca, err := certstore.ReadCA(ctx, e.World, n, profile)
		if err != nil {
			return nil, err
		}
		if !ca.CanIssue() {
			return nil, problem.New(fmt.Errorf("%s does not exist: the %s CA is external",
				n.Paths.Certificate(a.Key), a.Name),
				"replace it where its key is kept",
				"leave it out: set --ca to the others of cluster,front-proxy,etcd,service-account")
		}
	} else if err := certstore.CheckServiceAccountKeys(ctx, e.World, n); err != nil {
		return nil, err
	}
	if _, err := readKey(ctx, e.World, a, string(data), n.Paths.Certificate(a.Key)); err != nil {
		return nil, fmt.Errorf("%s: %w", n.Paths.Certificate(a.Key), err)
	}
	return firstPublic(a, data)
}

// createNew generates the new pair of an authority. A pair that an earlier run has left is replaced:
// it may be of a rotation that was given up, long ago or because its key was no longer a secret.
func createNew(ctx context.Context, e *engine.Env, n *node.Node, a rotation.Authority) ([]byte, error) {
	key, err := e.Keys(pki.Later)
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	data, err := pki.EncodePublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	if a.IsCA() {
		profile, _ := pki.ProfileOf(a.Profile)
		spec, _, err := profile.Spec(n.CertificateNames(), pki.NewValidity(e.World.Now(), n.Cluster.CAValidity))
		if err != nil {
			return nil, err
		}
		ca, err := pki.NewCA(e.Rand("ca-rotation/"+a.Name), key, spec)
		if err != nil {
			return nil, err
		}
		data = pki.EncodeCertificates(ca.Certificate)
	}
	e.Say("generating a new key for %s", a.Name)
	return data, writePair(ctx, e, newPairChange(sidePath(n.Paths, true), a, data, text))
}

// pair is the old or the new pair of an authority in a rotation.
type pair struct {
	rotation.Authority
	isNew  bool
	public string
}

// pairs are all pairs of the rotation.
func (m machine) pairs() []pair {
	var all []pair
	for _, a := range rotation.Authorities() {
		if m.Replaces(a.Name) {
			all = append(all, pair{a, false, m.Old[a.Name]}, pair{a, true, m.New[a.Name]})
		}
	}
	return all
}

// uploadedName is the name of the private key in the Secret.
func (p pair) uploadedName() string {
	return pki.UploadedName(path.Join(sideName(p.isNew), p.Key))
}

// hasKeys reports whether this machine has all private keys of the rotation. One that joined in
// between lacks those that do not sign at the moment.
func (m machine) hasKeys(ctx context.Context) (bool, error) {
	for _, p := range m.pairs() {
		_, err := m.findKey(ctx, p)
		if errors.Is(err, errKeyMissing) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// uploadKeys uploads the keys for the other control plane nodes, encrypted with the certificate key.
// They are deleted after two hours.
func (m machine) uploadKeys(ctx context.Context, key pki.CertificateKey) error {
	const owned = "ca-rotation/owner"
	id, secret, err := node.NewToken(m.e.Rand(owned))
	if err != nil {
		return err
	}
	want := manifest.NewCARotationOwner(id, secret, m.e.World.Now())
	if err := m.e.Do(ctx, change.ApplyObject{Object: want, As: m.as}); err != nil {
		return err
	}
	u, err := m.e.Object(ctx, state.RefOf(want, m.as))
	if err != nil {
		return err
	}
	encrypted := map[string][]byte{}
	for _, p := range m.pairs() {
		plain, err := m.findKey(ctx, p)
		if err != nil {
			return err
		}
		name := p.uploadedName()
		if encrypted[name], err = key.Encrypt(m.e.Rand("ca-rotation/"+name), plain); err != nil {
			return err
		}
	}
	return m.e.Do(ctx, change.ApplyObject{As: m.as,
		Object: manifest.NewCARotationSecret(encrypted, u)})
}

// uploadHint says how to upload the keys again.
const uploadHint = "to upload them again and print the key, run this on a control plane node that " +
	"has them: kubeadm certs rotate-ca trust"

// downloadKeys writes the pairs whose keys another control plane node has uploaded.
func (m machine) downloadKeys(ctx context.Context) error {
	plain, err := m.readUploadedKeys(ctx)
	if err != nil {
		return err
	}
	for i, p := range m.pairs() {
		if err := m.writeSide(ctx, p, plain[i]); err != nil {
			return err
		}
	}
	return nil
}

// readUploadedKeys decrypts the uploaded keys, in the order of pairs, and checks that they are of
// this rotation.
func (m machine) readUploadedKeys(ctx context.Context) ([][]byte, error) {
	if m.node.CertificateKey == "" {
		return nil, problem.New(errors.New("the keys of the rotation are not on this machine"),
			"run kubeadm certs rotate-ca trust here, and set --certificate-key to the key that the same "+
				"command printed on the first control plane node", uploadHint)
	}
	key, err := pki.ParseCertificateKey(m.node.CertificateKey)
	if err != nil {
		return nil, fmt.Errorf("--certificate-key: %w", err)
	}
	ref := state.RefOf(manifest.NewCARotationSecret(nil, &corev1.Secret{}), m.as)
	u, err := m.e.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil, problem.New(errors.New("no keys are uploaded, or the upload has expired (after "+
			"two hours)"), uploadHint)
	}
	if err != nil {
		return nil, err
	}
	var uploaded corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object,
		&uploaded); err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	var all [][]byte
	for _, p := range m.pairs() {
		name := p.uploadedName()
		plain, err := key.Decrypt(uploaded.Data[name])
		if err != nil {
			return nil, problem.During("decrypting "+name+" of "+ref.String(), err,
				"compare --certificate-key with the key that the upload printed", uploadHint)
		}
		private, err := pki.ParseKey(plain)
		if err != nil {
			return nil, problem.During("reading "+name+" of "+ref.String(), err, uploadHint)
		}
		public, err := p.ParsePublicKey([]byte(p.public))
		if err != nil {
			return nil, err
		}
		if !pki.IsKeyOf(private, public) {
			return nil, problem.New(fmt.Errorf("%s of %s does not belong to this rotation", name, ref),
				uploadHint)
		}
		all = append(all, plain)
	}
	return all, nil
}
