package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the two formats register themselves
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	formatDeb = "deb"
	formatRPM = "rpm"
)

//go:embed 10-kubeadm.conf
var kubeletDropIn string

//go:embed postinstall.sh
var postInstall []byte

//go:embed preremove.sh
var preRemove []byte

// systemdUnits is the directory of units that come with packages.
const systemdUnits = "/usr/lib/systemd/system/"

// packageContents writes the files that all packages share, and their scripts, to a directory, and
// returns where the files are installed. Those of one format name it.
func (r release) packageContents(dir string) (files.Contents, error) {
	var all files.Contents
	var failed error
	add := func(format, to string, data []byte) {
		from := filepath.Join(dir, format, to)
		if failed == nil {
			failed = os.MkdirAll(filepath.Dir(from), 0o755)
		}
		if failed == nil {
			failed = os.WriteFile(from, data, 0o644)
		}
		all = append(all, &files.Content{Source: from, Destination: to, Packager: format,
			FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.date}})
	}
	read := func(name ...string) []byte {
		data, err := os.ReadFile(filepath.Join(name...))
		if failed == nil {
			failed = err
		}
		return data
	}
	for format, environment := range map[string]string{formatDeb: "/etc/default/kubelet",
		formatRPM: "/etc/sysconfig/kubelet"} {
		add(format, systemdUnits+"kubelet.service.d/10-kubeadm.conf",
			[]byte(strings.ReplaceAll(kubeletDropIn, "ENVIRONMENT", environment)))
	}
	for _, unit := range []string{"kubeadm-certs-renew.service", "kubeadm-certs-renew.timer",
		"kubeadm-etcd-snapshot.service", "kubeadm-etcd-snapshot.timer"} {
		add("", systemdUnits+unit, read(r.repository, "docs/systemd", unit))
	}
	add(formatDeb, "/usr/share/doc/kubeadm/copyright", read(r.repository, "LICENSE"))
	add(formatRPM, "/usr/share/licenses/kubeadm/LICENSE", read(r.repository, "LICENSE"))
	add("", "/usr/share/bash-completion/completions/kubeadm", read(r.completion, "bash"))
	add("", "/usr/share/fish/vendor_completions.d/kubeadm.fish", read(r.completion, "fish"))
	add(formatDeb, "/usr/share/zsh/vendor-completions/_kubeadm", read(r.completion, "zsh"))
	add(formatRPM, "/usr/share/zsh/site-functions/_kubeadm", read(r.completion, "zsh"))
	pages, err := filepath.Glob(filepath.Join(r.man, "*.8"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		packed, err := compress(read(page))
		if err != nil {
			return nil, err
		}
		add("", "/usr/share/man/man8/"+filepath.Base(page)+".gz", packed)
	}
	for name, script := range map[string][]byte{postInstallFile: postInstall,
		preRemoveFile: preRemove} {
		if failed == nil {
			failed = os.WriteFile(filepath.Join(dir, name), script, 0o755)
		}
	}
	return all, failed
}

const (
	postInstallFile = "postinstall"
	preRemoveFile   = "preremove"
)

// compress compresses without a name and a time, so that the result depends on the data alone.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// writePackage writes a package of the program and the contents, with the scripts in a directory.
func (r release) writePackage(format, program, scripts string, contents files.Contents) error {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "kubeadm", Version: r.version, Release: r.revision, Platform: "linux",
		Arch:    strings.TrimPrefix(filepath.Base(program), programPrefix),
		Section: "admin", Priority: "optional",
		License: "Apache-2.0", Maintainer: "The kubeadm maintainers",
		Description: "Creates and manages Kubernetes clusters\n" +
			"A command that turns machines with a kubelet and a container runtime into a\n" +
			"Kubernetes cluster, and the settings with which it runs the kubelet.",
		MTime: r.date,
		Overridables: nfpm.Overridables{
			Recommends: []string{"kubelet", "cri-tools"}, Suggests: []string{"kubectl"},
			Contents: append(slices.Clone(contents), &files.Content{
				Source: program, Destination: "/usr/bin/kubeadm",
				FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.date}}),
			Scripts: nfpm.Scripts{PostInstall: filepath.Join(scripts, postInstallFile),
				PreRemove: filepath.Join(scripts, preRemoveFile)},
			RPM: nfpm.RPM{BuildHost: "localhost"},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, packager.ConventionalFileName(info)), b.Bytes(), 0o644)
}
