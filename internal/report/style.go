package report

// Style is how warnings and errors are emphasized on a terminal. It is set before anything is shown.
type Style struct{ Color bool }

// Control sequences of ECMA-48 (SGR).
const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

func (s *Style) in(color, text string) string {
	if s == nil || !s.Color {
		return text
	}
	return color + text + plain
}
