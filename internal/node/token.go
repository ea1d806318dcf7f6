package node

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

const tokenLetters = "abcdefghijklmnopqrstuvwxyz0123456789"

var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// ParseToken parses a bootstrap token, "id.secret". The error does not repeat the text, which may
// be secret.
func ParseToken(text string) (id, secret string, err error) {
	m := tokenForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", errors.New(
			`a token is 6 characters, a dot and 16 characters from a-z and 0-9, such as "abcdef.0123456789abcdef"`)
	}
	return m[1], m[2], nil
}

// NewToken generates a bootstrap token. All tokens are equally likely.
func NewToken(random io.Reader) (id, secret string, err error) {
	// Bytes from the largest multiple on would make the first letters more likely.
	limit := byte(256 / len(tokenLetters) * len(tokenLetters))
	var text strings.Builder
	one := make([]byte, 1)
	for text.Len() < 6+16 {
		if _, err := io.ReadFull(random, one); err != nil {
			return "", "", fmt.Errorf("generating a token: %w", err)
		}
		if one[0] < limit {
			text.WriteByte(tokenLetters[int(one[0])%len(tokenLetters)])
		}
	}
	return text.String()[:6], text.String()[6:], nil
}
