package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// newQuestioner is a program whose terminal shows what is typed while hidden is not positive.
func newQuestioner(in io.Reader) (p *program, hidden *int) {
	hidden = new(int)
	m := newDefaultMachine()
	m.In = in
	m.HideInput = func() (func(), error) {
		*hidden++
		return func() { *hidden-- }, nil
	}
	return newProgram(m.Host), hidden
}

// An interrupt ends a question, and the terminal shows again what is typed.
func TestInterruptEndsHiddenQuestion(t *testing.T) {
	in, typed := io.Pipe() // nothing is ever typed
	defer typed.Close()
	p, hidden := newQuestioner(in)
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(interrupted) })
	if _, err := p.askHidden(ctx, "Passphrase: "); !errors.Is(err, interrupted) || *hidden != 0 {
		t.Errorf("got error %v, hidden %d times", err, *hidden)
	}
}

func TestReadPassphrase(t *testing.T) {
	for input, c := range map[string]struct {
		isNew     bool
		want, err string
	}{
		"one\n":            {want: "one"},
		"one":              {want: "one"},
		"two \r\ntwo \r\n": {isNew: true, want: "two "},
		"one\ntwo\n":       {isNew: true, err: "the two passphrases differ"},
		"\n\n":             {isNew: true, err: "the passphrase is empty"},
	} {
		p, hidden := newQuestioner(strings.NewReader(input))
		got, err := readPassphrase(t.Context(), p, "", c.isNew)
		if got != c.want || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) || *hidden != 0 {
			t.Errorf("%q: got %q, %v, hidden %d times", input, got, err, *hidden)
		}
	}
}
