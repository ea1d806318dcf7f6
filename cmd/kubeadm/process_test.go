package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubeadm/internal/pki"
)

// asProgram is the variable that makes the test binary run as the program itself.
const asProgram = "KUBEADM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a process of this program.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.WaitDelay = 10 * time.Second
	return c
}

func TestClosedOutputExitsSilently(t *testing.T) {
	for _, command := range []string{"config print init-defaults",
		"config images list --kubernetes-version v1.37.1", "version", "token generate",
		"completion bash"} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		var said bytes.Buffer
		c := program(t, strings.Fields(command)...)
		c.Stdout, c.Stderr = write, &said
		err = c.Run()
		write.Close()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 141 || said.Len() != 0 {
			t.Errorf("%s: %v; it says %q", command, err, said.String())
		}
	}
}

func TestErrorIsPrintedWithClosedOutput(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	var said bytes.Buffer
	c := program(t, "config", "validate", "--config", "/nonexistent/file.yaml")
	c.Stdout, c.Stderr = write, &said
	err = c.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.HasPrefix(said.String(), "error: ") {
		t.Errorf("%v; it says %q", err, said.String())
	}
}

func TestOnlyStandardOutputCountsAsClosedOutput(t *testing.T) {
	closed := &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: closedPipe[0]}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{closed, true},
		{errors.Join(closed), true},
		{errors.Join(closed, errors.New("the token was not deleted")), false},
		{&fs.PathError{Op: "write", Path: "/etc/kubernetes/admin.conf", Err: closedPipe[0]}, false},
		{&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, false},
		{closedPipe[0], false}, // such as of a connection
	} {
		if got := isClosedOutput(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// The exit code tells monitoring that certificates expire soon from that the command failed.
func TestExitCodeOfSoonExpiringCertificates(t *testing.T) {
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: "kubernetes",
		Validity: pki.Validity{NotBefore: now, NotAfter: now.Add(72 * time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "kubeadm-") // Wine cannot remove a t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Remove(filepath.Join(dir, "ca.crt")), os.Remove(dir)) })
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), pki.EncodeCertificates(ca.Certificate),
		0o600); err != nil {
		t.Fatal(err)
	}
	for within, want := range map[string]int{"": 0, "1d": 1, // as the others are missing
		"4d": 2, "96h": 2, "4": 1} {
		c := program(t, "certs", "check-expiration", "--cert-dir", dir)
		if within != "" {
			c.Args = append(c.Args, "--within", within)
		}
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("--within %q: exit code %d, want %d:\n%s", within, got, want, out)
		}
	}
}

func TestMisplacedTokenIsHidden(t *testing.T) {
	const secret = "x4tq8zr2m6wn1p0v"
	for _, command := range []string{"token generate k3h9wd.", "reset k3h9wd.",
		"join 192.0.2.1:6443--token k3h9wd.", "version --tokenk3h9wd."} {
		said, err := program(t, strings.Fields(command+secret)...).CombinedOutput()
		if err == nil || strings.Contains(string(said), secret) {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
	}
}

func TestFileInPlaceOfADirectoryIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(regexp.QuoteMeta(file) + `"? is a file,? .*directory`)
	for _, command := range []string{"config validate --config ",
		"init phase certs ca --kubernetes-version v1.37.1 --cert-dir ",
		"certs check-expiration --cert-dir "} {
		said, err := program(t, strings.Fields(command+file+"/sub/x.yaml")...).CombinedOutput()
		if !named.Match(said) || err == nil {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
	}
}
