package cli

import (
	"fmt"

	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
)

// Values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// setColor applies --color.
func setColor(p *program) error {
	var color bool
	switch p.color {
	case colorAuto:
		color = colorsByDefault(p)
	case colorAlways:
		color = true
	case colorNever:
	default:
		return problem.New(fmt.Errorf("--%s: unknown value %q", flag.Color, p.color),
			fmt.Sprintf("set --%s to %s, %s or %s", flag.Color, colorAuto, colorAlways, colorNever))
	}
	if p.Style != nil {
		p.Style.Color = color
	}
	return nil
}

// colorsByDefault reports whether standard error is a terminal with colors, whose user has not
// asked for none: https://no-color.org.
func colorsByDefault(p *program) bool {
	if !p.ErrIsTerminal {
		return false
	}
	noColor, _ := p.Getenv("NO_COLOR")
	return noColor == "" && hasCursor(p.Getenv)
}

// hasCursor reports whether the terminal, if there is one, knows control sequences.
func hasCursor(getenv func(string) (string, bool)) bool {
	name, _ := getenv("TERM")
	return name != "" && name != "dumb"
}
