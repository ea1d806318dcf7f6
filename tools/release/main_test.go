package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// testRelease is a release whose program is this test, with one man page.
func testRelease(t *testing.T) release {
	t.Helper()
	r := release{repository: "../..", dir: t.TempDir(), man: t.TempDir(), completion: t.TempDir(),
		version: "v1.37.1", revision: "2", date: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		filepath.Join(r.dir, programPrefix+"ppc64le"):     string(program),
		filepath.Join(r.dir, "kubeadm-windows-arm64.exe"): string(program),
		filepath.Join(r.man, "kubeadm.8"):                 ".TH KUBEADM 8\n",
		filepath.Join(r.completion, "bash"):               "# for bash\n",
		filepath.Join(r.completion, "fish"):               "# for fish\n",
		filepath.Join(r.completion, "zsh"):                "# for zsh\n",
		filepath.Join(r.dir, "older", "not-a-program"):    "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestReleaseIsReproducible(t *testing.T) {
	first, second := testRelease(t), testRelease(t)
	for _, r := range []release{first, second} {
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
	}
	want, got := readString(t, first.dir, checksumsFile), readString(t, second.dir, checksumsFile)
	if want != got {
		t.Errorf("two releases of the same program differ:\n%s\n%s", want, got)
	}
	for _, name := range []string{"kubeadm-linux-ppc64le", "kubeadm-linux-ppc64le.spdx.json",
		"kubeadm_1.37.1-2_ppc64el.deb",
		"kubeadm-windows-arm64.exe", "kubeadm-windows-arm64.exe.spdx.json", "kubeadm-1.37.1-2.ppc64le.rpm"} {
		if !strings.Contains(want, "  "+name+"\n") {
			t.Errorf("%s is not in:\n%s", name, want)
		}
	}
	if err := first.make(); err != nil {
		t.Fatal(err)
	}
	if again := readString(t, first.dir, checksumsFile); again != want {
		t.Errorf("made again, the release is\n%s", again)
	}
}

func TestDebianPackage(t *testing.T) {
	r := testRelease(t)
	if err := r.make(); err != nil {
		t.Fatal(err)
	}
	files := debianFiles(t, filepath.Join(r.dir, "kubeadm_1.37.1-2_ppc64el.deb"))
	for name, want := range map[string]string{
		"./usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": "EnvironmentFile=-/etc/default/kubelet\n",
		"./usr/lib/systemd/system/kubeadm-certs-renew.timer":         "OnCalendar=daily",
		"./usr/lib/systemd/system/kubeadm-etcd-snapshot.timer":       "OnCalendar=daily",
		"./usr/share/bash-completion/completions/kubeadm":            "# for bash",
		"./usr/share/fish/vendor_completions.d/kubeadm.fish":         "# for fish",
		"./usr/share/zsh/vendor-completions/_kubeadm":                "# for zsh",
		"./usr/share/doc/kubeadm/copyright":                          "Apache License",
		"./usr/share/man/man8/kubeadm.8.gz":                          "\x1f\x8b",
		"./usr/bin/kubeadm":                                          "\x7fELF",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not contain %q: %.200q", name, want, files[name])
		}
	}
	if drop := files["./usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"]; strings.Contains(drop, "sysconfig") {
		t.Errorf("the drop-in is that of the other format:\n%s", drop)
	}
}

// debianFiles reads the files of a package by dpkg-deb.
func debianFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	packed, err := exec.Command("dpkg-deb", "--fsys-tarfile", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(bytes.NewReader(packed)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}

func TestBillOfMaterials(t *testing.T) {
	r := testRelease(t)
	program := filepath.Join(r.dir, programPrefix+"ppc64le")
	if err := r.writeBillOfMaterials(program); err != nil {
		t.Fatal(err)
	}
	var d v2_3.Document
	if err := spdxjson.ReadInto(strings.NewReader(readString(t, program+".spdx.json")), &d); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		found[p.PackageName] = true
		if ids[string(p.PackageSPDXIdentifier)] {
			t.Errorf("two packages are %s", p.PackageSPDXIdentifier)
		}
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	for _, name := range []string{"kubeadm", "std", "github.com/goreleaser/nfpm/v2"} {
		if !found[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d relationships of %d packages", len(d.Relationships), len(d.Packages))
	}
	if !json.Valid([]byte(readString(t, program+".spdx.json"))) {
		t.Error("it is not JSON")
	}
	if err := r.writeBillOfMaterials(filepath.Join(r.completion, "bash")); err == nil {
		t.Error("a script has a bill of materials")
	}
}

func TestFlags(t *testing.T) {
	if _, err := parseFlags([]string{"--dir", "d", "--man", "m", "--completion", "c", "--version",
		"v1.37.1", "--date", "today"}); err == nil || !strings.Contains(err.Error(), "--date") {
		t.Errorf("a wrong date: %v", err)
	}
	if _, err := parseFlags(nil); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("no flags: %v", err)
	}
	r := release{dir: t.TempDir()}
	if err := r.make(); err == nil || !strings.Contains(err.Error(), programPrefix) {
		t.Errorf("no program: %v", err)
	}
}

func readString(t *testing.T, name ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
