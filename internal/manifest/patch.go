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

	"kubeadm/internal/config/strict"
	"kubeadm/internal/untrusted"
)

// Targets of patches besides the components of a control plane.
const (
	KubeletConfiguration = "kubeletconfiguration"
	CoreDNSDeployment    = "corednsdeployment"
	KubeProxyDaemonSet   = "kubeproxydaemonset"
)

// PatchTargets lists what can be patched, as file names of patches begin.
func PatchTargets() []string {
	targets := append([]string{Etcd}, Components()...)
	return append(targets, KubeletConfiguration, CoreDNSDeployment, KubeProxyDaemonSet)
}

// PatchFile is a file in the user's directory of patches.
type PatchFile struct {
	Name string // path; the base name says what the file patches and how
	Data []byte
}

// Patches are the user's changes to what this package builds, in order. Zero changes nothing.
type Patches struct {
	patches []patch
	later   string // stands for what is known only later; empty if all is known
}

// patch is one document of a file.
type patch struct {
	target, kind string
	origin       string // for messages
	json         []byte
}

// Ways to patch, as the file names have them.
const (
	jsonPatch      = "json"
	mergePatch     = "merge"
	strategicPatch = "strategic"
)

// ParsePatches reads files named "target[suffix][+kind].extension": target is one of
// PatchTargets, kind is json (RFC 6902), merge (RFC 7386) or strategic, the default,
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
			documents, err = patchDocuments(f)
			if err != nil {
				return Patches{}, nil, err
			}
			if len(documents) == 0 {
				why = "it is empty"
			}
		}
		if why != "" {
			notes = append(notes, fmt.Sprintf("patch file %s is skipped: %s", untrusted.Quote(f.Name), why))
			continue
		}
		for _, d := range documents {
			d.target, d.kind = target, kind
			p.patches = append(p.patches, d)
		}
	}
	return p, notes, nil
}

// NamesPatch reports whether a file is a patch by its name. What is in one that is not does not matter to ParsePatches.
func NamesPatch(file string) bool {
	_, _, why, err := parsePatchName(path.Base(file))
	return why == "" && err == nil
}

// parsePatchName takes a file name apart; why says why the file is none of ours.
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
	for _, known := range []string{jsonPatch, mergePatch, strategicPatch} {
		if strings.HasPrefix(kind, known) {
			return target, known, "", nil
		}
	}
	return "", "", "", fmt.Errorf("unknown kind of patch %s: write +%s, +%s or +%s", untrusted.Quote("+"+kind), jsonPatch, mergePatch, strategicPatch)
}

// patchDocuments converts each document of a file to JSON.
func patchDocuments(f PatchFile) ([]patch, error) {
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
