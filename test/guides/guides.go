// Package guides reads the guides in docs/guide: which nodes a guide needs, and its blocks in
// order. A block says in its info string what a test does with it:
//
//	```sh node=cp1              run as root on cp1; node=cp1,cp2 on both, one after the other
//	```sh node=cp1 fails        run, and the last command must fail
//	```sh sandbox=pod-network   not run: the test does the same in its own way (see test/e2e)
//	```yaml file=/root/a.yaml node=cp1   written to that file
//	```text                     what the commands before it print; … stands for anything
//
// A comment at the top names the nodes: <!-- test: nodes=cp1,worker1 -->. Another one does what the
// reader has done before, or what has happened: <!-- sandbox: poweroff cp2 -->.
package guides

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Guide is a guide whose commands are run.
type Guide struct {
	Name    string   // of the file, without .md
	Nodes   []string // in this order, at 192.0.2.11 and the following addresses
	Options []string // other words of the comment at the top; readOptions lists them
	Blocks  []Block
}

// Kind says what a block is.
type Kind string

// The kinds of blocks.
const (
	Command Kind = "command" // Text is run by bash, with -e
	File    Kind = "file"    // Text is the content of File
	Output  Kind = "output"  // Text is what the command before it prints
	Sandbox Kind = "sandbox" // Step is done by the test
)

// Block is a fenced block, or a comment for the test.
type Block struct {
	Kind  Kind
	Line  int      // of the file, from 1
	Nodes []string // that it is run on or written to
	File  string   // absolute
	Step  []string // name and arguments
	Fails bool
	Text  string
}

// HasOption reports whether the comment at the top has the word.
func (g Guide) HasOption(word string) bool { return slices.Contains(g.Options, word) }

// Load reads the guides of a directory, in the order of their names. README.md is no guide. The
// error names every fault.
func Load(dir string) ([]Guide, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	var all []Guide
	var faults []error
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if filepath.Base(name) == "README.md" {
			continue
		}
		g, err := Parse(strings.TrimSuffix(filepath.Base(name), ".md"), string(data))
		all, faults = append(all, g), append(faults, err)
	}
	return all, errors.Join(faults...)
}

const (
	fence       = "```"
	testMark    = "<!-- test: "
	sandboxMark = "<!-- sandbox: "
	commentEnd  = " -->"
)

// Parse reads a guide. The error names every block that a test cannot run.
func Parse(name, text string) (Guide, error) {
	g := Guide{Name: name}
	var faults []error
	var inside *Block // the block whose lines are read
	before := ""
	for i, line := range strings.Split(text, "\n") {
		fault := func(format string, args ...any) {
			faults = append(faults,
				fmt.Errorf("%s.md:%d: %s", name, i+1, fmt.Sprintf(format, args...)))
		}
		comment, isTest := strings.CutPrefix(line, testMark)
		step, isStep := strings.CutPrefix(line, sandboxMark)
		info, isFence := strings.CutPrefix(line, fence)
		switch {
		case inside != nil && line == fence:
			g.Blocks = append(g.Blocks, *inside)
			inside = nil
		case inside != nil:
			inside.Text += line + "\n"
		case isTest:
			if err := g.readOptions(strings.TrimSuffix(comment, commentEnd)); err != nil {
				fault("%v", err)
			}
		case isStep:
			g.Blocks = append(g.Blocks, Block{Kind: Sandbox, Line: i + 1,
				Step: strings.Fields(strings.TrimSuffix(step, commentEnd))})
		case isFence:
			b, err := g.newBlock(info)
			if err != nil {
				fault("%v", err)
			}
			b.Line = i + 1
			inside = &b
		case strings.HasPrefix(line, "    ") && before == "":
			fault("an indented block cannot say where it is run: put it between lines of %s", fence)
		}
		before = line
	}
	if inside != nil {
		faults = append(faults, fmt.Errorf("%s.md:%d: the block has no end", name, inside.Line))
	}
	if len(g.Nodes) == 0 {
		faults = append(faults, fmt.Errorf("%s.md: there is no line %snodes=NAME,...%s", name,
			testMark, commentEnd))
	}
	return g, errors.Join(faults...)
}

func (g *Guide) readOptions(comment string) error {
	// Followed in every run; with a load balancer; with IPv4 and IPv6; with the older release;
	// with the package instead of the program.
	known := []string{"always", "balancer", "dual-stack", "older", "package"}
	for _, word := range strings.Fields(comment) {
		if names, ok := strings.CutPrefix(word, "nodes="); ok {
			g.Nodes = strings.Split(names, ",")
			continue
		}
		if !slices.Contains(known, word) {
			return fmt.Errorf("%q is unknown: use nodes=, %s", word, strings.Join(known, ", "))
		}
		g.Options = append(g.Options, word)
	}
	return nil
}

// newBlock reads the info string of a fence.
func (g *Guide) newBlock(info string) (Block, error) {
	words := strings.Fields(info)
	if len(words) == 0 {
		return Block{}, errors.New("the block does not say what it is: sh, text or yaml")
	}
	var b Block
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "node":
			b.Nodes = strings.Split(value, ",")
		case key == "file" && strings.HasPrefix(value, "/"):
			b.File = value
		case key == "sandbox" && value != "":
			b.Kind, b.Step = Sandbox, []string{value}
		case word == "fails":
			b.Fails = true
		default:
			return b, fmt.Errorf("%q is unknown: use node=, file=, sandbox= or fails", word)
		}
	}
	for _, n := range b.Nodes {
		if !slices.Contains(g.Nodes, n) {
			return b, fmt.Errorf("%s is not in nodes= at the top", n)
		}
	}
	switch language := words[0]; {
	case b.Kind == Sandbox:
	case language == "text" && len(words) == 1:
		if len(g.Blocks) == 0 || g.Blocks[len(g.Blocks)-1].Kind != Command {
			return b, errors.New("output must follow a block of commands")
		}
		b.Kind = Output
	case language == "sh" && len(b.Nodes) > 0 && b.File == "":
		b.Kind = Command
	case language != "sh" && len(b.Nodes) > 0 && b.File != "":
		b.Kind = File
	default:
		return b, fmt.Errorf("a block of %s needs node=, or node= and file=", language)
	}
	return b, nil
}

// FindMissing compares what commands printed with the output in a guide: its lines must be among
// those that were printed, in this order. In a line, … stands for any text; a line of … alone
// stands for any lines. Runs of blanks are equal. It returns the first line that is missing.
func FindMissing(want, printed string) (missing string, ok bool) {
	rest := strings.Split(printed, "\n")
	for line := range strings.Lines(want) {
		pattern := joinBlanks(line)
		if pattern == "" || pattern == "…" {
			continue
		}
		i := slices.IndexFunc(rest, func(l string) bool { return matches(pattern, joinBlanks(l)) })
		if i < 0 {
			return strings.TrimSpace(line), false
		}
		rest = rest[i+1:]
	}
	return "", true
}

func joinBlanks(text string) string { return strings.Join(strings.Fields(text), " ") }

// matches reports whether a text is a pattern, in which … stands for any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "…")
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	if len(parts) == 1 {
		return text == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
