package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// upstreamDifferences are patterns of the facts that only our help has. The parity tests compare
// them with the help of upstream's kubeadm.
type upstreamDifferences []*regexp.Regexp

// readUpstreamDifferences reads the differences that the parity tests accept.
func readUpstreamDifferences(file string) (upstreamDifferences, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var entries []struct{ Fact, Peer, Ours string }
	if err := yaml.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all upstreamDifferences
	for _, e := range entries {
		if !strings.HasPrefix(e.Fact, "help of ") {
			continue
		}
		absent, err := regexp.MatchString("^(?:"+e.Peer+")$", "<absent>")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if !absent {
			continue
		}
		fact, err := regexp.Compile("^(?:" + e.Fact + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, fact)
	}
	return all, nil
}

// isFlagOursOnly reports whether upstream's command of the same name does not have the flag.
func (d upstreamDifferences) isFlagOursOnly(c *cobra.Command, name string) bool {
	return d.isCommandOursOnly(c) || d.has(helpFact(c)+"/flag/"+name)
}

// isCommandOursOnly reports whether upstream does not have the command.
func (d upstreamDifferences) isCommandOursOnly(c *cobra.Command) bool {
	for ; c.HasParent(); c = c.Parent() {
		if d.has(helpFact(c.Parent()) + "/command/" + c.Name()) {
			return true
		}
	}
	return false
}

// helpFact names the help of a command as the parity tests do.
func helpFact(c *cobra.Command) string {
	return "help of " + strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "kubeadm"), " ")
}

func (d upstreamDifferences) has(fact string) bool {
	for _, pattern := range d {
		if pattern.MatchString(fact) {
			return true
		}
	}
	return false
}
