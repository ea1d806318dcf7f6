package untrusted

import (
	"strings"
	"unicode"
)

// Command returns a command line to copy into a shell: text of this program with values of other
// origin, such as a path or the name of an object. Values take the places of %s in text, and those
// that are left follow it. A value with blanks or punctuation is quoted.
// The result is empty if a value is not an ordinary one: if it begins like a flag, or has characters
// that cannot be seen or that mean something to a shell. Whoever copies the line must not run what the
// author of a name has put there.
func Command(text string, values ...string) string {
	before, rest := "", text
	for _, value := range values {
		word, ok := shellWord(value)
		if !ok {
			return ""
		}
		part, after, hasPlace := strings.Cut(rest, "%s")
		if !hasPlace {
			part += " "
		}
		before, rest = before+part+word, after
	}
	return before + rest
}

// CommandHint is the hint "do: command", or what alone if there is no command that can be copied
// safely.
func CommandHint(what, text string, values ...string) string {
	if command := Command(text, values...); command != "" {
		return what + ": " + command
	}
	return what
}

// shellWord returns the value as one word of a shell, and whether it may stand in a command.
func shellWord(value string) (string, bool) {
	if value == "" || len(value) > lineLimit || value[0] == '-' {
		return "", false
	}
	isQuoted := false
	for _, r := range value {
		switch {
		case strings.ContainsRune("\"'`$\\!;&|<>(){}*?#\uFFFD", r) || !unicode.IsPrint(r):
			return "", false
		case r >= unicode.MaxASCII, !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
			!strings.ContainsRune("-_./:=,@%+", r):
			isQuoted = true
		}
	}
	if isQuoted {
		return "'" + value + "'", true
	}
	return value, true
}
