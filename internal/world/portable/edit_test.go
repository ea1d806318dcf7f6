package portable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/problem"
)

// A text is edited until it is accepted, and the file is removed once what is done with it has succeeded. Otherwise it is
// kept, for its user only.
func TestEdit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	var seen []string
	end, err := Editor{Command: "printf 'more\n' >>"}.Edit(t.Context(), []byte("text\n"), func(edited []byte) ([]byte, error) {
		seen = append(seen, string(edited))
		if len(seen) == 1 {
			return []byte("again\n"), nil
		}
		return nil, nil
	})
	if want := []string{"text\nmore\n", "again\nmore\n"}; err != nil || !slices.Equal(seen, want) || len(files()) != 1 {
		t.Fatalf("edited %q, %v, left %v", seen, err, files())
	}
	checkKept := func(err error) {
		t.Helper()
		left := files()
		if err == nil || !strings.Contains(err.Error(), "refused") || len(left) != 1 ||
			!strings.Contains(strings.Join(problem.Hints(err), " "), "kubeadm reconfigure apply --config "+left[0]) {
			t.Fatalf("the error is %v, left %v", err, left)
		}
		if info, err := os.Stat(left[0]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v, %v", info, err)
		}
	}
	refused := errors.New("refused")
	checkKept(end(refused))
	stale := end(&problem.Problem{Err: refused, Stale: true})
	if hints := strings.Join(problem.Hints(stale), " "); strings.Contains(hints, "--config") || !strings.Contains(hints, files()[0]) {
		t.Errorf("a file that would be refused again has the hints %q", hints)
	}
	if err := end(nil); err != nil || len(files()) > 0 {
		t.Errorf("%v, left %v", err, files())
	}
	const replace = "f() { rm $1; umask 0; echo secret >$1; }; f"
	_, err = Editor{Command: replace}.Edit(t.Context(), []byte("# first line\nsecret"), func([]byte) ([]byte, error) { return nil, refused })
	checkKept(err)
	if data, err := os.ReadFile(files()[0]); err != nil || string(data) != "secret\n\n# first line\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
	missing := Editor{Command: "no-such-editor"}
	if _, err := missing.Edit(t.Context(), nil, nil); err != nil { // nothing to edit
		t.Error(err)
	}
	if _, err := missing.Edit(t.Context(), []byte("text"), nil); err == nil ||
		!strings.Contains(err.Error(), "no-such-editor") {
		t.Errorf("the error is %v", err)
	}
}
