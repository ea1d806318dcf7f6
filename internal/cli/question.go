package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
)

// confirm warns of what is about to be done and asks for confirmation. No answer means no.
func confirm(ctx context.Context, p *program, r *run.Run, warning string, skip flag.Name) error {
	r.Emit(engine.Warned, warning)
	r.Emit(engine.Printed, "["+r.Name()+"] Continue? [y/N]: ")
	answer, err := p.readAnswer(ctx)
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	stopped := "nothing was changed: you did not confirm"
	if p.report.Changed() { // by an earlier step of an upgrade through several versions
		stopped = "stopped: you did not confirm"
	}
	return problem.New(errors.New(stopped),
		fmt.Sprintf("answer y, or set --%s to skip the confirmation", skip))
}

// askHidden asks for a line that the terminal does not show. It shows what is typed again when it returns,
// also after an interrupt.
func (p *program) askHidden(ctx context.Context, question string) (string, error) {
	restore, err := p.HideInput()
	if err != nil {
		return "", fmt.Errorf("hiding the input: %w", err)
	}
	defer restore()
	fmt.Fprint(p.Err, question)
	answer, err := p.readAnswer(ctx)
	fmt.Fprintln(p.Err)
	return strings.TrimRight(answer, "\r\n"), err
}

// readAnswer reads a line of the input, which may end without one. The wait for it ends with the context.
func (p *program) readAnswer(ctx context.Context) (answer string, err error) {
	read := make(chan struct{})
	var line string
	var failed error
	go func() {
		defer close(read)
		if line, failed = p.answers.ReadString('\n'); errors.Is(failed, io.EOF) {
			failed = nil
		}
	}()
	select {
	case <-read:
		answer, err = line, failed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	return answer, nil
}
