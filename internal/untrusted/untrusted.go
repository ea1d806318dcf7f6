// Package untrusted makes text safe to show on a terminal: text of servers, container runtimes,
// files, file names and arguments. Such text may hold escape sequences that rewrite the screen, or
// newlines that imitate the lines of this program.
package untrusted

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineLimit is how many characters of a line are kept: enough for any message that is meant to be
// read.
const lineLimit = 400

// Line returns text as one line: newlines, control characters and characters that cannot be seen
// become escapes of Go's syntax (\n, \x1b, \u202e), and what exceeds 400 characters is cut off.
func Line(text string) string {
	text = strings.TrimSpace(text)
	var line strings.Builder
	length := 0
	for _, r := range text {
		if length++; length > lineLimit {
			line.WriteString("...")
			break
		}
		writeRune(&line, r)
	}
	return line.String()
}

// Quote returns text as Line does, in double quotes. Use it wherever a message repeats what
// another program or person wrote, so that a reader sees where that text begins and ends.
func Quote(text string) string {
	return `"` + strings.ReplaceAll(Line(text), `"`, `\"`) + `"`
}

// Screen returns text with all control characters but newlines and tabs escaped, and bytes that are
// not UTF-8 replaced: some terminals obey them. Renderers put everything that they show through it.
func Screen(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isUnsafeOnScreen) {
		return text
	}
	var safe strings.Builder
	for _, r := range text {
		if isUnsafeOnScreen(r) {
			writeRune(&safe, r)
		} else {
			safe.WriteRune(r)
		}
	}
	return safe.String()
}

func isUnsafeOnScreen(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

func writeRune(to *strings.Builder, r rune) {
	if unicode.IsPrint(r) {
		to.WriteRune(r)
		return
	}
	escape := strconv.QuoteRune(r)
	to.WriteString(escape[1 : len(escape)-1])
}

// Error returns err with its text as Line gives it. errors.Is and errors.As still find what err
// wraps. It returns nil for nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return &safeError{Line(err.Error()), err}
}

// QuotedError is Error with the text as Quote gives it: for what a server says that is not
// verified.
func QuotedError(err error) error {
	if err == nil {
		return nil
	}
	return &safeError{Quote(err.Error()), err}
}

// IsSafe reports whether err itself is from Error or QuotedError. What it wraps is not safe to show.
func IsSafe(err error) bool {
	_, ok := any(err).(*safeError) // err itself, not what it wraps
	return ok
}

type safeError struct {
	text string
	err  error
}

func (e *safeError) Error() string { return e.text }

func (e *safeError) Unwrap() error { return e.err }
