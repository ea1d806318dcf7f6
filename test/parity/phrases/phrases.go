// Package phrases knows what programs and scripts look for in the output of kubeadm. phrases.yaml
// lists it, each phrase with the tool that reads it.
package phrases

import (
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Phrase is something that a tool looks for; phrases.yaml says what the fields mean.
type Phrase struct {
	Tool    string   `json:"tool"`
	Source  string   `json:"source"`
	Outputs []string `json:"outputs"`
	Stream  string   `json:"stream,omitempty"`
	Through string   `json:"through,omitempty"`
	Pattern string   `json:"pattern"`
	Absent  bool     `json:"absent,omitempty"`
}

//go:embed phrases.yaml
var list []byte

// All returns the phrases, by the outputs in which they are looked for.
func All() (map[string][]Phrase, error) {
	var phrases []Phrase
	if err := yaml.UnmarshalStrict(list, &phrases); err != nil {
		return nil, fmt.Errorf("phrases.yaml: %w", err)
	}
	all := map[string][]Phrase{}
	for i, p := range phrases {
		if p.Tool == "" || p.Source == "" || len(p.Outputs) == 0 || p.Pattern == "" {
			return nil, fmt.Errorf("phrases.yaml: entry %d needs a tool, a source, an output and a pattern", i+1)
		}
		if !strings.Contains("stdout stderr", p.Stream) {
			return nil, fmt.Errorf("phrases.yaml: entry %d: there is no stream %q", i+1, p.Stream)
		}
		for _, output := range p.Outputs {
			all[output] = append(all[output], p)
		}
	}
	return all, nil
}

// Check returns an error if the tool would not find what it looks for in this output of a command.
func (p Phrase) Check(stdout, stderr string) error {
	text := map[string]string{"stdout": stdout, "stderr": stderr, "": stdout + stderr}[p.Stream]
	pattern, err := regexp.Compile(p.Pattern)
	if err != nil {
		return fmt.Errorf("the pattern for %s: %w", p.Tool, err)
	}
	if p.Through != "" {
		pipeline := exec.Command("sh", "-c", p.Through)
		pipeline.Stdin = strings.NewReader(text)
		result, err := pipeline.Output()
		if err != nil {
			return fmt.Errorf("%s reads nothing by %q: %w", p.Tool, p.Through, err)
		}
		text = string(result)
	}
	if pattern.MatchString(text) == p.Absent {
		return fmt.Errorf("%s (%s) looks for %q; absent: %v; in\n%q", p.Tool, p.Source, p.Pattern, p.Absent, text)
	}
	return nil
}

// CheckAll checks every phrase that tools look for in this output, and returns what they would not find.
func CheckAll(output, stdout, stderr string) error {
	all, err := All()
	if err != nil {
		return err
	}
	if len(all[output]) == 0 {
		return fmt.Errorf("phrases.yaml knows no output %q", output)
	}
	for _, p := range all[output] {
		err = errors.Join(err, p.Check(stdout, stderr))
	}
	return err
}
