//go:build linux

package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

func makeFIFO(t *testing.T) string {
	t.Helper()
	path := filepath.Join(newTempDir(t), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFIFO(t *testing.T) {
	for name, script := range map[string]string{
		"at once": "printf one-two >$0", "later": "sleep 0.3; printf one-two >$0",
		"in parts":         "(printf one; sleep 0.3; printf -- -two) >$0",
		"in silence first": "(sleep 0.5; printf one-two) >$0",
	} {
		t.Run(name, func(t *testing.T) {
			path := makeFIFO(t)
			writer := exec.Command("sh", "-c", script, path)
			if err := writer.Start(); err != nil {
				t.Fatal(err)
			}
			reads := make(chan string)
			go func() {
				got, err := Machine{}.ReadFile(t.Context(), path)
				reads <- string(got) + errorText(err)
			}()
			if got := <-reads; got != "one-two" {
				t.Errorf("got %q", got)
			}
			if err := writer.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReadFIFOWithoutWriter(t *testing.T) {
	path := makeFIFO(t)
	begun := time.Now()
	_, err := Machine{}.ReadFile(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "no program has opened it for writing") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 4*writerLimit {
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("interrupted")) })
	if _, err := (Machine{}).ReadFile(ctx, path); err == nil ||
		!strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
}

func TestReadEndlessFile(t *testing.T) {
	if _, err := (Machine{}).ReadFile(t.Context(), "/dev/zero"); err == nil ||
		!strings.Contains(err.Error(), "is longer than") {
		t.Errorf("got %v", err)
	}
	if data, err := (Machine{}).ReadFile(t.Context(), "/dev/null"); err != nil || len(data) > 0 {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestWriteToFIFOAndDevice(t *testing.T) {
	mustDo(t, change.WriteFile{Path: "/dev/null", Data: []byte("x"), Mode: 0o600})
	fifo := makeFIFO(t)
	got := make(chan string)
	go func() {
		data, err := os.ReadFile(fifo)
		got <- string(data) + errorText(err)
	}()
	mustDo(t, change.WriteFile{Path: fifo, Data: []byte("through"), Mode: 0o600})
	if text := <-got; text != "through" {
		t.Errorf("the reader of the FIFO got %q", text)
	}
	if info, err := os.Stat(fifo); err != nil || info.Mode().IsRegular() {
		t.Errorf("the FIFO is now %v, %v", info.Mode(), err)
	}
}

// Standard output is written at its current offset, whatever type of file it is.
func TestWriteToStandardOutput(t *testing.T) {
	if path := os.Getenv("KUBEADM_TEST_OUTPUT"); path != "" {
		if _, err := os.Stdout.WriteString("before\n"); err != nil {
			t.Fatal(err)
		}
		mustDo(t, change.WriteFile{Path: path, Data: []byte("written\n"), Mode: 0o600, Secret: true,
			Output: true})
		if _, err := os.Stdout.WriteString("after\n"); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, path := range []string{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"} {
		self := exec.Command(os.Args[0], "-test.run=^TestWriteToStandardOutput$")
		self.Env = append(os.Environ(), "KUBEADM_TEST_OUTPUT="+path)
		if out, err := self.Output(); err != nil ||
			!strings.HasPrefix(string(out), "before\nwritten\nafter\n") {
			t.Errorf("%s: a pipe gets %q, %v", path, out, err)
		}
		file, err := os.OpenFile(writeTestFile(t, "old\n", newTempDir(t), "out"),
			os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		again := exec.Command(self.Args[0], self.Args[1:]...)
		again.Env, again.Stdout = self.Env, file
		if err := errors.Join(again.Run(), file.Close()); err != nil {
			t.Fatal(err)
		}
		if out, err := os.ReadFile(file.Name()); err != nil ||
			!strings.HasPrefix(string(out), "old\nbefore\nwritten\nafter\n") {
			t.Errorf("%s: a file gets %q, %v", path, out, err)
		}
	}
}

func TestWriteMountedFileInPlace(t *testing.T) {
	dir := newTempDir(t)
	behind, at := writeTestFile(t, "a longer old text", dir, "behind"),
		writeTestFile(t, "", dir, "mounted")
	bindMount(t, behind, at)
	mustDo(t, change.WriteFile{Path: at, Data: []byte("new"), Mode: 0o600})
	wantContent(t, behind, "new")
	wantOwner(t, behind, 0, 0o644)
	mustDo(t, change.WriteFile{Path: at, Data: []byte("secret"), Mode: 0o600, Secret: true,
		Output: true})
	wantContent(t, behind, "secret")
	wantOwner(t, behind, 0, 0o600)
	chownToOther(t, behind)
	wantDoError(t, change.WriteFile{Path: at, Data: []byte("more"), Mode: 0o600, Secret: true,
		Output: true}, at)
	wantContent(t, behind, "secret")
	if inside, err := os.ReadDir(dir); err != nil || len(inside) != 2 {
		t.Errorf("temporary files: %v, %v", inside, err)
	}
}

func TestAccountsInMountedFiles(t *testing.T) {
	dir, behind := newTempDir(t), newTempDir(t)
	for _, name := range []string{"passwd", "group"} {
		writeTestFile(t, "root:x:0:\n", behind, name)
		bindMount(t, filepath.Join(behind, name), writeTestFile(t, "", dir, name))
	}
	mustDo(t, change.SetAccounts{Dir: dir, Users: []string{"a-test"}})
	for _, name := range []string{"passwd", "group"} {
		if data, err := os.ReadFile(filepath.Join(behind, name)); err != nil ||
			!strings.Contains(string(data), "\na-test:x:") {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
}

func TestWriteInReadOnlyDirectory(t *testing.T) {
	dir, other := newTempDir(t), newTempDir(t)
	mountTmpfs(t, dir, "")
	file := writeTestFile(t, "", dir, "file")
	bindMount(t, writeTestFile(t, "old", other, "behind"), file)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	mustDo(t, change.WriteFile{Path: file, Data: []byte("new"), Mode: 0o600})
	wantContent(t, filepath.Join(other, "behind"), "new")
}

func TestReadTooLargeFile(t *testing.T) {
	path := filepath.Join(newTempDir(t), "image")
	for size, fits := range map[int64]bool{streamLimit: true, streamLimit + 1: false} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		got, err := Machine{}.ReadFile(t.Context(), path)
		if fits && (err != nil || int64(len(got)) != size) || !fits &&
			(got != nil || !strings.Contains(errorText(err), path+": it is larger than 16 MiB")) {
			t.Errorf("of %d bytes %d were read: %v", size, len(got), err)
		}
	}
}

// Where one file of a pair cannot be written, both stay as they were.
func TestKeyPairIsWrittenWholeOrNotAtAll(t *testing.T) {
	for _, immutable := range []string{"key", "cert"} {
		t.Run(immutable, func(t *testing.T) {
			dir := newTempDir(t)
			key, cert := writeTestFile(t, "old key", dir, "key"), writeTestFile(t, "old", dir, "cert")
			readOnly := filepath.Join(dir, immutable)
			bindMount(t, readOnly, readOnly)
			if err := unix.Mount("", readOnly, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY,
				""); err != nil {
				t.Fatal(err)
			}
			wantDoError(t, change.WriteKeyPair{
				Key:  change.WriteFile{Path: key, Data: []byte("new key"), Mode: 0o600, Secret: true},
				Cert: change.WriteFile{Path: cert, Data: []byte("new"), Mode: 0o644},
			}, readOnly)
			wantContent(t, key, "old key")
			wantContent(t, cert, "old")
		})
	}
}
