package config

import (
	"fmt"
	"slices"
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

	whole bool // all documents are read, by one reader or another
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

// target is a kind that a command reads, and where to store it.
type target struct {
	kind   string
	into   any  // pointer to the struct of v1beta4, or of the component
	needed bool // at least one of the needed kinds must be there
	found  bool

	// What the document says and its kind in v1beta4 does not:
	controlPlane *metav1.Duration // the limit for the control plane to become healthy
	lost         []string         // a sentence each
}

// read stores the documents of the kinds that a command reads, and returns
// warnings about those that it does not. Whatever does not fit is an error.
func (f File) read(targets ...*target) (warnings []string, err error) {
	documents, err := strict.Split(f.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.source(), err)
	}
	var wrong faults
	wrong.list = repeatedKinds(documents)
	for _, d := range documents {
		if err := checkVersion(d, f.Experimental); err != nil {
			wrong.add("%v", err)
			continue
		}
		t := choose(d, targets)
		if t == nil {
			warnings = append(warnings, f.unused(d)...)
			continue
		}
		t.found = true
		misfits := t.decode(d, others(t, targets)...)
		for _, text := range slices.Concat(misfits.Unknown, misfits.Wrong) {
			wrong.add("%s: %s", d, text)
		}
		warnings = append(warnings, f.outdated(d, t)...)
	}
	if len(wrong.list) == 0 {
		wrong.list = missing(documents, targets)
	}
	return warnings, wrong.err(f.source())
}

func (f File) unused(d strict.Document) []string {
	if f.whole {
		return nil
	}
	return []string{notUsed(d)}
}

// outdated warns of what comes with the version of a document.
func (f File) outdated(d strict.Document, t *target) (warnings []string) {
	if !f.Deprecated {
		warnings = deprecated(d)
	}
	for _, text := range t.lost {
		warnings = append(warnings, d.String()+": "+text)
	}
	return warnings
}

// others are the structs among which a field may belong that t does not have.
func others(t *target, targets []*target) (all []any) {
	for _, o := range targets {
		if o != t {
			all = append(all, o.into)
		}
	}
	return all
}

func choose(d strict.Document, targets []*target) *target {
	for _, t := range targets {
		if t.kind == d.Kind && ours(d) {
			return t
		}
	}
	return nil
}

func repeatedKinds(documents []strict.Document) []string {
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

func missing(documents []strict.Document, targets []*target) []string {
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
		there = append(there, named(d))
	}
	text := fmt.Sprintf("it has no %s of %s", strings.Join(needed, " or "), apiVersions()[needed[0]])
	if len(there) > 0 {
		text += ", only " + strings.Join(there, ", ")
	}
	return []string{text}
}
