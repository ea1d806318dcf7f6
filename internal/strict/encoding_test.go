package strict

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

const (
	documentA = "apiVersion: x/v1\nkind: A\n"
	documentB = "apiVersion: x/v1\nkind: B\n"
)

// asUTF16 encodes text as UTF-16 after a byte order mark, if any.
func asUTF16(mark, text string, order binary.AppendByteOrder) string {
	data := []byte(mark)
	for _, unit := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, unit)
	}
	return string(data)
}

func TestNoDocumentIsLost(t *testing.T) {
	both := documentA + "---\n" + documentB
	for name, text := range map[string]string{
		"UTF-8":                        both,
		"UTF-8 with a byte order mark": "\ufeff" + both,
		"a mark before the second":     documentA + "---\n\ufeff" + documentB,
		"a mark before the separator":  documentA + "\ufeff---\n" + documentB,
		"UTF-16, little endian":        asUTF16("\xff\xfe", both, binary.LittleEndian),
		"UTF-16, big endian":           asUTF16("\xfe\xff", both, binary.BigEndian),
		"UTF-16 beyond the basic plane": asUTF16("\xff\xfe", "# \U0001F600\n"+both,
			binary.LittleEndian),
		"UTF-16 with CRLF": asUTF16("\xff\xfe",
			strings.ReplaceAll(both, "\n", "\r\n"), binary.LittleEndian),
		"CRLF":                       strings.ReplaceAll(both, "\n", "\r\n"),
		"CR alone":                   strings.ReplaceAll(both, "\n", "\r"),
		"a next line character":      strings.ReplaceAll(both, "\n", "\u0085"),
		"a line separator":           strings.ReplaceAll(both, "\n", "\u2028"),
		"a paragraph separator":      strings.ReplaceAll(both, "\n", "\u2029"),
		"an end of the first":        documentA + "...\n" + documentB,
		"an end and a separator":     documentA + "...\n---\n" + documentB,
		"an empty document first":    "---\n---\n" + both,
		"a comment first":            "# first\n---\n" + both,
		"a null first":               "null\n---\n" + both,
		"a separator with a comment": documentA + "--- # second\n" + documentB,
		"a separator with a tab":     documentA + "---\t\n" + documentB,
		"JSON and YAML": `{"apiVersion": "x/v1", "kind": "A"}` + "\n---\n" +
			documentB,
		"JSON over many lines": "{\n\"apiVersion\": \"x/v1\",\n\"kind\": \"A\"\n}\n---\n" +
			documentB,
		"a flow mapping behind an anchor": "--- &a\n{apiVersion: x/v1,\n kind: A}\n---\n" +
			documentB,
		"indented alike": "  apiVersion: x/v1\n  kind: A\n---\n" + documentB,
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := Split([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, d := range documents {
				kinds = append(kinds, d.Kind)
			}
			if diff := cmp.Diff([]string{"A", "B"}, kinds); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitTrailingContent(t *testing.T) {
	const more = "document 1: there is content after its end: separate documents with lines of \"---\", and indent all fields of a mapping equally"
	for name, c := range map[string]struct{ text, want string }{
		"two JSON objects": {`{"apiVersion": "x/v1", "kind": "A"}` + "\n" +
			`{"apiVersion": "x/v1", "kind": "B"}`, more},
		"two JSON objects in a line": {`{"apiVersion": "x/v1", "kind": "A"} {"apiVersion": "x/v1", "kind": "B"}`, more},
		"fields behind a JSON object": {`{"apiVersion": "x/v1", "kind": "A"}` + "\nfield: 1\n",
			more},
		"a bracket too much":            {`{"apiVersion": "x/v1", "kind": "A"}}`, more},
		"behind an anchor":              {"&a {apiVersion: x/v1, kind: A}\n{}\n", more},
		"a first line that is indented": {"  apiVersion: x/v1\n  kind: A\nfield: 1\n", more},
		"UTF-16 without a mark": {asUTF16("", documentA, binary.LittleEndian),
			"it is UTF-16 text without a byte order mark: save it as UTF-8"},
		"UTF-16 of the other order": {asUTF16("", documentA, binary.BigEndian),
			"it is UTF-16 text without a byte order mark: save it as UTF-8"},
		"UTF-16 that ends early": {asUTF16("\xff\xfe", documentA, binary.LittleEndian) + "a",
			"it is UTF-16 text that ends within a character: save it as UTF-8"},
		"half a pair in UTF-16": {asUTF16("\xff\xfe", documentA, binary.LittleEndian) +
			"\x00\xd8a\x00", "line 3: incomplete UTF-16 character: save it as UTF-8"},
		"half a pair at the end": {asUTF16("\xff\xfe", documentA, binary.LittleEndian) +
			"\x00\xd8", "line 3: incomplete UTF-16 character: save it as UTF-8"},
		"NUL in UTF-16": {asUTF16("\xff\xfe", documentA+"\x00", binary.LittleEndian),
			"line 3: NUL character: save it as UTF-8"},
		"UTF-32": {"\xff\xfe\x00\x00a\x00\x00\x00",
			"it is UTF-32 text: save it as UTF-8"},
		"NUL": {documentA + "field: a\x00b\n",
			"line 3: NUL byte: the file must be UTF-8 text"},
		"NUL behind the end": {documentA + "...\n\x00",
			"line 4: NUL byte: the file must be UTF-8 text"},
		"a kind with an escape": {"apiVersion: x/v1\nkind: \"\\e[31mA\"\n",
			`document 1: kind is "\x1b[31mA": it must be the name of a kind, such as ClusterConfiguration`},
		"a version with a newline": {"apiVersion: \"x/v1\\n\"\nkind: A\n",
			`document 1: apiVersion is "x/v1": it must be group/version, such as kubeadm.k8s.io/v1beta4`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Split([]byte(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestResourceLimits has inputs that would take much time or memory.
func TestResourceLimits(t *testing.T) {
	many := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		text  string
		want  string // part of the error, or of what does not fit
		least int    // mismatches that are named
	}{
		"100 MB":          {text: strings.Repeat("# x\n", 25<<20), want: "at most 3145728"},
		"nested lists":    {text: strings.Repeat("[", 1<<20), want: "exceeded max depth"},
		"nested mappings": {text: strings.Repeat("{a: ", 1<<18), want: "exceeded max depth"},
		"nested blocks": {text: many(1500,
			func(i int) string { return strings.Repeat(" ", i) + "a:\n" }) + "\t", want: "tab"},
		"one string many times": {text: documentA + "s: &s " + strings.Repeat("x", 1<<20) +
			"\nl: [" + strings.Repeat("*s, ", 30_000) + "]\n", want: "excessive aliasing"},
		"a name of a megabyte": {text: head + strings.Repeat("x", 1<<20) + ": 1\n",
			want: "could not find expected ':'"},
		"unknown fields": {text: head + many(30_000,
			func(i int) string { return fmt.Sprintf("f%d: 1\n", i) }), want: "29980 more fields",
			least: 21},
		"fields given twice": {text: head + strings.Repeat("name: x\n", 30_000),
			want: "29979 more fields", least: 21},
		"unknown in a list": {text: head + "seeds:\n" +
			strings.Repeat("- color: red\n", 30_000), want: "29980 more fields", least: 21},
		"wrong values": {text: head + "seeds:\n" + strings.Repeat("- colour: 1\n", 30_000),
			want: "29980 more values", least: 21},
		"separators": {text: strings.Repeat("---\n", 200_000)},
		"comments as documents": {text: strings.Repeat("--- #\n", 150_000),
			want: "it has 150000 documents: at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			documents, err := Split([]byte(c.text))
			said := fmt.Sprint(err)
			for _, d := range documents {
				m := d.Decode(&fruit{}, Hints{})
				if count := len(m.Ignored) + len(m.Wrong); count != c.least {
					t.Errorf("%d mismatches are named, want %d", count, c.least)
				}
				for _, i := range m.Ignored {
					said += "\n" + i.Warning()
				}
				said += "\n" + strings.Join(m.Wrong, "\n")
			}
			if !strings.Contains(said, c.want) {
				t.Errorf("%q is not in\n%.2000s", c.want, said)
			}
			if len(said) > 10_000 {
				t.Errorf("%d characters are said", len(said))
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
