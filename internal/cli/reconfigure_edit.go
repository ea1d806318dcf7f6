package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"kubeadm/internal/config"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// errNotEdited says that the user has changed nothing in the editor.
var errNotEdited = errors.New("the configuration was not edited, so nothing is to be changed")

// baseMark begins the line of an edited text that says from which configuration it was edited. A kept file is refused once
// the cluster stores another one.
const baseMark = "# Edited from the configuration "

// baseOf returns what the line with baseMark of a text names; empty if there is none.
func baseOf(text []byte) string {
	for line := range strings.SplitSeq(string(text), "\n") {
		if base, found := strings.CutPrefix(line, baseMark); found {
			return strings.TrimSpace(base)
		}
	}
	return ""
}

const editHeader = `# Edit the configuration of the cluster. Lines at the top that begin with "#" are ignored. A document that you
# remove stays as it is. To change nothing, leave the file as it is, or empty it.
#
`

// editedText is a text that the user has edited. Its file is kept until it is known that the text is no longer needed.
type editedText struct {
	end func(error) error // that of Host.Edit; nil if nothing was edited
}

// finish removes the file if the command has succeeded. Otherwise its error gets a hint that names the file. A plan that
// has found changes has succeeded.
func (t *editedText) finish(err *error) {
	if t.end == nil {
		return
	}
	if *err != nil && problem.ExitCode(*err) == problem.ExitFound {
		if failed := t.end(nil); failed != nil {
			*err = errors.Join(*err, failed)
		}
		return
	}
	*err = t.end(*err)
}

// explainStale adds to the error of a file that an earlier command has kept, and that is refused, what to do about it.
func (c requestedChange) explainStale(err error) error {
	if !problem.IsStale(err) {
		return err
	}
	hints := c.keptFileHints()
	if len(hints) == 0 {
		return err
	}
	return problem.New(err, hints...)
}

// keptFileHints are the remedies if the file is refused; none without a file.
func (c requestedChange) keptFileHints() []string {
	if c.o.Edit || c.o.File == "" {
		return nil
	}
	file := untrusted.Line(c.o.File)
	return []string{"copy your changes from " + file + " in the editor: kubeadm reconfigure apply --edit",
		fmt.Sprintf("to apply %s as it is and revert the change, remove its line that begins with %q", file, strings.TrimSpace(baseMark))}
}

// storedBase is what the cluster stores, and its reconfiguration.BaseOf.
type storedBase struct {
	config.StoredConfig
	base string
}

// editConfig lets the user edit the configuration that the cluster stores, until it is valid.
func editConfig(ctx context.Context, p *program, stored storedBase, flags config.ReconfigureFlags,
	bindPort int32) (file config.File, kept editedText, err error) {
	var documents []string
	for _, text := range []string{stored.Cluster, stored.Kubelet.Text, stored.KubeProxy.Text} {
		if text = strings.TrimSpace(text); text != "" {
			documents = append(documents, text+"\n")
		}
	}
	original := strings.Join(documents, "---\n")
	header := baseMark + stored.base + "\n" + editHeader
	last, failed := original, errNotEdited
	kept.end, err = p.Edit(ctx, []byte(header+original), func(edited []byte) ([]byte, error) {
		text := withoutHeader(string(edited))
		switch {
		case strings.TrimSpace(text) == "" || text == original:
			file, failed = config.File{}, errNotEdited
			return nil, nil
		case text == last:
			return nil, problem.New(failed, "nothing was changed: the file was left as it is")
		}
		file = config.File{Name: "that was edited", Data: edited, Strict: p.strict}
		_, _, failed = config.Reconfigure(file, flags, stored.StoredConfig, bindPort)
		if last = text; failed == nil {
			return nil, nil
		}
		faults := strings.Join(append([]string{failed.Error()}, problem.Hints(failed)...), "\n")
		return []byte(header + "# " + strings.ReplaceAll(faults, "\n", "\n# ") + "\n#\n" + text), nil
	})
	if err != nil {
		return file, editedText{}, fmt.Errorf("editing the configuration: %w", err)
	}
	if failed != nil { // nothing was edited
		err = kept.end(nil)
		return file, editedText{}, cmp.Or(err, failed)
	}
	return file, kept, nil
}

// withoutHeader is a text without the comments at its top.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
