package parity

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// testCase is one input for both programs.
type testCase struct {
	name string
	machine
	steps []step
}

// step is one command and how its output is compared.
type step struct {
	args []string
	read outputReader
}

// outputReader collects facts from a command's output, with addresses below at.
type outputReader func(r factCollector, at string, s commandResult)

// ignoreOutput is a step whose output is not compared, except for its exit code and preflight
// findings.
func ignoreOutput(line string) step {
	return compareOutput(line, func(factCollector, string, commandResult) {})
}

func compareOutput(line string, how outputReader) step { return step{strings.Fields(line), how} }

// run runs the case's commands with a program on a new machine.
func (c testCase) run(t *testing.T, program string) outcome {
	var lines [][]string
	for _, s := range c.steps {
		lines = append(lines, s.args)
	}
	return c.machine.run(t, program, lines)
}

// facts collects the facts of an outcome.
func (c testCase) facts(t *testing.T, o outcome) facts {
	r := factCollector{facts{}, o.began}
	for i, s := range o.steps {
		at := fmt.Sprintf("step%d", i+1)
		r.add(at+"/exit", fmt.Sprint(s.Exit))
		for _, m := range preflightFinding.FindAllStringSubmatch(s.Err, -1) {
			r.add(at+"/check/"+m[2], strings.ToLower(m[1]))
		}
		if strings.Contains(s.Out+s.Err, "goroutine 1 [") {
			t.Errorf("a program panicked:\n%s", s.Err)
		}
		c.steps[i].read(r, at, s)
	}
	for name, f := range o.tree {
		r.file(withoutRandomValues(name), f)
	}
	return r.facts
}

// preflightFinding matches a preflight finding in the output of both programs.
var preflightFinding = regexp.MustCompile(`\[(WARNING|ERROR) ([A-Za-z0-9_-]+)\]`)

// file adds a file's mode and the facts of its content.
func (r factCollector) file(name string, f fileState) {
	at := "file" + name
	if f.data == removedMark {
		r.add(at, removedMark)
		return
	}
	r.add(at, f.mode.String())
	switch {
	case !f.mode.IsRegular():
	case strings.HasPrefix(f.data, "-----BEGIN "):
		r.pem(at, f.data)
	case strings.Contains(".yaml .conf .json", path.Ext(name)) && path.Ext(name) != "":
		r.documents(at, f.data)
	default:
		r.add(at+"/text", withoutRandomValues(f.data))
	}
}

// asDocuments reads YAML, or JSON of one object.
func asDocuments(r factCollector, at string, s commandResult) { r.documents(at+"/out", s.Out) }

// asObjects reads JSON objects one after another, or YAML.
func asObjects(r factCollector, at string, s commandResult) {
	for i, text := range strings.Split(strings.ReplaceAll(s.Out, "}\n{", "}\n\x00{"), "\x00") {
		r.documents(fmt.Sprintf("%s/out%d", at, i+1), text)
	}
}

// asLines compares each line, in order.
func asLines(r factCollector, at string, s commandResult) {
	for i, line := range strings.Split(strings.TrimSpace(s.Out), "\n") {
		r.add(fmt.Sprintf("%s/out/line%d", at, i+1),
			withoutRandomValues(strings.Join(strings.Fields(line), " ")))
	}
}

// asText compares each line as it is, blanks included: scripts cut columns.
func asText(r factCollector, at string, s commandResult) {
	for i, line := range strings.Split(strings.TrimSuffix(s.Out, "\n"), "\n") {
		r.add(fmt.Sprintf("%s/out/line%d", at, i+1), withoutRandomValues(line))
	}
}

// matchOutput requires that the whole output of both programs matches a pattern.
func matchOutput(pattern string) outputReader {
	p := regexp.MustCompile(`^(?:` + pattern + `)\n$`)
	return func(r factCollector, at string, s commandResult) {
		if !p.MatchString(s.Out) {
			r.add(at+"/out", s.Out)
			return
		}
		r.add(at+"/out", "matches")
	}
}
