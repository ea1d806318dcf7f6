// Package request makes keys for a control plane, and requests for the certificates that somebody else is to sign.
package request

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"path"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Phase writes a key and a request for each certificate, and for each kubeconfig one that lacks its certificates.
// It writes nothing if any of the files is there already.
var Phase = flow.Phase{
	Name:  "generate-csr",
	Short: "Make keys and certificate requests",
	Run: func(ctx context.Context, e *flow.Env) error {
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
		e.Say("keeping keys and requests for certificates in %q", n.Paths.Certificates)
		e.Say("keeping kubeconfig files that lack certificates, and requests for these, in %q", n.Paths.Kubeconfigs)
		folders := []change.Change{change.MakeDir{Path: n.Paths.Certificates, Mode: 0o755}}
		for _, f := range files {
			folders = append(folders, change.MakeDir{Path: path.Dir(f.Path), Mode: 0o755})
		}
		if err := e.Do(ctx, folders...); err != nil {
			return err
		}
		for _, f := range files {
			if err := e.Do(ctx, f); err != nil {
				return problem.New("", err, "what is written so far is of no use by itself: remove it before you give the command again")
			}
		}
		return nil
	},
}

func newFiles(e *flow.Env, n *node.Node) ([]change.WriteFile, error) {
	var files []change.WriteFile
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			continue
		}
		made, err := newKeyAndRequest(e, n, p)
		if err != nil {
			return nil, err
		}
		files = append(files, made...)
	}
	for _, p := range pki.KubeconfigProfiles() {
		made, err := newKubeconfigAndRequest(e, n, p)
		if err != nil {
			return nil, err
		}
		files = append(files, made...)
	}
	return files, nil
}

// newKeyAndRequest is a key and the request that goes with it.
func newKeyAndRequest(e *flow.Env, n *node.Node, p pki.Profile) ([]change.WriteFile, error) {
	spec, ignored, err := p.Spec(n.Site(), pki.Validity{})
	if err != nil {
		return nil, err
	}
	for _, name := range ignored {
		e.Warn("%q is neither an IP address nor a DNS name and is left out of the request for %s", name, p.Name)
	}
	key, request, err := newRequest(e, p.Name, spec)
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	return []change.WriteFile{
		newSecretFile(n.Paths.Key(p.Base), text), newSecretFile(n.Paths.Certificate(p.RequestFile()), request),
	}, err
}

// newKubeconfigAndRequest is a kubeconfig without certificates, and the request for that of its user.
func newKubeconfigAndRequest(e *flow.Env, n *node.Node, p pki.KubeconfigProfile) ([]change.WriteFile, error) {
	key, request, err := newRequest(e, p.File, pki.ClientSpec(p.UserOn(n.Name), p.Organization, pki.Validity{}))
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	access := pki.Access{Server: n.Server(), Cluster: n.Cluster.Name, User: p.UserOn(n.Name)}
	if p.Local && !p.PerNode { // a kubelet that another machine signs for may join as well as begin
		access.Server = n.LocalServer()
	}
	config, err := access.WithCertificate(nil, text).Encode()
	file := n.Paths.Kubeconfig(p.File)
	return []change.WriteFile{newSecretFile(file, config), newSecretFile(file+".csr", request)}, err
}

// newRequest makes a key and the request of its owner.
func newRequest(e *flow.Env, name string, s pki.Spec) (crypto.Signer, []byte, error) {
	key, err := e.Keys()
	if err != nil {
		return nil, nil, err
	}
	request, err := s.Request(e.Rand("request/"+name), key)
	return key, request, err
}

func newSecretFile(path string, data []byte) change.WriteFile {
	return change.WriteFile{Path: path, Data: data, Mode: 0o600, Secret: true}
}

// checkAbsent wants none of the files to be there: a key may be in use.
func checkAbsent(ctx context.Context, e *flow.Env, files []change.WriteFile) error {
	var errs []error
	for _, f := range files {
		there, err := state.Exists(ctx, e.World, f.Path)
		switch {
		case there:
			errs = append(errs, fmt.Errorf("%s exists already", f.Path))
		case err != nil:
			return err
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return problem.New("", errors.Join(errs...), "move these files away, or name other folders with --cert-dir and --kubeconfig-dir")
}
