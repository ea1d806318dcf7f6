package portable

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"kubeadm/internal/problem"
)

// editedLimit is more than what a cluster can store.
const editedLimit = 4 << 20

// Edit lets the user edit a text with an editor, a command line such as "code --wait", in a temporary file
// that only the user can read. check returns the text to edit again, nil to end. If it or the editor fails,
// the file is kept, and the error names it.
func Edit(ctx context.Context, editor string, text []byte, check func(edited []byte) ([]byte, error)) error {
	f, err := os.CreateTemp("", "kubeadm-edit-*.yaml")
	if err != nil {
		return fmt.Errorf("creating a file to edit: %w", err)
	}
	name := f.Name()
	if err := f.Close(); err != nil {
		return err
	}
	for text != nil {
		if text, err = editOnce(ctx, editor, name, text, check); err != nil {
			return problem.New(err, "what was edited is kept in "+name)
		}
	}
	return os.Remove(name)
}

func editOnce(ctx context.Context, editor, name string, text []byte,
	check func([]byte) ([]byte, error)) ([]byte, error) {
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", name) // it may have arguments
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, problem.New(fmt.Errorf("running the editor %q: %w", editor, err),
			"set KUBE_EDITOR or EDITOR to an editor, or use --config")
	}
	f, err := os.Open(name) // an editor may have replaced the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	edited, err := io.ReadAll(io.LimitReader(f, editedLimit+1))
	if err == nil && len(edited) > editedLimit {
		err = fmt.Errorf("%s has more than %d bytes", name, editedLimit)
	}
	if err != nil {
		return nil, err
	}
	return check(edited)
}
