package strict

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	lineNumber  = regexp.MustCompile(`\bline (\d+)`)
	repetition  = regexp.MustCompile(`(line \d+): key (".*") already set in map`)
	parserWords = regexp.MustCompile(`error converting YAML to JSON: |yaml: (unmarshal errors:\s*)?`)
)

// readable is a parser's error with line numbers of the file, and with what to do about it.
func readable(err error, first int) string {
	return numbered(err, first) + ": " + remedy(err.Error())
}

func numbered(err error, first int) string {
	text := parserWords.ReplaceAllString(err.Error(), "")
	return lineNumber.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "line "))
		return fmt.Sprintf("line %d", first+n-1)
	})
}

// remedy says what a parser's error most often comes from.
func remedy(fault string) string {
	for _, known := range []struct{ words, remedy string }{
		{"cannot start any token", "indent by spaces, not by tabs, and put text that begins with a special character in quotes"},
		{"mapping values are not allowed", "put text with a colon in it in quotes, and indent fields of one mapping alike"},
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

func repeated(err error, first int) []string {
	var all []string
	for _, m := range repetition.FindAllStringSubmatch(numbered(err, first), -1) {
		all = append(all, fmt.Sprintf("%s: field %s is given twice", m[1], m[2]))
	}
	return all
}
