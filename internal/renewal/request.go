package renewal

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// requestFiles are the files of a certificate that an external CA renews, in the directory
// Paths.Requests.
type requestFiles struct{ key, request, answer string }

func newRequestFiles(p node.Paths, c pki.Renewable) requestFiles {
	base := path.Join(p.Requests, c.Base)
	if c.File != "" {
		base = path.Join(p.Requests, c.File)
	}
	return requestFiles{key: base + ".key", request: base + ".csr", answer: base + ".crt"}
}

// readKey reads the private key of a request. A key that another user put there, or can read, would
// give that user the identity of the certificate.
func (f requestFiles) readKey(ctx context.Context, e *engine.Env) ([]byte, error) {
	key, err := e.World.ReadPrivate(ctx, f.key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(fmt.Errorf("a private key from there cannot be trusted: %w", err),
			"set --csr-dir to a directory that only root can change, such as /root/renewal, and write new requests there with --csr-only")
	}
	return key, err
}

// findExternal returns a certificate of this control plane whose CA's key is not on this machine. For
// all others it returns nil, and why they need no request.
func findExternal(ctx context.Context, e *engine.Env, n *node.Node,
	c pki.Renewable) (found *renewal, reason string, err error) {
	if local, _ := node.HasLocalEtcd(n); c.LocalEtcdOnly() && !local {
		return nil, "this cluster uses an external etcd", nil
	}
	old, err := certstore.ReadRenewable(ctx, e.World, n.Paths, c)
	if err != nil {
		return nil, "", err
	}
	if old == nil {
		return nil, certstore.RenewablePath(n.Paths, c) + " does not exist", nil
	}
	ca, err := readIssuer(ctx, e, n, c)
	if err != nil {
		return nil, "", err
	}
	if ca.CanIssue() {
		return nil, "the key of its CA is on this machine: " + n.Paths.Key(issuerBase(c)), nil
	}
	return &renewal{Renewable: c, paths: n.Paths, old: old, ca: ca}, "", nil
}

// NeedsRequest reports whether an external CA must sign this certificate.
func NeedsRequest(ctx context.Context, e *engine.Env, c pki.Renewable) (bool, error) {
	n, err := e.Node(ctx)
	if err != nil {
		return false, err
	}
	r, _, err := findExternal(ctx, e, n, c)
	return r != nil, err
}

// Request writes a new key and a certificate signing request with the subject and SANs of a
// certificate whose CA is external. It keeps a request of an earlier run, but refuses one whose
// certificate is installed. Other certificates are left alone.
func Request(ctx context.Context, e *engine.Env, c pki.Renewable) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	r, reason, err := findExternal(ctx, e, n, c)
	if err != nil {
		return err
	}
	if r == nil {
		e.Say("%s needs no request: %s", c.Name, reason)
		return nil
	}
	files := newRequestFiles(n.Paths, c)
	text, err := files.readKey(ctx, e)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text == nil {
		key, err := newKey(e, n, r.old.PublicKey)
		if err != nil {
			return err
		}
		if text, err = pki.EncodeKey(key); err != nil {
			return err
		}
		if err := e.Do(ctx, change.MakeDir{Path: path.Dir(files.key), Mode: 0o700},
			change.WriteFile{Path: files.key, Data: text, Mode: 0o600, Secret: true}); err != nil {
			return err
		}
	}
	key, err := pki.ParseKey(text)
	if err != nil {
		return problem.New(fmt.Errorf("%s contains no usable private key: %w", files.key, err),
			"use another directory with --csr-dir")
	}
	if pki.IsKeyOf(key, r.old.PublicKey) {
		return problem.New(fmt.Errorf("the current certificate of %s already has the key in %s",
			c.Name, files.key), "use another directory with --csr-dir, or remove the files of the earlier renewal from it")
	}
	existing, err := state.ReadOptional(ctx, e.World, files.request)
	if err != nil {
		return err
	}
	if existing != nil {
		asked, err := pki.ParseRequest(existing)
		if err != nil || !pki.IsKeyOf(key, asked.PublicKey) {
			return problem.New(fmt.Errorf("%s is not a request for the key in %s", files.request,
				files.key), "use another directory with --csr-dir")
		}
		if !pki.RenewalSpec(r.old, pki.Validity{}).IsRequestedBy(asked) {
			return problem.New(fmt.Errorf("the subject or names in %s differ from those of the current certificate of %s",
				files.request, c.Name), "remove it, and re-run the command to write it again")
		}
		e.Say("keeping the request %q", files.request)
		return nil
	}
	request, err := pki.RenewalSpec(r.old, pki.Validity{}).Request(e.Rand("request/"+c.Name), key)
	if err != nil {
		return err
	}
	e.Say("writing the request %q", files.request)
	return e.Do(ctx, change.WriteFile{Path: files.request, Data: request, Mode: 0o644})
}

