package config

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta3"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/strict"
)

// File is a configuration file and its content.
type File struct {
	Name string
	Data []byte

	AllowExperimental       bool // accept experimental API versions
	AllowDeprecated         bool // do not warn of deprecated API versions
	Strict                  bool // unknown and duplicate fields are errors instead of warnings
	ReportComponentProblems bool // Migrate also warns of settings that keep components from running

	// every document is read by one of several readers: do not warn of unused ones
	readsAllKinds bool
}

// Given reports whether there is a file.
func (f File) Given() bool { return f.Name != "" }

// source names the origin of a configuration in errors.
func (f File) source() string {
	if f.Given() {
		return "configuration file " + f.Name
	}
	return "command line"
}

// documentTarget is a kind that a command reads, and where it is stored.
type documentTarget struct {
	kind   string
	into   any  // pointer to the struct of v1beta4, or of the component
	needed bool // the file must have at least one of the needed kinds
	found  bool

	// What has no field in v1beta4:
	controlPlane *metav1.Duration // timeout for the control plane to become healthy
	lost         []string         // warnings about settings that cannot be converted
}

// read stores the documents of the kinds that a command reads. It warns of documents that the
// command does not use. Unknown and duplicate fields are warnings, or errors if the file is read
// strictly. Values of the wrong type are errors.
func (f File) read(run *RunOptions, targets ...*documentTarget) error {
	documents, err := strict.Split(f.Data)
	if err != nil {
		return explainConfigMap(f.Data, fmt.Errorf("%s: %w", f.source(), err))
	}
	var wrong faults
	wrong.list = findRepeatedKinds(documents)
	for _, d := range documents {
		if err := checkVersion(d, f.AllowExperimental); err != nil {
			wrong.add("%v", err)
			continue
		}
		i := slices.IndexFunc(targets,
			func(t *documentTarget) bool { return t.kind == d.Kind && isSupportedKind(d) })
		if i < 0 {
			if !f.readsAllKinds {
				run.warn(fmt.Sprintf("%s of %s is not used by this command", d,
					d.APIVersion) + suggestKind(d))
			}
			continue
		}
		t := targets[i]
		t.found = true
		f.reportMismatches(d, t.decode(d), &wrong, run)
		if d.Group() == v1beta4.Group && d.Version() == v1beta3.Version && !f.AllowDeprecated {
			run.warn(fmt.Sprintf(
				"%s has apiVersion %s, which upstream's kubeadm no longer supports: convert the file with "+
					"\"kubeadm config migrate --old-config FILE --new-config FILE\"", d,
				d.APIVersion))
		}
		for _, text := range t.lost {
			run.warn(d.String() + ": " + text)
		}
	}
	if len(wrong.list) == 0 {
		wrong.list = findMissingKinds(documents, targets)
	}
	return wrong.err(f.source())
}

// reportMismatches adds what does not match the fields of a document to the faults or the warnings.
func (f File) reportMismatches(d strict.Document, found strict.Mismatches, wrong *faults,
	run *RunOptions) {
	for _, field := range found.Ignored {
		if f.Strict {
			wrong.add("%s: %s", d, field.Fault())
			continue
		}
		text := d.String() + ": " + field.Warning()
		run.warn(text)
		run.Ignored = append(run.Ignored, text)
	}
	for _, text := range found.Wrong {
		wrong.add("%s: %s", d, text)
	}
	for _, text := range found.Warnings {
		run.warn(d.String() + ": " + text)
	}
}

func findRepeatedKinds(documents []strict.Document) []string {
	var faults []string
	first := map[string]int{}
	for _, d := range documents {
		if n, again := first[d.Kind]; again {
			faults = append(faults,
				fmt.Sprintf("%s has the same kind as document %d: a file can have only one document of each kind", d, n))
			continue
		}
		first[d.Kind] = d.Number
	}
	return faults
}

func findMissingKinds(documents []strict.Document, targets []*documentTarget) []string {
	var needed, there []string
	for _, t := range targets {
		if t.needed && t.found {
			return nil
		}
		if t.needed {
			needed = append(needed, t.kind)
		}
	}
	if len(needed) == 0 {
		return nil
	}
	for _, d := range documents {
		if _, supported := apiVersions()[d.Kind]; supported && !isSupportedKind(d) {
			there = append(there, d.Kind+" of "+d.APIVersion)
			continue
		}
		there = append(there, d.Kind+suggestKind(d))
	}
	text := fmt.Sprintf("it has no %s of %s", strings.Join(needed, " or "),
		apiVersions()[needed[0]])
	if len(there) > 0 {
		text += ", only " + strings.Join(there, ", ")
	}
	return []string{text}
}
