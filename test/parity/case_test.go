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

// step is one command and how its output is to be understood.
type step struct {
	args []string
	read outputReader
}

// outputReader takes facts from what a command said; at is where they belong.
type outputReader func(r factCollector, at string, s commandResult)

// ignoreOutput is a step whose words mean nothing; its exit code and what preflight found are compared anyway.
func ignoreOutput(line string) step {
	return compareOutput(line, func(factCollector, string, commandResult) {})
}

func compareOutput(line string, how outputReader) step { return step{strings.Fields(line), how} }

// run gives the case's commands to a program on a new machine.
func (c testCase) run(t *testing.T, program string) outcome {
	var lines [][]string
	for _, s := range c.steps {
		lines = append(lines, s.args)
	}
	return c.machine.run(t, program, lines)
}

// facts is all that an outcome means.
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

// preflightFinding is what preflight says in both programs.
var preflightFinding = regexp.MustCompile(`\[(WARNING|ERROR) ([A-Za-z0-9_-]+)\]`)

// file adds the mode and what the contents mean.
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

// asDocuments understands YAML, or JSON of one object.
func asDocuments(r factCollector, at string, s commandResult) { r.documents(at+"/out", s.Out) }

// asObjects understands JSON objects one after another, or YAML.
func asObjects(r factCollector, at string, s commandResult) {
	for i, text := range strings.Split(strings.ReplaceAll(s.Out, "}\n{", "}\n\x00{"), "\x00") {
		r.documents(fmt.Sprintf("%s/out%d", at, i+1), text)
	}
}

// asLines takes every line by itself, in order.
func asLines(r factCollector, at string, s commandResult) {
	for i, line := range strings.Split(strings.TrimSpace(s.Out), "\n") {
		r.add(fmt.Sprintf("%s/out/line%d", at, i+1), withoutRandomValues(strings.Join(strings.Fields(line), " ")))
	}
}

// matchOutput wants the whole output to look a certain way, in both alike.
func matchOutput(pattern string) outputReader {
	p := regexp.MustCompile(`^(?:` + pattern + `)\n$`)
	return func(r factCollector, at string, s commandResult) {
		if !p.MatchString(s.Out) {
			r.add(at+"/out", s.Out)
			return
		}
		r.add(at+"/out", "as it should be")
	}
}
