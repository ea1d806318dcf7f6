package linux

import (
	"os"
	"path/filepath"
	"testing"
)

// A file of a journal that is written anew keeps to root, and is added to as before.
func TestAJournalIsReplacedAsAWhole(t *testing.T) {
	s := &Store{dir: filepath.Join(folder(t), "tmp", "journal")}
	for _, step := range []struct {
		do   func(string, []byte) error
		text string
		want string
	}{{s.Append, "one\n", "one\n"}, {s.Append, "two\n", "one\ntwo\n"}, {s.Replace, "both\n", "both\n"}, {s.Append, "three\n", "both\nthree\n"}} {
		if err := step.do("entries", []byte(step.text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load("entries"); err != nil || string(got) != step.want {
			t.Fatalf("it holds %q, want %q (%v)", got, step.want, err)
		}
		info, err := os.Stat(filepath.Join(s.dir, "entries"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v (%v)", info.Mode(), err)
		}
	}
}
