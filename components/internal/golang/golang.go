// Package golang runs the Go command reproducibly: the result depends on its inputs only.
package golang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Build is one run of go build over a pinned module.
type Build struct {
	Dir      string   // the module's root
	Modfile  string   // another file than go.mod, in Dir; may be empty
	Packages []string // import patterns; "tool" is every tool that go.mod names
	Tags     string   // comma separated
	LDFlags  string
	CGO      bool
	GOOS     string // another operating system than this one; may be empty
	IsTest   bool   // compile the tests of the package, into a program
}

// Version is the Go release and its target, "go1.26.0 linux/amd64".
func Version(ctx context.Context) (string, error) {
	out, err := runGo(ctx, "", nil, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	f := strings.Fields(out)
	if len(f) != 3 {
		return "", fmt.Errorf("reading go env: want three words, have %q", out)
	}
	return f[0] + " " + f[1] + "/" + f[2], nil
}

// Inputs are the arguments that affect the result.
func (b Build) Inputs() []string {
	inputs := append([]string{strconv.FormatBool(b.CGO)}, b.args("")...)
	if b.GOOS != "" {
		inputs = append(inputs, b.GOOS)
	}
	return inputs
}

// Run compiles the packages into the directory out.
func (b Build) Run(ctx context.Context, out string) error {
	cgo := "CGO_ENABLED=0"
	if b.CGO {
		cgo = "CGO_ENABLED=1"
	}
	env := []string{cgo}
	if b.GOOS != "" {
		env = append(env, "GOOS="+b.GOOS)
	}
	_, err := runGo(ctx, b.Dir, env, b.args(out)...)
	return err
}

func (b Build) args(out string) []string {
	// No program keeps its debug information; not to generate it saves an eighth of the time.
	args := []string{"build"}
	if b.IsTest {
		args = []string{"test", "-c", "-vet=off"} // vet reads all dependencies, for minutes
	}
	args = append(args, "-mod=readonly", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")
	if b.Modfile != "" {
		args = append(args, "-modfile="+b.Modfile)
	}
	if b.Tags != "" {
		args = append(args, "-tags="+b.Tags)
	}
	args = append(args, "-ldflags="+b.LDFlags, "-o", out+"/")
	return append(args, b.Packages...)
}

// Module is the module proxy's information on a module's version.
type Module struct {
	Time  time.Time // of publication
	GoMod string    // path of a copy of its go.mod
}

// Lookup looks a module's version up.
func Lookup(ctx context.Context, module, version string) (m Module, err error) {
	out, err := runGo(ctx, os.TempDir(), nil, "list", "-m", "-json", module+"@"+version)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return m, fmt.Errorf("reading go list -m %s: %w", module, err)
	}
	return m, nil
}

// Dir is the directory with the sources of a package, which the module in dir requires.
func Dir(ctx context.Context, dir, pkg string) (string, error) {
	out, err := runGo(ctx, dir, nil, "list", "-mod=readonly", "-f", "{{.Dir}}", pkg)
	return strings.TrimSpace(out), err
}

// Tidy completes a module file and its checksums.
func Tidy(ctx context.Context, dir, modfile string) error {
	_, err := runGo(ctx, dir, []string{"GOFLAGS=-mod=mod"}, "mod", "tidy", "-modfile="+modfile)
	return err
}

// runGo runs the Go command and returns its output; the error holds its last error lines. The
// user's GOFLAGS and workspace are ignored, since they would change the result without changing
// the key.
func runGo(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("go %s: %w", strings.Join(args, " "), err), lastLines(complaints.String()))
	}
	return string(out), nil
}

func lastLines(text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return errors.New(strings.Join(lines[max(0, len(lines)-20):], "\n"))
}
