package strict

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/untrusted"
)

var (
	lineNumber   = regexp.MustCompile(`\bline (\d+)`)
	duplicateKey = regexp.MustCompile(`line (\d+): key "?(.*?)"? already set in map`)
	parserWords  = regexp.MustCompile(`error converting YAML to JSON: |yaml: (unmarshal errors:\s*)?`)
)

// describeParserError is a parser's error with line numbers of the file, and with what to do about it.
func describeParserError(err error, first int) string {
	text := parserWords.ReplaceAllString(err.Error(), "")
	text = lineNumber.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "line "))
		return fmt.Sprintf("line %d", first+n-1)
	})
	return untrusted.Line(text) + ": " + parserHint(err.Error())
}

// parserHint says what a parser's error most often comes from.
func parserHint(fault string) string {
	for _, known := range []struct{ words, remedy string }{
		{"cannot start any token", "indent by spaces, not by tabs, and put text that begins with a special character in quotes"},
		{"tab character", "indent by spaces, not by tabs"},
		{"mapping values are not allowed", "put text with a colon in it in quotes, and indent fields of one mapping alike"},
		{"could not find expected ':'", "write each field as \"name: value\", and indent fields of one mapping alike"},
		{"expected <document start>", "leave out lines that begin with %"},
		{"did not find expected key", "close what a bracket before it opens, and indent fields of one mapping alike"},
		{"did not find expected", "close what a bracket before it opens"},
		{"while scanning a quoted scalar", "close what a quote before it opens"},
		{"unknown anchor", "put text that begins with * in quotes"},
		{"UTF", "the file must be text in UTF-8"},
		{"control characters", "the file must be text in UTF-8"},
		{"max depth", "no configuration is nested that deep"},
		{"excessive aliasing", "write out what the aliases stand for"},
		{"contains itself", "write out what the alias stands for"},
	} {
		if strings.Contains(fault, known.words) {
			return known.remedy
		}
	}
	return "the file must be YAML or JSON"
}

// duplicateField is a field that a document gives more than once.
type duplicateField struct {
	line int // in the file, of the second time
	name string
}

// findDuplicateFields takes the fields that are given more than once from the error of a strict parser.
func findDuplicateFields(err error, first int) (all []duplicateField) {
	for _, m := range duplicateKey.FindAllStringSubmatch(err.Error(), -1) {
		n, _ := strconv.Atoi(m[1])
		all = append(all, duplicateField{first + n - 1, m[2]})
	}
	return all
}

// expansionLimit is how large the text of a document may become when its aliases are replaced.
const expansionLimit = 64 << 20

var aliasForm = regexp.MustCompile(`(?m)(?:^|[\s\[{,:-])\*[^\s,\]}]`)

// checkAliases refuses a long text that many aliases may repeat. The parser itself bounds how many
// values aliases may add, but not how long they are.
func checkAliases(text []byte) error {
	if !bytes.ContainsRune(text, '*') {
		return nil
	}
	if aliases := len(aliasForm.FindAllIndex(text, -1)); aliases*len(text) > expansionLimit {
		return fmt.Errorf("excessive aliasing: %d aliases in %d bytes", aliases, len(text))
	}
	return nil
}

// checkTrailingContent refuses a text behind whose first YAML document there is more, which the parser does not
// read: a second JSON object, or lines that are indented less than the first one. It has the parser
// read the document as the value of a field. What is left over is then a second field or an error.
func checkTrailingContent(text []byte) error {
	at := documentStart.FindSubmatchIndex(text)
	if at == nil {
		return nil
	}
	start := at[2]
	indent := text[:start]
	if breaks := lineBreak.FindAllIndex(indent, -1); len(breaks) > 0 {
		indent = indent[breaks[len(breaks)-1][1]:]
	}
	var asValue string
	switch {
	case text[start] == '{' || text[start] == '[':
		asValue = string(text[:start]) + "document: " + string(text[start:])
	case len(indent) > 0:
		asValue = "document:\n" + string(text)
	default: // Only a mapping can begin here, and what is not indented belongs to it.
		return nil
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(asValue), &fields); err != nil || len(fields) != 1 {
		return errors.New("there is more behind its end: separate documents by lines of \"---\", and indent fields of one mapping alike")
	}
	return nil
}

// documentStart finds the first character behind blank lines, comments, anchors and tags.
var documentStart = regexp.MustCompile("\\A(?:[\\s\u0085\u2028\u2029]|#[^\r\n\u0085\u2028\u2029]*|[&!]\\S*)*" +
	"([^\\s#&!\u0085\u2028\u2029])")

var octalForm = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9]*)["']?:\s+(0[0-7]+)\b`)

// findOctals finds numbers with a leading zero, which YAML 1.1 reads as octal.
func findOctals(text []byte) map[string][]string {
	all := map[string][]string{}
	for _, m := range octalForm.FindAllSubmatch(text, -1) {
		all[string(m[1])] = append(all[string(m[1])], string(m[2]))
	}
	return all
}
