package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const nodePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command is a program to run on a node, as root, in the directory /.
type Command struct {
	Args  []string
	Env   []string  // NAME=value, on top of PATH, HOME and LANG
	Stdin io.Reader // nil: empty

	// Group is the control group that the program is started in; nil: that of this process.
	Group *Group

	// Stdout and Stderr receive the program's output while it runs; both may be nil. The Result
	// has it too.
	Stdout, Stderr io.Writer

	node *Node
}

// Result is a program's output, exit code and resource usage. Code is -1 if a signal ended it.
type Result struct {
	Stdout, Stderr string
	Code           int
	Duration       time.Duration
	CPU            time.Duration // of the program and its children

	// Memory is the largest resident set of the program's processes, in bytes. It is at least that
	// of the process which started the program, at the start.
	Memory int64
}

// ExitError reports that a program ran and exited with a code other than 0.
type ExitError struct {
	Node   string
	Args   []string
	Result Result
}

func (e *ExitError) Error() string {
	said := e.Result.Stderr
	if strings.TrimSpace(said) == "" {
		said = e.Result.Stdout
	}
	return fmt.Sprintf("%s: %s: exit code %d: %s", e.Node, strings.Join(e.Args, " "), e.Result.Code,
		lastLines(said, 20))
}

// Command prepares a program to run on the node.
func (n *Node) Command(args ...string) *Command { return &Command{Args: args, node: n} }

// Run runs a program and waits until it exits. An exit code other than 0 is an *ExitError; the
// Result is set in any case.
func (n *Node) Run(ctx context.Context, args ...string) (Result, error) {
	return n.Command(args...).Run(ctx)
}

// Start starts a program and does not wait for it.
func (n *Node) Start(ctx context.Context, args ...string) (*Process, error) {
	return n.Command(args...).Start(ctx)
}

// Run runs the program and waits until it exits, like Node.Run.
func (c *Command) Run(ctx context.Context) (Result, error) {
	p, err := c.Start(ctx)
	if err != nil {
		return Result{Code: -1}, err
	}
	return p.Wait()
}

// Process is a program that was started on a node.
type Process struct {
	command *Command
	ctx     context.Context
	cmd     *exec.Cmd
	begun   time.Time

	stdout, stderr bytes.Buffer
}

// Start starts the program. It is killed when the context is done.
func (c *Command) Start(ctx context.Context) (*Process, error) {
	pid, err := c.node.PID()
	if err != nil {
		return nil, err
	}
	p := &Process{command: c, ctx: ctx, begun: time.Now()}
	args := append([]string{"--target", strconv.Itoa(pid), "--all", "--"}, c.Args...)
	program := "nsenter"
	if c.Group != nil {
		// It must be in the group before it has a child.
		const script = `echo $$ >"$0" && exec nsenter "$@"`
		program, args = "sh", append([]string{"-c", script, c.Group.procs}, args...)
	}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Env = append([]string{nodePath, "HOME=/root", "LANG=C.UTF-8"}, c.Env...)
	p.cmd.Stdin = c.Stdin
	p.cmd.Stdout, p.cmd.Stderr = teeWriter(&p.stdout, c.Stdout), teeWriter(&p.stderr, c.Stderr)
	p.cmd.Cancel = p.Kill
	// A daemon that the program left behind may keep the pipes open. Reading them takes time on a
	// busy machine.
	p.cmd.WaitDelay = time.Minute
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s on %s: %w", c.Args[0], c.node.name, err)
	}
	return p, nil
}

// teeWriter writes to the buffer, and to w unless it is nil. It is never an *os.File: so Wait
// returns only when all writers have closed the pipe.
func teeWriter(buffer *bytes.Buffer, w io.Writer) io.Writer {
	if w == nil {
		return buffer
	}
	return io.MultiWriter(buffer, w)
}

// Kill sends SIGKILL to the program on the node, not to its children.
func (p *Process) Kill() error { return p.Signal(unix.SIGKILL) }

// Signal sends a signal to the program on the node, not to its children.
func (p *Process) Signal(signal unix.Signal) error {
	pid, err := p.hostPID()
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, signal); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	if signal == unix.SIGCONT { // nsenter(1) stops itself when its child is stopped
		return p.cmd.Process.Signal(signal)
	}
	return nil
}

// hostPID returns the program's PID on this machine: nsenter starts it as its only child, some
// time after nsenter itself was started.
func (p *Process) hostPID() (int, error) {
	file := fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid)
	for {
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, os.ErrProcessDone // nsenter has exited, and so has the program
		}
		if children := strings.Fields(string(data)); len(children) > 0 {
			return strconv.Atoi(children[0])
		}
		if hasExited(p.cmd.Process.Pid) {
			return 0, os.ErrProcessDone
		}
		time.Sleep(time.Millisecond)
	}
}

// PeakMemory returns the largest resident set of the program so far, in bytes, without the programs
// that it started. It is os.ErrProcessDone when the program has exited.
func (p *Process) PeakMemory() (int64, error) { return p.readMemory("VmHWM") }

// AnonymousMemory is what the program has in memory now without files that it maps, otherwise like PeakMemory.
func (p *Process) AnonymousMemory() (int64, error) { return p.readMemory("RssAnon") }

// readMemory reads a field of proc_pid_status(5), in bytes.
func (p *Process) readMemory(field string) (int64, error) {
	pid, err := p.hostPID()
	if err != nil {
		return 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, os.ErrProcessDone
	}
	_, value, found := strings.Cut(string(status), "\n"+field+":")
	if !found {
		return 0, os.ErrProcessDone // a zombie has no memory
	}
	var kilobytes int64
	_, err = fmt.Sscanf(value, "%d kB", &kilobytes)
	return kilobytes << 10, err
}

// hasExited reports whether a process is gone or a zombie.
func hasExited(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The program's name, in brackets, may contain anything.
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	return err != nil || strings.HasPrefix(rest, "Z")
}

// Wait waits until the program exits and returns what Run returns.
func (p *Process) Wait() (Result, error) {
	err := p.cmd.Wait()
	result := Result{
		Stdout: p.stdout.String(), Stderr: p.stderr.String(),
		Code: p.cmd.ProcessState.ExitCode(), Duration: time.Since(p.begun),
		CPU: p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(),
	}
	// wait4(2) includes the child of nsenter.
	if usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		result.Memory = usage.Maxrss << 10
	}
	var exit *exec.ExitError
	switch {
	case p.ctx.Err() != nil:
		said := lastLines(result.Stderr, 20)
		return result, fmt.Errorf("%s: %s: %w: %s", p.command.node.name,
			strings.Join(p.command.Args, " "), context.Cause(p.ctx), said)
	case errors.As(err, &exit):
		return result, &ExitError{Node: p.command.node.name, Args: p.command.Args, Result: result}
	case errors.Is(err, exec.ErrWaitDelay):
		return result, nil
	}
	return result, err
}
