package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/config"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// refusedExample is a document that the checks refuse.
type refusedExample struct {
	kind    string
	text    string // the document without apiVersion and kind, in one line
	field   string // that is at fault
	message string
}

// readRefusedExamples reads the documents by which the checks are tested, and asks the checks what
// is wrong with each of them.
func readRefusedExamples(file string) ([]refusedExample, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var verdicts []struct{ Kind, Text, Fault string }
	if err := yaml.Unmarshal(data, &verdicts); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all []refusedExample
	for _, v := range verdicts {
		if v.Kind == "" || v.Fault == "" {
			continue
		}
		text := "apiVersion: " + v1beta4.APIVersion + "\nkind: " + v.Kind + "\n"
		if v.Text != "{}" {
			text += v.Text + "\n"
		}
		facts, err := exampleFacts()
		if err != nil {
			return nil, err
		}
		_, _, refused := config.Migrate(config.File{Name: exampleFile, Data: []byte(text)}, facts)
		if refused == nil {
			return nil, fmt.Errorf("%s: it should be refused:\n%s", file, text)
		}
		all = append(all, refusedExample{kind: v.Kind,
			text: strings.ReplaceAll(v.Text, "\n", "; "), field: v.Fault,
			message: messageFor(v.Fault, refused.Error())})
	}
	return all, nil
}

const exampleFile = "kubeadm.yaml"

// exampleFacts are the facts of a machine on which only the documents can be at fault.
func exampleFacts() (config.Facts, error) {
	tool, err := release.ParseTool(release.DefaultTool)
	return config.Facts{
		Tool: tool, Hostname: "cp1",
		Addresses: []state.Address{{IP: "192.0.2.10", Interface: "eth0", DefaultRoute: true}},
		Random:    bytes.NewReader(bytes.Repeat([]byte{7}, 1024)),
	}, err
}

// messageFor finds the message about a field in an error that may have several lines, and removes
// what it says about this example alone.
func messageFor(field, text string) string {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, field) })
	_, message, found := strings.Cut(lines[max(i, 0)], field)
	if !found {
		message = lines[0]
	}
	return refusedValue.ReplaceAllString(message, "")
}

// refusedValue matches what comes between a field and the rule that it breaks.
var refusedValue = regexp.MustCompile(
	`^[^:]*: (Invalid value: (("[^"]*"|-?\d+): )?|Required value: )?`)

// rulesText lists the rules of each field, each with the examples that break it. Other versions
// than the current one have the rules of the fields of the same path.
func rulesText(v configurationVersion, k configurationKind, fields []documentedField,
	refused []refusedExample) string {
	if v.name != currentVersion.name {
		return fmt.Sprintf("\nThe rules are those of [%s](%s_%s.md).\n", currentVersion.name,
			currentVersion.name, k.name())
	}
	var rows []string
	for _, f := range fields {
		examples := map[string][]string{} // by message
		var messages []string             // in their order
		for _, e := range refused {
			if e.kind != k.name() ||
				strings.TrimSuffix(withoutIndexes(e.field), "[]") != f.path {
				continue
			}
			if examples[e.message] == nil {
				messages = append(messages, e.message)
			}
			examples[e.message] = append(examples[e.message], asCode(e.text))
		}
		for _, m := range messages {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", f.path, inTable(m),
				strings.Join(examples[m], "<br>")))
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return "\n## Rules\n\nWhat the checks refuse, and what they say about it:\n\n" +
		"| field | rule | refused, for example |\n|---|---|---|\n" + strings.Join(rows, "")
}
