package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/strict"
	"kubeadm/internal/untrusted"
)

// Targets of patches besides the components of a control plane.
const (
	KubeletConfiguration = "kubeletconfiguration"
	CoreDNSDeployment    = "corednsdeployment"
	KubeProxyDaemonSet   = "kubeproxydaemonset"
)

// PatchTargets lists what can be patched: the prefixes of the names of patch files.
func PatchTargets() []string {
	targets := append([]string{Etcd}, Components()...)
	return append(targets, KubeletConfiguration, CoreDNSDeployment, KubeProxyDaemonSet)
}

// PatchFile is a file in the user's directory of patches.
type PatchFile struct {
	Name string // path; the base name is "target[suffix][+type].extension"
	Data []byte
}

// Patches are the user's changes to what this package builds, in order. Zero changes nothing.
type Patches struct {
	patches     []patch
	unknownText string // placeholder for what is not known yet; empty if everything is known
}

// patch is one document of a file.
type patch struct {
	target, kind string
	origin       string // file and document, for messages
	json         []byte
}

// Ways to patch, as the file names have them.
const (
	jsonPatch      = "json"
	mergePatch     = "merge"
	strategicPatch = "strategic"
)

// ParsePatches parses files named "target[suffix][+type].extension": target is one of
// PatchTargets, type is json (RFC 6902), merge (RFC 7386) or strategic, the default,
// extension is json or yaml. A file may hold several YAML documents. Notes name the
// files that are skipped, and why.
func ParsePatches(files []PatchFile) (p Patches, notes []string, err error) {
	for _, f := range files {
		target, kind, why, err := parsePatchName(path.Base(f.Name))
		if err != nil {
			return Patches{}, nil, fmt.Errorf("patch file %s: %w", untrusted.Quote(f.Name), err)
		}
		var documents []patch
		if why == "" {
			documents, err = parsePatchDocuments(f)
			if err != nil {
				return Patches{}, nil, err
			}
			if len(documents) == 0 {
				why = "it is empty"
			}
		}
		if why != "" {
			notes = append(notes,
				fmt.Sprintf("patch file %s is skipped: %s", untrusted.Quote(f.Name), why))
			continue
		}
		for _, d := range documents {
			d.target, d.kind = target, kind
			p.patches = append(p.patches, d)
		}
	}
	return p, notes, nil
}

// IsPatchFile reports whether the name of a file is that of a patch. ParsePatches ignores the
// content of other files.
func IsPatchFile(file string) bool {
	_, _, why, err := parsePatchName(path.Base(file))
	return why == "" && err == nil
}

// parsePatchName parses a file name; why says why the file is not a patch.
func parsePatchName(name string) (target, kind, why string, err error) {
	if ext := path.Ext(name); ext == name || ext != ".json" && ext != ".yaml" {
		return "", "", "its name must end in .yaml or .json", nil
	}
	i := slices.IndexFunc(PatchTargets(), func(t string) bool { return strings.HasPrefix(name, t) })
	if i < 0 {
		why = "its name must begin with one of " + strings.Join(PatchTargets(), ", ")
		stem := name[:strings.IndexAny(name, "+.")]
		if near := strict.Nearest(stem, PatchTargets()); near != "" {
			why += "; did you mean " + near + "?"
		}
		return "", "", why, nil
	}
	target = PatchTargets()[i]
	stem, _, _ := strings.Cut(strings.TrimPrefix(name, target), ".")
	_, kind, given := strings.Cut(stem, "+")
	if !given {
		return target, strategicPatch, "", nil
	}
	for _, k := range []string{jsonPatch, mergePatch, strategicPatch} {
		if strings.HasPrefix(kind, k) {
			return target, k, "", nil
		}
	}
	return "", "", "", fmt.Errorf("unknown patch type %s: use +%s, +%s or +%s",
		untrusted.Quote("+"+kind), jsonPatch, mergePatch, strategicPatch)
}

// parsePatchDocuments converts each document of a file to JSON.
func parsePatchDocuments(f PatchFile) ([]patch, error) {
	var list []patch
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.Data)))
	for i := 1; ; i++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		origin := fmt.Sprintf("patch file %s, document %d", untrusted.Quote(f.Name), i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", origin, err)
		}
		json, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("%s is neither YAML nor JSON: %w", origin, err)
		}
		if string(json) != "null" {
			list = append(list, patch{origin: origin, json: json})
		}
	}
}

// Origins names the documents that patch a target, in order, for messages.
func (p Patches) Origins(target string) []string {
	var list []string
	for _, d := range p.patches {
		if d.target == target {
			list = append(list, d.origin)
		}
	}
	return list
}
