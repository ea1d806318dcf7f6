package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// writeBillOfMaterials writes PROGRAM.spdx.json: the modules that the program contains, as the Go
// toolchain recorded them in it, in the format SPDX 2.3. Licenses of modules are not asserted.
func (r release) writeBillOfMaterials(program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	name := filepath.Base(program)
	kubeadm := newSPDXPackage("kubeadm", r.version)
	kubeadm.PackageFileName = name
	kubeadm.PackageLicenseDeclared = "Apache-2.0"
	kubeadm.PrimaryPackagePurpose = "APPLICATION"
	kubeadm.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	document := spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + name + "-" + sum,
		CreationInfo: &spdx.CreationInfo{Created: r.date.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "kubeadm-tools-release"}}},
		Packages: []*spdx.Package{kubeadm},
		Relationships: []*spdx.Relationship{
			relate("DOCUMENT", "DESCRIBES", kubeadm.PackageSPDXIdentifier)},
	}
	modules := append([]*debug.Module{{Path: "std", Version: info.GoVersion}}, info.Deps...)
	for _, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		p := newSPDXPackage(m.Path, m.Version)
		p.PackageLicenseDeclared = noAssertion
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER",
			RefType: "purl", Locator: "pkg:golang/" + m.Path + "@" + m.Version}}
		if m.Sum != "" {
			p.PackageComment = "checksum of the module in go.sum: " + m.Sum
		}
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships,
			relate(kubeadm.PackageSPDXIdentifier, "DEPENDS_ON", p.PackageSPDXIdentifier))
	}
	var b bytes.Buffer
	if err := spdxjson.Write(&document, &b, spdxjson.Indent("  ")); err != nil {
		return err
	}
	return os.WriteFile(program+".spdx.json", b.Bytes(), 0o644)
}

// noAssertion says that something was not looked up.
const noAssertion = "NOASSERTION"

// notInID matches what may not be part of an SPDX identifier.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func newSPDXPackage(name, version string) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageVersion: version,
		PackageSPDXIdentifier:     common.ElementID("Package-" + notInID.ReplaceAllString(name, "-")),
		PackageDownloadLocation:   noAssertion,
		FilesAnalyzed:             false,
		IsFilesAnalyzedTagPresent: true,
		PackageLicenseConcluded:   noAssertion,
		PackageCopyrightText:      noAssertion,
	}
}

func relate(from common.ElementID, how string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", string(from)), Relationship: how,
		RefB: common.MakeDocElementID("", string(to))}
}
