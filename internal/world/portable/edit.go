package portable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// editedLimit is more than what a cluster can store.
const editedLimit = 4 << 20

// Editor is an editor of the user and the terminal on which it shows.
type Editor struct {
	Command  string // a command line of the shell, such as "code --wait"
	In       io.Reader
	Out, Err io.Writer
}

// Edit lets the user edit a text in a temporary file that only the user can read. check returns the text to
// edit again, nil to end. end is called with the error of what is done with the edited text, and returns it: the file
// is removed if there is none, and otherwise kept, and a hint names it. If check or the editor fails, the error has
// that hint, and end is nil. It names the command that uses the file, unless that would be refused as well. The kept file has the first line of the text, which the user may have removed.
func (d Editor) Edit(ctx context.Context, text []byte, check func(edited []byte) ([]byte, error)) (end func(error) error,
	err error) {
	f, err := os.CreateTemp("", "kubeadm-edit-*.yaml")
	if err != nil {
		return nil, fmt.Errorf("creating a file to edit: %w", err)
	}
	name := f.Name()
	first, _, _ := bytes.Cut(text, []byte("\n"))
	end = func(failed error) error {
		if failed == nil {
			return os.Remove(name)
		}
		if err := keepLine(name, first); err != nil {
			return problem.New(errors.Join(failed, err), "what was edited is kept in "+untrusted.Line(name))
		}
		kept := "what was edited is kept in " + untrusted.Line(name)
		if problem.IsStale(failed) { // --config would be refused
			return problem.New(failed, kept+"; copy your changes from there")
		}
		hints := []string{kept}
		if command := untrusted.Command("kubeadm reconfigure apply --config", name); command != "" {
			hints = append(hints, "to use it: "+command)
		}
		return problem.New(failed, hints...)
	}
	if err := f.Close(); err != nil {
		return nil, end(err)
	}
	for text != nil {
		if text, err = d.editOnce(ctx, name, text, check); err != nil {
			return nil, end(err)
		}
	}
	return end, nil
}

// keepLine adds a line at the end of a file that does not have it.
func keepLine(name string, line []byte) error {
	data, err := readEdited(name)
	if err != nil || slices.ContainsFunc(bytes.Split(data, []byte("\n")), func(l []byte) bool { return bytes.Equal(l, line) }) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\n%s\n", line)
	return errors.Join(err, f.Close())
}

func (d Editor) editOnce(ctx context.Context, name string, text []byte,
	check func([]byte) ([]byte, error)) ([]byte, error) {
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", d.Command+` "$1"`, "sh", name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.In, d.Out, d.Err
	if err := cmd.Run(); err != nil {
		return nil, problem.New(fmt.Errorf("running the editor %q: %w", d.Command, err),
			"set KUBE_EDITOR or EDITOR to an editor, or use --config")
	}
	edited, err := readEdited(name)
	if err != nil {
		return nil, err
	}
	return check(edited)
}

// readEdited reads a file that its user has edited, which only the user may read from now on.
func readEdited(name string) ([]byte, error) {
	f, err := os.Open(name) // an editor may have replaced the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil {
		return nil, err
	}
	edited, err := io.ReadAll(io.LimitReader(f, editedLimit+1))
	if err == nil && len(edited) > editedLimit {
		err = fmt.Errorf("%s has more than %d bytes", name, editedLimit)
	}
	return edited, err
}
