// Package generatecsr generates keys for a control plane, and signing requests for certificates of
// an external CA.
package generatecsr

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"path"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Phase writes a key and a request for each certificate, and a kubeconfig without certificates and
// a request for each kubeconfig user. It writes nothing if any of the files exists.
var Phase = engine.Phase{
	Name:  "generate-csr",
	Short: "Generate keys and certificate signing requests",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		files, err := newFiles(e, n)
		if err != nil {
			return err
		}
		if err := checkAbsent(ctx, e, files); err != nil {
			return err
		}
		e.Say("writing keys and certificate signing requests to %q", n.Paths.Certificates)
		e.Say("writing kubeconfig files without certificates, and signing requests for these, to %q", n.Paths.Kubeconfigs)
		dirs := []change.Change{change.MakeDir{Path: n.Paths.Certificates, Mode: 0o755}}
		for _, f := range files {
			dirs = append(dirs, change.MakeDir{Path: path.Dir(f.Path), Mode: 0o755})
		}
		if err := e.Do(ctx, dirs...); err != nil {
			return err
		}
		for _, f := range files {
			if err := e.Do(ctx, f); err != nil {
				return problem.New(err,
					"remove the files that were written, then re-run the command")
			}
		}
		return nil
	},
}

func newFiles(e *engine.Env, n *node.Node) ([]change.WriteFile, error) {
	var files []change.WriteFile
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			continue
		}
		pair, err := newKeyAndRequest(e, n, p)
		if err != nil {
			return nil, err
		}
		files = append(files, pair...)
	}
	for _, p := range pki.KubeconfigProfiles() {
		pair, err := newKubeconfigAndRequest(e, n, p)
		if err != nil {
			return nil, err
		}
		files = append(files, pair...)
	}
	return files, nil
}

// newKeyAndRequest generates a key and the signing request for its certificate.
func newKeyAndRequest(e *engine.Env, n *node.Node, p pki.Profile) ([]change.WriteFile, error) {
	spec, ignored, err := p.Spec(n.CertificateNames(), pki.Validity{})
	if err != nil {
		return nil, err
	}
	for _, name := range ignored {
		e.Warn("%q is neither an IP address nor a DNS name and is left out of the request for %s",
			name, p.Name)
	}
	key, request, err := newRequest(e, p.Name, spec)
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	return []change.WriteFile{
		newSecretFile(n.Paths.Key(p.Base), text),
		newSecretFile(n.Paths.Certificate(p.Base+".csr"), request),
	}, err
}

// newKubeconfigAndRequest generates a kubeconfig with a key and without certificates, and the
// signing request for its user's certificate.
func newKubeconfigAndRequest(e *engine.Env, n *node.Node,
	p pki.KubeconfigProfile) ([]change.WriteFile, error) {
	key, request, err := newRequest(e, p.File,
		pki.ClientSpec(p.UserName(n.Name), p.Organization, pki.Validity{}))
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	access := pki.KubeconfigSpec{Server: n.ServerURL(), Cluster: n.Cluster.Name,
		User: p.UserName(n.Name)}
	if p.UsesLocalAPIServer && !p.PerNode { // the kubelet's file may be for a joining machine, too
		access.Server = n.LocalServerURL()
	}
	config, err := access.WithCertificate(nil, text).Encode()
	file := n.Paths.Kubeconfig(p.File)
	return []change.WriteFile{newSecretFile(file, config), newSecretFile(file+".csr", request)}, err
}

// newRequest generates a key and a signing request with it.
func newRequest(e *engine.Env, name string, s pki.Spec) (crypto.Signer, []byte, error) {
	key, err := e.Keys(pki.First)
	if err != nil {
		return nil, nil, err
	}
	request, err := s.Request(e.Rand("request/"+name), key)
	return key, request, err
}

func newSecretFile(path string, data []byte) change.WriteFile {
	return change.WriteFile{Path: path, Data: data, Mode: 0o600, Secret: true}
}

// checkAbsent is an error if any of the files exists: a key may be in use.
func checkAbsent(ctx context.Context, e *engine.Env, files []change.WriteFile) error {
	var errs []error
	for _, f := range files {
		exists, err := state.Exists(ctx, e.World, f.Path)
		switch {
		case exists:
			errs = append(errs, fmt.Errorf("%s already exists", f.Path))
		case err != nil:
			return err
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return problem.New(errors.Join(errs...),
		"move these files out of the way, or set --cert-dir and --kubeconfig-dir to other directories")
}
