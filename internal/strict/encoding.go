package strict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxSize is the maximum size of a file: more than the API server stores in one object, so more
// than any valid configuration.
const maxSize = 3 << 20

const saveAsUTF8 = "save it as UTF-8"

// Byte order marks at the beginning of a file.
var (
	markUTF8    = []byte("\xef\xbb\xbf")
	markUTF16LE = []byte("\xff\xfe")
	markUTF16BE = []byte("\xfe\xff")
	markUTF32LE = []byte("\xff\xfe\x00\x00")
	markUTF32BE = []byte("\x00\x00\xfe\xff")
)

// decodeText returns the text of a file as UTF-8. UTF-16 is detected by its byte order mark. A
// YAML parser would decode it too, but only after the file was split into documents.
func decodeText(data []byte) ([]byte, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("it has %d bytes: at most %d are allowed", len(data), maxSize)
	}
	switch {
	case bytes.HasPrefix(data, markUTF32LE), bytes.HasPrefix(data, markUTF32BE):
		return nil, errors.New("it is UTF-32 text: " + saveAsUTF8)
	case bytes.HasPrefix(data, markUTF16LE):
		return decodeUTF16(data[len(markUTF16LE):], binary.LittleEndian)
	case bytes.HasPrefix(data, markUTF16BE):
		return decodeUTF16(data[len(markUTF16BE):], binary.BigEndian)
	}
	at := bytes.IndexByte(data, 0)
	switch {
	case at < 0:
		return data, nil
	case len(data)%2 == 0 && bytes.Count(data, []byte{0}) >= len(data)/3:
		return nil, errors.New("it is UTF-16 text without a byte order mark: " + saveAsUTF8)
	}
	return nil, fmt.Errorf("line %d: NUL byte: the file must be UTF-8 text",
		1+bytes.Count(data[:at], []byte("\n")))
}

func decodeUTF16(data []byte, order binary.ByteOrder) ([]byte, error) {
	if len(data)%2 != 0 {
		return nil, errors.New("it is UTF-16 text that ends within a character: " + saveAsUTF8)
	}
	text := make([]byte, 0, len(data))
	for line := 1; len(data) > 0; data = data[2:] {
		r := rune(order.Uint16(data))
		if utf16.IsSurrogate(r) {
			if data = data[2:]; len(data) > 0 {
				r = utf16.DecodeRune(r, rune(order.Uint16(data)))
			}
			if len(data) == 0 || r == utf8.RuneError {
				return nil, fmt.Errorf("line %d: incomplete UTF-16 character: %s", line, saveAsUTF8)
			}
		}
		switch r {
		case 0:
			return nil, fmt.Errorf("line %d: NUL character: %s", line, saveAsUTF8)
		case '\n':
			line++
		}
		text = utf8.AppendRune(text, r)
	}
	return text, nil
}
