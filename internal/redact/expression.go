package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// expression is a regular expression that is not tried on texts that cannot match it: most of what is redacted, such as the
// objects of a large cluster, holds no secrets, and dozens of expressions are tried on each text.
type expression struct {
	*regexp.Regexp
	words []string // in lower case: each match has one of them; without words, each text is tried
}

// lazily returns a function that compiles a regular expression when it is first called. Dozens of them
// would delay each start of the program by several milliseconds.
func lazily(text string) func() *expression { return lazilyWith(nil, text) }

// lazilyWith is lazily for an expression each match of which has one of the words. They are in lower case.
func lazilyWith(words []string, text string) func() *expression {
	return sync.OnceValue(func() *expression { return &expression{regexp.MustCompile(text), words} })
}

// canMatch reports whether a text has one of the words. Where case does not count, some letters that are not ASCII count as
// such, so each text with others may match.
func (x *expression) canMatch(text string) bool {
	if len(x.words) == 0 || !isASCII(text) {
		return true
	}
	lower := strings.ToLower(text)
	return slices.ContainsFunc(x.words, func(word string) bool { return strings.Contains(lower, word) })
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (x *expression) MatchString(text string) bool {
	return x.canMatch(text) && x.Regexp.MatchString(text)
}

func (x *expression) FindAllStringIndex(text string, most int) [][]int {
	if !x.canMatch(text) {
		return nil
	}
	return x.Regexp.FindAllStringIndex(text, most)
}

func (x *expression) FindAllStringSubmatchIndex(text string, most int) [][]int {
	if !x.canMatch(text) {
		return nil
	}
	return x.Regexp.FindAllStringSubmatchIndex(text, most)
}

func (x *expression) ReplaceAllString(text, with string) string {
	if !x.canMatch(text) {
		return text
	}
	return x.Regexp.ReplaceAllString(text, with)
}

func (x *expression) ReplaceAllStringFunc(text string, replace func(string) string) string {
	if !x.canMatch(text) {
		return text
	}
	return x.Regexp.ReplaceAllStringFunc(text, replace)
}
