// Package strict decodes files of YAML or JSON documents into Go values and reports exactly what
// does not match: which field, where, and a suggestion. It handles Kubernetes API documents of
// any kind.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/untrusted"
)

// Document is one document of a file.
type Document struct {
	Number     int    // index among the documents that are not empty, from 1
	APIVersion string // has the form "group/version"
	Kind       string

	json       []byte
	tree       map[string]any
	duplicates []duplicateField
	// numbers in the text with a leading zero, by the names of their fields
	octals map[string][]string
}

// Fields are all fields of the document, as they are in the file. Numbers are of type json.Number.
func (d Document) Fields() map[string]any { return runtime.DeepCopyJSON(d.tree) }

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

// Split parses the documents of a file, which are separated by lines of "---". Empty documents
// are skipped. The error names the document and, for a syntax error, the line of the file. No
// part of the file is lost: it is in a document, or there is an error.
func Split(data []byte) ([]Document, error) {
	text, err := decodeText(data)
	if err != nil {
		return nil, err
	}
	parts := splitDocuments(text)
	if len(parts) > maxDocuments {
		return nil, fmt.Errorf("it has %d documents: at most %d are allowed", len(parts),
			maxDocuments)
	}
	var documents []Document
	for _, c := range parts {
		d, err := parseDocument(c)
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

// maxDocuments is how many documents a file may have, far more than there are kinds.
const maxDocuments = 100

// documentText is the text of one document.
type documentText struct {
	text []byte
	line int // number of its first line in the file
}

// splitDocuments returns the parts of a file between separators that are not blank.
func splitDocuments(data []byte) []documentText {
	all := []documentText{{line: 1}}
	for number, line := range numberedLines(data) {
		line = bytes.TrimPrefix(line, markUTF8) // of concatenated files
		// A parser would stop at "..." and drop what follows.
		for _, mark := range []string{"---", "..."} {
			rest, found := bytes.CutPrefix(line, []byte(mark))
			if found && (len(rest) == 0 || separatorEnd.Match(rest)) {
				all = append(all, documentText{line: number})
				line = bytes.TrimLeft(rest, " \t") // belongs to the next document
				break
			}
		}
		last := &all[len(all)-1]
		last.text = append(last.text, line...)
	}
	return slices.DeleteFunc(all,
		func(c documentText) bool { return len(bytes.TrimSpace(c.text)) == 0 })
}

// numberedLines yields the lines of a text with their numbers and line breaks. A line ends at
// each of YAML's line breaks, because a parser accepts a separator after any of them.
func numberedLines(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for number := 1; len(data) > 0; number++ {
			end := len(data)
			if found := lineBreak.FindIndex(data); found != nil {
				end = found[1]
			}
			if !yield(number, data[:end]) {
				return
			}
			data = data[end:]
		}
	}
}

var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

var separatorEnd = regexp.MustCompile("^[ \t\r\n\u0085\u2028\u2029]")

// parseDocument returns nil for an empty document.
func parseDocument(c documentText) (*Document, error) {
	if err := CheckAliases(c.text); err != nil {
		return nil, errors.New(describeParserError(err, c.line))
	}
	d := &Document{}
	var err error
	if d.json, err = yaml.YAMLToJSONStrict(c.text); err != nil {
		for _, m := range duplicateKey.FindAllStringSubmatch(err.Error(), -1) {
			n, _ := strconv.Atoi(m[1])
			d.duplicates = append(d.duplicates, duplicateField{c.line + n - 1, m[2]})
		}
		if d.json, err = yaml.YAMLToJSON(c.text); err != nil {
			return nil, errors.New(describeParserError(err, c.line))
		}
	}
	if json.Valid(c.text) { // duplicate mappings of JSON are merged, as everywhere in Kubernetes
		d.json = c.text
	}
	decoder := json.NewDecoder(bytes.NewReader(d.json))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf(
			"the document that begins on line %d cannot be parsed: it must be YAML or JSON", c.line)
	}
	if err := checkTrailingContent(c.text); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	var ok bool
	if d.tree, ok = value.(map[string]any); !ok {
		return nil, fmt.Errorf("it is %s, not a mapping with apiVersion and kind",
			describeValue(value))
	}
	d.octals = map[string][]string{}
	for _, m := range octalForm.FindAllSubmatch(c.text, -1) {
		d.octals[string(m[1])] = append(d.octals[string(m[1])], string(m[2]))
	}
	return d, d.identify()
}

// identify sets the API version and the kind, which every document must have.
func (d *Document) identify() error {
	for _, f := range []struct {
		name string
		into *string
		form *regexp.Regexp
		like string
	}{
		{"apiVersion", &d.APIVersion, apiVersionForm,
			"group/version, such as kubeadm.k8s.io/v1beta4"},
		{"kind", &d.Kind, kindForm, "the name of a kind, such as ClusterConfiguration"},
	} {
		value, isText := d.tree[f.name].(string)
		switch {
		case d.tree[f.name] == nil:
			return fmt.Errorf("%s is missing: it must be %s", f.name, f.like)
		case !isText:
			return fmt.Errorf("%s is %s: it must be %s", f.name, describeValue(d.tree[f.name]),
				f.like)
		case value == "":
			return fmt.Errorf("%s is empty: it must be %s", f.name, f.like)
		case len(value) > maxNameLength || !f.form.MatchString(value):
			return fmt.Errorf("%s is %s: it must be %s", f.name, untrusted.Quote(value), f.like)
		}
		*f.into = value
	}
	return nil
}

// The forms of API versions and kinds. A length in a form would be unrolled when kubeadm starts, which
// took longer than all other initialization.
const maxNameLength = 253

var (
	apiVersionForm = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9.-]+$`)
	kindForm       = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)
