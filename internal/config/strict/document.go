// Package strict reads files of YAML or JSON documents into Go values and says
// exactly what does not fit: which field, where, and what may have been meant. It
// knows the form of Kubernetes API documents but none of their kinds.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Document is one document of a file.
type Document struct {
	Number     int    // its place among the documents that are not empty, from 1
	APIVersion string // has the form "group/version"
	Kind       string

	json  []byte
	tree  map[string]any
	twice []string // fields given more than once
}

// String names the document for messages.
func (d Document) String() string { return fmt.Sprintf("document %d (%s)", d.Number, d.Kind) }

// Group is the part of APIVersion before the slash.
func (d Document) Group() string {
	group, _, _ := strings.Cut(d.APIVersion, "/")
	return group
}

// Version is the part of APIVersion after the slash.
func (d Document) Version() string {
	_, version, _ := strings.Cut(d.APIVersion, "/")
	return version
}

// Split reads the documents of a file, which are parted by lines of "---". Empty
// ones are passed over. The error names the document and, for a fault of form,
// the line of the file.
func Split(data []byte) ([]Document, error) {
	var documents []Document
	for _, c := range chunks(data) {
		d, err := parse(c)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(documents)+1, err)
		}
		if d == nil {
			continue
		}
		d.Number = len(documents) + 1
		documents = append(documents, *d)
	}
	return documents, nil
}

// chunk is the text of one document.
type chunk struct {
	text []byte
	line int // number of its first line in the file
}

func chunks(data []byte) []chunk {
	all := []chunk{{line: 1}}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		rest, parted := separator(line)
		if parted {
			all = append(all, chunk{line: number})
		}
		last := &all[len(all)-1]
		last.text = append(last.text, rest...)
	}
	return all
}

// separator tells whether the line ends one document, and what of the line
// belongs to the next. A parser would stop at "..." and drop what follows.
func separator(line []byte) (rest []byte, parted bool) {
	for _, mark := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(line, []byte(mark))
		if found && (len(after) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(after[0]))) {
			return after, true
		}
	}
	return line, false
}

// parse returns nil for an empty document.
func parse(c chunk) (*Document, error) {
	d := &Document{}
	var err error
	if d.json, err = yaml.YAMLToJSONStrict(c.text); err != nil {
		d.twice = repeated(err, c.line)
		if d.json, err = yaml.YAMLToJSON(c.text); err != nil {
			return nil, errors.New(readable(err, c.line))
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(d.json))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading the document that begins in line %d: %w", c.line, err)
	}
	if value == nil {
		return nil, nil
	}
	var ok bool
	if d.tree, ok = value.(map[string]any); !ok {
		return nil, fmt.Errorf("it is %s, not a mapping with apiVersion and kind", describe(value))
	}
	return d, d.identify()
}

func (d *Document) identify() error {
	const likeVersion, likeKind = "group/version, such as kubeadm.k8s.io/v1beta4", "the name of a kind, such as ClusterConfiguration"
	var err error
	if d.APIVersion, err = d.text("apiVersion", likeVersion); err != nil {
		return err
	}
	if group, version, found := strings.Cut(d.APIVersion, "/"); !found || group == "" || version == "" {
		return fmt.Errorf("apiVersion is %q: it must be %s", d.APIVersion, likeVersion)
	}
	d.Kind, err = d.text("kind", likeKind)
	return err
}

// text is a field that every document must have.
func (d *Document) text(field, like string) (string, error) {
	switch value := d.tree[field].(type) {
	case nil:
		return "", fmt.Errorf("%s is missing: it must be %s", field, like)
	case string:
		if value == "" {
			return "", fmt.Errorf("%s is empty: it must be %s", field, like)
		}
		return value, nil
	default:
		return "", fmt.Errorf("%s is %s: it must be %s", field, describe(value), like)
	}
}
