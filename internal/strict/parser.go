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
	parserWords  = regexp.MustCompile(
		`error converting YAML to JSON: |yaml: (unmarshal errors:\s*)?`)
)

// describeParserError returns a parser's error with line numbers of the file and a hint about its
// most frequent cause.
func describeParserError(err error, first int) string {
	text := parserWords.ReplaceAllString(err.Error(), "")
	text = lineNumber.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "line "))
		return fmt.Sprintf("line %d", first+n-1)
	})
	text = untrusted.Line(text) + ": "
	for _, h := range []struct{ words, hint string }{
		{"cannot start any token",
			"indent with spaces, not tabs, and put text that begins with a special character in quotes"},
		{"tab character", "indent with spaces, not tabs"},
		{"mapping values are not allowed",
			"put text that contains a colon in quotes, and indent all fields of a mapping equally"},
		{"could not find expected ':'",
			"write each field as \"name: value\", and indent all fields of a mapping equally"},
		{"expected <document start>", "remove lines that begin with %"},
		{"did not find expected key", "close brackets, and indent all fields of a mapping equally"},
		{"did not find expected", "close brackets"},
		{"while scanning a quoted scalar", "close quotes"},
		{"unknown anchor", "put text that begins with * in quotes"},
		{"UTF", "the file must be UTF-8 text"},
		{"control characters", "the file must be UTF-8 text"},
		{"max depth", "reduce the nesting"},
		{"excessive aliasing", "write out what the aliases stand for"},
		{"contains itself", "write out what the alias stands for"},
	} {
		if strings.Contains(err.Error(), h.words) {
			return text + h.hint
		}
	}
	return text + "the file must be YAML or JSON"
}

// duplicateField is a field that a document has more than once.
type duplicateField struct {
	line int // in the file, of the second occurrence
	name string
}

// expansionLimit is the maximum size of a document after its aliases are expanded.
const expansionLimit = 64 << 20

var aliasForm = regexp.MustCompile(`(?m)(?:^|[\s\[{,:-])\*[^\s,\]}]`)

// CheckAliases rejects a long text that many aliases may repeat: parsed, a file of 140 kB would take
// gigabytes of memory. The parser itself limits the number of values that aliases add, but not their
// size.
func CheckAliases(text []byte) error {
	if !bytes.ContainsRune(text, '*') {
		return nil
	}
	if aliases := len(aliasForm.FindAllIndex(text, -1)); aliases*len(text) > expansionLimit {
		return fmt.Errorf("excessive aliasing: %d aliases in %d bytes", aliases, len(text))
	}
	return nil
}

// checkTrailingContent rejects content after the first YAML document of a text, which the parser
// ignores: a second JSON object, or lines that are indented less than the first one. It parses the
// document as the value of a field, so that the remaining content is a second field or an error.
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
	default: // a mapping without indentation, which contains everything that follows
		return nil
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(asValue), &fields); err != nil || len(fields) != 1 {
		return errors.New("there is content after its end: separate documents with lines of \"---\", and indent all fields of a mapping equally")
	}
	return nil
}

// documentStart finds the first character after blank lines, comments, anchors and tags.
var documentStart = regexp.MustCompile(
	"\\A(?:[\\s\u0085\u2028\u2029]|#[^\r\n\u0085\u2028\u2029]*|[&!]\\S*)*" +
		"([^\\s#&!\u0085\u2028\u2029])")

// octalForm matches fields with a number with a leading zero, which YAML 1.1 parses as octal.
var octalForm = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9]*)["']?:\s+(0[0-7]+)\b`)