// CheckAnswer checks the certificate that the external CA has signed, before anything is replaced. It
// must belong to the key of the request, have the subject, SANs and usages of the certificate that
// it replaces, expire no earlier, be valid now and be signed by the CA on this machine. Certificates
// of other CAs are not checked.
func CheckAnswer(ctx context.Context, e *engine.Env, c pki.Renewable) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	r, _, err := findExternal(ctx, e, n, c)
	if r == nil || err != nil {
		return err
	}
	_, err = r.readAnswer(ctx, e)
	return err
}

// answer is a certificate with its intermediates and its key, both PEM.
type answer struct{ cert, key []byte }

func (r *renewal) readAnswer(ctx context.Context, e *engine.Env) (answer, error) {
	files := newRequestFiles(r.paths, r.Renewable)
	var a answer
	text, err := state.ReadRequired(ctx, e.World, files.answer)
	if err == nil {
		if a.key, err = files.readKey(ctx, e); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a, err
		}
	}
	if err != nil {
		return a, problem.New(err, untrusted.CommandHint(
			"write the requests, have them signed, and save each certificate as .crt next to its request",
			"kubeadm certs renew all --csr-only --csr-dir", r.paths.Requests))
	}
	leaf, err := pki.StoredPair{Certificate: text, Key: a.key}.VerifyPair(r.ca.Certificate,
		e.World.Now())
	if err == nil {
		err = r.compare(leaf)
	}
	if err == nil { // what else the CA has put into the file is not for everybody to read
		a.cert, err = pki.ReencodeCertificates(text)
	}
	if err != nil {
		return a, problem.During("checking "+files.answer, err,
			"have "+files.request+" signed again by the CA of "+r.paths.Cert(issuerBase(r.Renewable)))
	}
	return a, nil
}

func issuerBase(c pki.Renewable) string {
	issuer, _ := pki.ProfileOf(c.Issuer)
	return issuer.Base
}

// compare returns an error that names every field in which the certificates differ, and if the new
// one expires earlier.
func (r *renewal) compare(got *x509.Certificate) error {
	list := func(c *x509.Certificate) [][2]string {
		var ips, usages []string
		for _, ip := range c.IPAddresses {
			ips = append(ips, ip.String())
		}
		for _, u := range c.ExtKeyUsage {
			usages = append(usages, u.String())
		}
		join := func(all []string) string {
			return strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), ",")
		}
		return [][2]string{{"common name", c.Subject.CommonName},
			{"organizations", join(c.Subject.Organization)}, {"DNS names", join(c.DNSNames)},
			{"IP addresses", join(ips)}, {"extended key usages", join(usages)}}
	}
	var errs []error
	wanted := list(r.old)
	for i, field := range list(got) {
		if field != wanted[i] {
			errs = append(errs, fmt.Errorf("its %s are %q, but those of the current certificate are %q",
				field[0], field[1], wanted[i][1]))
		}
	}
	if got.NotAfter.Before(r.old.NotAfter) {
		errs = append(errs, fmt.Errorf("it expires %s, before the current certificate (%s)",
			got.NotAfter.UTC().Format(time.RFC3339), r.old.NotAfter.UTC().Format(time.RFC3339)))
	}
	if got.IsCA {
		errs = append(errs, errors.New("it is the certificate of a CA"))
	}
	return errors.Join(errs...)
}

// install replaces the certificate by the one that the external CA has signed.
func (r *renewal) install(ctx context.Context, e *engine.Env) error {
	a, err := r.readAnswer(ctx, e)
	if err != nil {
		return err
	}
	e.Say("installing %s, %s", r.Name, r.Purpose)
	files, err := r.newFiles(ctx, e, a.key, a.cert)
	if err != nil {
		return err
	}
	return e.Do(ctx, files)
}
