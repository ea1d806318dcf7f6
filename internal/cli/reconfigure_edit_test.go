package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/problem"
)

var editedConfig = config.StoredConfig{Cluster: `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
networking: {serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
`, Kubelet: config.StoredComponent{Text: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}}

// edit answers with texts, one for each time that the editor opens, and returns what it showed. What was edited is
// kept in the file edited.yaml.
func (s *testMachine) edit(texts ...func(shown string) string) *[]string {
	shown := &[]string{}
	end := func(err error) error {
		if err != nil {
			err = problem.New(err, "it is kept in edited.yaml")
		}
		return err
	}
	s.Edit = func(_ context.Context, text []byte, check func([]byte) ([]byte, error)) (_ func(error) error, err error) {
		for _, edit := range texts {
			*shown = append(*shown, string(text))
			if text, err = check([]byte(edit(string(text)))); text == nil || err != nil {
				return end, err
			}
		}
		return nil, errors.New("the editor was opened once too often")
	}
	return shown
}

// What was edited is kept unless the command succeeds, as a plan does that has found changes.
func TestEditedTextIsKept(t *testing.T) {
	failed := errors.New("the lock is held")
	for _, c := range []struct {
		err  error
		kept bool
	}{
		{failed, true}, {nil, false}, {&problem.Problem{Err: errors.New("something is to be changed"), Code: problem.ExitFound}, false},
	} {
		s := newTestMachine(t)
		s.edit(func(shown string) string { return shown + "maxPods: 99\n" })
		file, kept, err := editConfig(t.Context(), newProgram(s.Host), storedBase{editedConfig, "0123"}, config.ReconfigureFlags{}, 6443)
		if err != nil {
			t.Fatal(err)
		}
		if base := baseOf(file.Data); base != "0123" { // of the kept file too
			t.Errorf("it says that it was edited from %q:\n%s", base, file.Data)
		}
		got := c.err
		kept.finish(&got)
		if !errors.Is(got, c.err) || slices.Contains(problem.Hints(got), "it is kept in edited.yaml") != c.kept {
			t.Errorf("after %v: %v, with the hints %q", c.err, got, problem.Hints(got))
		}
	}
}

// The editor opens again, with the fault at the top, until the configuration is valid, or left as it is.
func TestEditConfig(t *testing.T) {
	same := func(shown string) string { return shown }
	empty := func(string) string { return "# nothing\n \n" }
	add := func(line string) func(string) string {
		return func(shown string) string { return shown + line + "\n" }
	}
	correct := func(shown string) string { return strings.ReplaceAll(shown, "maxPods: many", "maxPods: 99") }
	for name, c := range map[string]struct {
		edits []func(string) string
		want  string // in the file
		err   string
	}{
		"unchanged":           {edits: []func(string) string{same}, err: errNotEdited.Error()},
		"emptied":             {edits: []func(string) string{empty}, err: errNotEdited.Error()},
		"a comment":           {edits: []func(string) string{func(s string) string { return "# more\n" + s }}, err: errNotEdited.Error()},
		"valid":               {edits: []func(string) string{add("maxPods: 99")}, want: "maxPods: 99"},
		"corrected":           {edits: []func(string) string{add("maxPods: many"), correct}, want: "maxPods: 99"},
		"left with its fault": {edits: []func(string) string{add("maxPods: many"), same}, err: "maxPods"},
		"given up":            {edits: []func(string) string{add("maxPods: many"), empty}, err: errNotEdited.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			shown := s.edit(c.edits...)
			file, _, err := editConfig(t.Context(), newProgram(s.Host), storedBase{editedConfig, "0123"}, config.ReconfigureFlags{}, 6443)
			if c.err == "" && (err != nil || !strings.Contains(string(file.Data), c.want)) ||
				c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("edited %q, %v", file.Data, err)
			}
			if last := (*shown)[len(*shown)-1]; len(*shown) != len(c.edits) ||
				len(c.edits) > 1 && !strings.Contains(last, "# configuration file that was edited: document 2 (KubeletConfiguration): maxPods: ") {
				t.Errorf("the editor showed %q", *shown)
			}
		})
	}
}

// The error of a kept file that is refused names the editor, and how to apply the file all the same.
func TestStaleFileIsExplained(t *testing.T) {
	stale := &problem.Problem{Err: errors.New("it has changed"), Stale: true}
	for _, c := range []struct {
		options reconfigureOptions
		err     error
		hints   int
	}{
		{reconfigureOptions{File: "/tmp/kept.yaml"}, stale, 2},
		{reconfigureOptions{File: "/tmp/kept.yaml"}, errors.New("other"), 0},
		{reconfigureOptions{Edit: true}, stale, 0},
	} {
		err := requestedChange{o: &c.options}.explainStale(c.err)
		hints := problem.Hints(err)
		if !errors.Is(err, c.err) || len(hints) != c.hints || c.hints > 0 && (!strings.Contains(hints[0], "/tmp/kept.yaml in the editor: "+
			"kubeadm reconfigure apply --edit") || !strings.Contains(hints[1], `"# Edited from the configuration"`)) {
			t.Errorf("%+v: %v, with the hints %q", c.options.File, err, hints)
		}
	}
}
