package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// KubeletArgs are arguments of this machine's kubelet that the user sets or removes.
type KubeletArgs []kubeletArg

type kubeletArg struct {
	node.Arg
	removed bool
}

// fixedKubeletArgs are arguments that no running node can change, and why.
func fixedKubeletArgs() map[string]string {
	return map[string]string{
		"hostname-override":    "the Node has that name; kubeadm node-name keep sets it after the host was renamed",
		"config":               "kubeadm writes that file",
		"kubeconfig":           "kubeadm writes that file",
		"bootstrap-kubeconfig": "kubeadm writes that file",
	}
}

// HostnameOverride is the argument with which a kubelet keeps the name of its Node, which the caller has checked.
func HostnameOverride(name string) KubeletArgs {
	return KubeletArgs{{Arg: node.Arg{Name: "hostname-override", Value: name}}}
}

// ParseKubeletArgs parses the values of --kubelet-arg: "NAME=VALUE", or "NAME-" to remove it.
func ParseKubeletArgs(values []string) (all KubeletArgs, err error) {
	wrong := faults{fieldName: func(_, path string) string { return path }}
	for _, text := range values {
		name, value, hasValue := strings.Cut(strings.TrimLeft(text, "-"), "=")
		bare, isRemoval := strings.CutSuffix(name, "-")
		if !hasValue {
			name = bare
		}
		at := fmt.Sprintf("--%s %q", flag.KubeletArg, text)
		switch why, isFixed := fixedKubeletArgs()[name]; {
		case name == "" || !hasValue && !isRemoval:
			wrong.add("%s: it must be NAME=VALUE, or NAME- to remove the argument", at)
		case isFixed:
			wrong.add("%s: a running node cannot change it: %s", at, why)
		case strings.ContainsAny(value, " \t\r\n\"'\\$"):
			wrong.add("%s: the value must not contain white space, quotes, backslashes or dollar signs", at)
		case slices.ContainsFunc(all, func(a kubeletArg) bool { return a.Name == name }):
			wrong.add("%s: the argument is set twice", at)
		default:
			all = append(all, kubeletArg{node.Arg{Name: name, Value: value}, !hasValue})
		}
	}
	return all, wrong.err(File{}.source())
}

// Set are the arguments that are set.
func (k KubeletArgs) Set() (args []node.Arg) {
	for _, a := range k {
		if !a.removed {
			args = append(args, a.Arg)
		}
	}
	return args
}

// Edit changes the arguments in the environment file of the kubelet.
func (k KubeletArgs) Edit(text []byte) ([]byte, error) {
	if len(k) == 0 {
		return text, nil
	}
	var lines, words []string
	found := false
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) != manifest.KubeletFlagsVariable {
			lines = append(lines, line)
			continue
		}
		if value = strings.TrimSpace(value); found || strings.ContainsAny(value, `\'$`) {
			return nil, problem.New(errors.New("it is not as kubeadm writes it"),
				"edit it manually, and restart the kubelet: systemctl restart kubelet")
		}
		found, words = true, strings.Fields(strings.Trim(value, `"`))
	}
	for _, a := range k {
		words = withoutFlag(words, a.Name)
		if !a.removed {
			words = append(words, "--"+a.Name+"="+a.Value)
		}
	}
	if last := len(lines) - 1; last >= 0 && !strings.HasSuffix(lines[last], "\n") {
		lines[last] += "\n"
	}
	return []byte(strings.Join(lines, "") +
		fmt.Sprintf("%s=%q\n", manifest.KubeletFlagsVariable, strings.Join(words, " "))), nil
}

// withoutFlag leaves a flag out of a command line, and its value, whether that is a word of its own or not.
func withoutFlag(words []string, name string) (kept []string) {
	isValue := false // of the flag
	for _, word := range words {
		isFlag := strings.HasPrefix(word, "-")
		if isValue && !isFlag {
			isValue = false
			continue
		}
		bare, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if isValue = isFlag && bare == name && !hasValue; isFlag && bare == name {
			continue
		}
		kept = append(kept, word)
	}
	return kept
}
