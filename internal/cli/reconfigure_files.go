package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
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

// describeNext says what is to be run on which of the other nodes. Every control plane node may lack files that this
// one has uploaded. isKnown is false if the nodes are not known.
func describeNext(here existing.Machine, all []reconfiguration.NodeProgress, isKnown bool, newFiles func() string) string {
	planes, command := reconfiguration.ListBehind(all, true), "kubeadm reconfigure node"
	switch {
	case here.UploadCerts:
		command += " --certificate-key " + here.CertificateKey
		planes = nil
		for _, n := range all {
			if n.ControlPlane && n.Name != here.Name {
				planes = append(planes, untrusted.Line(n.Name))
			}
		}
	case here.CertificateKey != "":
		command += " --certificate-key KEY"
	}
	var b strings.Builder
	switch {
	case !isKnown:
		fmt.Fprintf(&b, "  on each of the other control plane nodes, one at a time: %s\n", command)
	case len(planes) > 0:
		if here.CertificateKey == "" {
			b.WriteString(newFiles())
		}
		fmt.Fprintf(&b, "  on these control plane nodes, one at a time: %s\n    %s\n", command, strings.Join(planes, ", "))
	}
	if workers := reconfiguration.ListBehind(all, false); len(workers) > 0 {
		fmt.Fprintf(&b, "  on these workers: kubeadm reconfigure node\n    %s\n", strings.Join(workers, ", "))
	}
	if b.Len() == 0 {
		return "\nAll affected nodes are up to date.\n"
	}
	return "\nNext:\n" + b.String()
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
