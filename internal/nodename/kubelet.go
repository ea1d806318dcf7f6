// Package nodename is about the name of this machine's Node: as which its kubelet registers, for which its client
// certificate was issued, and what keeps both the same when the host is renamed.
package nodename

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Kubelet is the name that the kubelet of this machine gives itself when it starts.
type Kubelet struct {
	// Name is empty if File sets it by a variable.
	Name string
	// File sets the argument hostname-override; it is empty if the kubelet takes the name of the host.
	File string
	// IsEmpty is set if File sets an empty name: then the kubelet takes the name of the host, whatever earlier files set.
	IsEmpty bool
	// IsUnit is set if File belongs to the unit of the service, as an environment file that only the unit names does.
	IsUnit bool
}

// ReadKubelet reads the name that the kubelet gives itself when it starts.
func ReadKubelet(ctx context.Context, r state.Reader, local node.Local) (k Kubelet, err error) {
	k.Name = local.Hostname
	files, err := kubeletfile.ReadArgumentFiles(ctx, r, local.Paths)
	if err != nil {
		return k, err
	}
	for _, f := range files { // the last one counts
		name, isSet := findOverride(f.Text)
		if !isSet {
			continue
		}
		k = Kubelet{Name: strings.ToLower(name), File: f.Path, IsEmpty: name == "", IsUnit: f.IsUnit}
		if k.IsEmpty {
			k.Name = local.Hostname
		}
		if strings.ContainsAny(name, "$%") {
			k.Name = ""
		}
	}
	return k, nil
}

// FindServingCertificate returns the serving certificate that an administrator has given to the kubelet of this machine, by
// an argument or by tlsCertFile in its configuration; empty if the kubelet generates or requests its own.
// The kubelet prefers an argument to its configuration, also an empty one.
func FindServingCertificate(ctx context.Context, r state.Reader, p node.Paths) (string, error) {
	files, err := kubeletfile.ReadArgumentFiles(ctx, r, p)
	if err != nil {
		return "", err
	}
	var argument string
	var isSet bool
	for _, f := range files { // the last one counts
		for _, match := range servingArgument.FindAllStringSubmatchIndex(f.Text, -1) {
			start, end := valueIn(match)
			argument, isSet = f.Text[start:end], true
		}
	}
	if isSet {
		return argument, nil
	}
	data, err := state.ReadOptional(ctx, r, p.KubeletConfig())
	if err != nil {
		return "", err
	}
	var config struct {
		TLSCertFile string `json:"tlsCertFile"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("reading %s: %w", p.KubeletConfig(), err)
	}
	return config.TLSCertFile, nil
}

// servingArgument matches the argument of the kubelet that does the same as tlsCertFile. Its value may be empty.
var servingArgument = regexp.MustCompile(`--tls-cert-file(?:=["']?([^\s"']*)|[ \t]+["']?([^\s"']+))`)

// override matches the argument of the kubelet with its name. A value after "=" may be empty: then a quote that follows is the
// end of the variable, unless there are two. Without "=", the next word is the value, even if it looks like a flag.
var override = regexp.MustCompile(`--hostname-override(?:=["']([^\s"']+)|=["']()["']|=([^\s"']*)|[ \t]+["']?([^\s"']+))`)

// valueIn returns where the value is in a match of a pattern: the group that matches.
func valueIn(match []int) (start, end int) {
	for group := 2; group < len(match); group += 2 {
		if match[group] >= 0 {
			return match[group], match[group+1]
		}
	}
	return match[1], match[1]
}

// findOverride returns the name that a file of the kubelet's service sets.
func findOverride(text string) (name string, isSet bool) {
	for line := range strings.Lines(text) {
		if isComment(line) {
			continue
		}
		for _, match := range override.FindAllStringSubmatchIndex(line, -1) { // the last one counts
			start, end := valueIn(match)
			name, isSet = line[start:end], true
		}
	}
	return name, isSet
}

// replaceOverride returns an environment file with another name in the argument, where it has that.
func replaceOverride(text, name string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if isComment(line) {
			b.WriteString(line)
			continue
		}
		written := 0
		for _, match := range override.FindAllStringSubmatchIndex(line, -1) {
			start, end := valueIn(match)
			b.WriteString(line[written:start] + name)
			written = end
		}
		b.WriteString(line[written:])
	}
	return b.String()
}

func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
}
