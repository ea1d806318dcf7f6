package config

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/strict"
)

// File is the configuration file that the user names, with what is in it.
type File struct {
	Name string
	Data []byte

	Experimental bool // also read versions of the API that are not settled yet
	Deprecated   bool // do not warn of versions of the API that are on their way out
	Strict       bool // refuse unknown fields and fields given twice instead of warning
	Running      bool // Migrate also warns of what would keep components from running

	readsAllKinds bool // all documents are read, by one reader or another
}

// Given tells whether there is a file.
func (f File) Given() bool { return f.Name != "" }

// source names the origin of a configuration in errors.
func (f File) source() string {
	if f.Given() {
		return "configuration file " + f.Name
	}
	return "command line"
}

// documentTarget is a kind that a command reads, and where to store it.
type documentTarget struct {
	kind   string
	into   any  // pointer to the struct of v1beta4, or of the component
	needed bool // at least one of the needed kinds must be there
	found  bool

	// What the document says and its kind in v1beta4 does not:
	controlPlane *metav1.Duration // the limit for the control plane to become healthy
	lost         []string         // a sentence each
}

// read stores the documents of the kinds that a command reads. It warns of documents that the command
// does not use, and of fields that are unknown or given twice unless the file is read strictly. Values
// that do not fit are errors.
func (f File) read(run *Run, targets ...*documentTarget) error {
	documents, err := strict.Split(f.Data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.source(), err)
	}
	var wrong faults
	wrong.list = findRepeatedKinds(documents)
	for _, d := range documents {
		if err := checkVersion(d, f.Experimental); err != nil {
			wrong.add("%v", err)
			continue
		}
		t := findTarget(d, targets)
		if t == nil {
			if !f.readsAllKinds {
				run.warn(notUsed(d))
			}
			continue
		}
		t.found = true
		misfits := t.decode(d)
		for _, i := range misfits.Ignored {
			if f.Strict {
				wrong.add("%s: %s", d, i.Fault())
			} else {
				run.warnIgnored(d.String() + ": " + i.Warning())
			}
		}
		for _, text := range misfits.Wrong {
			wrong.add("%s: %s", d, text)
		}
		for _, text := range misfits.Warnings {
			run.warn(d.String() + ": " + text)
		}
		run.warn(f.versionWarnings(d, t)...)
	}
	if len(wrong.list) == 0 {
		wrong.list = findMissingKinds(documents, targets)
	}
	return wrong.err(f.source())
}

// versionWarnings warns of what comes with the version of a document.
func (f File) versionWarnings(d strict.Document, t *documentTarget) (warnings []string) {
	if !f.Deprecated {
		warnings = deprecationWarnings(d)
	}
	for _, text := range t.lost {
		warnings = append(warnings, d.String()+": "+text)
	}
	return warnings
}

func findTarget(d strict.Document, targets []*documentTarget) *documentTarget {
	for _, t := range targets {
		if t.kind == d.Kind && isSupportedKind(d) {
			return t
		}
	}
	return nil
}

func findRepeatedKinds(documents []strict.Document) []string {
	var faults []string
	first := map[string]int{}
	for _, d := range documents {
		if n, again := first[d.Kind]; again {
			faults = append(faults, fmt.Sprintf("%s repeats the kind of document %d: a file has one document of a kind", d, n))
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
		there = append(there, describeKind(d))
	}
	text := fmt.Sprintf("it has no %s of %s", strings.Join(needed, " or "), apiVersions()[needed[0]])
	if len(there) > 0 {
		text += ", only " + strings.Join(there, ", ")
	}
	return []string{text}
}
