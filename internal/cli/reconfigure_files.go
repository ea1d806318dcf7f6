package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/untrusted"
)

// completeUpload generates the key with which "reconfigure apply" uploads files, unless the user has given it.
func (o *reconfigureOptions) completeUpload(p *program) (err error) {
	switch {
	case !o.UploadCerts && o.CertificateKey != "":
		return problem.New(errors.New("--certificate-key has an effect only with --upload-certs"), "add --upload-certs")
	case o.UploadCerts && o.CertificateKey == "":
		o.CertificateKey, err = newCertificateKey(p.Random)
	}
	return err
}

// describeNewFiles says which files the other control plane nodes need that no argument named before the change.
func describeNewFiles(e *engine.Env, w reconfiguration.Wanted) string {
	before, err := preflight.UploadedFiles(w.Before)
	if err != nil {
		e.Warn("which files the other control plane nodes need is not known: %v", err)
		return ""
	}
	after, err := preflight.UploadedFiles(w.Node)
	if err != nil {
		e.Warn("which files the other control plane nodes need is not known: %v", err)
		return ""
	}
	var b strings.Builder
	for _, f := range after {
		if !slices.ContainsFunc(before, func(o preflight.ArgumentFile) bool { return o.Path == f.Path }) {
			fmt.Fprintf(&b, "    %s (%s)\n", untrusted.Line(f.Path), untrusted.Line(f.Argument))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "  copy these files to the other control plane nodes, or upload them: kubeadm reconfigure apply --upload-certs\n" +
		b.String()
}
