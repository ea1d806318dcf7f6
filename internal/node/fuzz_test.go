package node

import (
	"strings"
	"testing"
)

// FuzzToken checks that ID and secret make up the accepted text, and that an error does not
// repeat a refused one.
func FuzzToken(f *testing.F) {
	for _, text := range []string{"abcdef.0123456789abcdef", "abcdef.0123456789abcdeF",
		"abcdef.0123456789abcdef\n", "ábcdef.0123456789abcdef", "......................", "",
		"abcdef", "zyxwvu.9876543210zyxwvu."} {
		f.Add(text)
	}
	example := `"abcdef.0123456789abcdef"`
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := ParseToken(text)
		if err == nil {
			if len(id) != 6 || len(secret) != 16 || id+"."+secret != text {
				t.Errorf("%q is %q and %q", text, id, secret)
			}
			if strings.Trim(id+secret, tokenLetters) != "" {
				t.Errorf("%q was accepted", text)
			}
			return
		}
		said := strings.ReplaceAll(err.Error(), example, "")
		if len(text) > 6 && strings.Contains(said, text) &&
			!strings.Contains("a token is 6 characters, a dot and 16 characters from a-z and 0-9, such as ", text) {
			t.Errorf("the error repeats %q: %v", text, err)
		}
		if id != "" || secret != "" {
			t.Errorf("%q is refused, yet gives %q and %q", text, id, secret)
		}
	})
}
