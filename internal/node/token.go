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

// ParseToken reads a bootstrap token, "id.secret". The error does not repeat the text, which may be secret.
func ParseToken(text string) (id, secret string, err error) {
	m := tokenForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", errors.New(`a token is 6 characters, a dot and 16 characters out of a-z and 0-9, such as "abcdef.0123456789abcdef"`)
	}
	return m[1], m[2], nil
}

// NewToken makes up a bootstrap token; every one is as likely as any other.
func NewToken(random io.Reader) (id, secret string, err error) {
	text, err := letters(random, 6+16)
	if err != nil {
		return "", "", fmt.Errorf("making up a token: %w", err)
	}
	return text[:6], text[6:], nil
}

func letters(random io.Reader, n int) (string, error) {
	// A byte beyond the largest multiple would favour the first letters.
	fair := byte(256 / len(tokenLetters) * len(tokenLetters))
	var text strings.Builder
	one := make([]byte, 1)
	for text.Len() < n {
		if _, err := io.ReadFull(random, one); err != nil {
			return "", err
		}
		if one[0] < fair {
			text.WriteByte(tokenLetters[int(one[0])%len(tokenLetters)])
		}
	}
	return text.String(), nil
}
