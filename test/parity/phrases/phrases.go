// Package phrases lists the phrases that programs and scripts parse in the output of kubeadm, each
// with the tool that parses it: phrases.yaml.
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

// Phrase is a phrase that a tool parses; phrases.yaml explains the fields.
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

// All returns the phrases by output.
func All() (map[string][]Phrase, error) {
	var phrases []Phrase
	if err := yaml.UnmarshalStrict(list, &phrases); err != nil {
		return nil, fmt.Errorf("phrases.yaml: %w", err)
	}
	all := map[string][]Phrase{}
	for i, p := range phrases {
		if p.Tool == "" || p.Source == "" || len(p.Outputs) == 0 || p.Pattern == "" {
			return nil, fmt.Errorf(
				"phrases.yaml: entry %d needs a tool, a source, an output and a pattern", i+1)
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

// Check returns an error if the tool would not find the phrase in a command's output.
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
			return fmt.Errorf("%s: running %q: %w", p.Tool, p.Through, err)
		}
		text = string(result)
	}
	if pattern.MatchString(text) == p.Absent {
		return fmt.Errorf("%s (%s) expects %q (absent: %v) in\n%q", p.Tool, p.Source, p.Pattern,
			p.Absent, text)
	}
	return nil
}

// CheckAll checks all phrases of an output, and returns those that tools would not find.
func CheckAll(output, stdout, stderr string) error {
	all, err := All()
	if err != nil {
		return err
	}
	if len(all[output]) == 0 {
		return fmt.Errorf("phrases.yaml has no output %q", output)
	}
	for _, p := range all[output] {
		err = errors.Join(err, p.Check(stdout, stderr))
	}
	return err
}
