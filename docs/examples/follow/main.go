// Command follow shows how a program follows a run of kubeadm:
//
//	kubeadm init --events json | go run ./docs/examples/follow
//
// It reads the events from standard input, prints a line when a phase ends or a wait begins, and at
// the end how to join other machines or what has failed. It exits with the exit code of kubeadm.
// docs/reference/run.md describes the events.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// line has the fields of events and of the result that this program uses. All others are ignored,
// so that it keeps working when kubeadm adds some.
type line struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// of a RunEvent
	Type            string  `json:"type"`
	Phase           string  `json:"phase"`
	Message         string  `json:"message"`
	Subject         string  `json:"subject"`
	DurationSeconds float64 `json:"durationSeconds"`

	// of a RunResult
	Command      string `json:"command"`
	Outcome      string `json:"outcome"`
	ExitCode     int    `json:"exitCode"`
	JoinCommands []struct {
		Worker string `json:"worker"`
	} `json:"joinCommands"`
	Error struct {
		Phase string   `json:"phase"`
		Cause string   `json:"cause"`
		Hints []string `json:"hints"`
	} `json:"error"`
}

const apiVersion = "run.kubeadm.k8s.io/v1beta1"

func main() {
	code, err := follow(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// follow reads a stream of events to its end and returns the exit code of the run.
func follow(from io.Reader, to io.Writer) (exitCode int, err error) {
	stream := json.NewDecoder(from)
	for {
		var l line
		if err := stream.Decode(&l); errors.Is(err, io.EOF) {
			return 0, errors.New("the stream ended without a result: kubeadm was killed, or could not parse its arguments")
		} else if err != nil {
			return 0, err
		}
		if l.APIVersion != apiVersion {
			return 0, fmt.Errorf("unknown API version %q", l.APIVersion)
		}
		if l.Kind == "RunResult" {
			printResult(to, l)
			return l.ExitCode, nil
		}
		switch l.Type {
		case "phaseFinished":
			fmt.Fprintf(to, "%-40s %6.1f s\n", l.Phase, l.DurationSeconds)
		case "waitStarted":
			fmt.Fprintf(to, "%-40s waiting for %s\n", l.Phase, l.Subject)
		case "warning":
			fmt.Fprintf(to, "%-40s warning: %s\n", l.Phase, l.Message)
		}
	}
}

func printResult(to io.Writer, l line) {
	fmt.Fprintf(to, "kubeadm %s %s in %.1f s\n", l.Command, l.Outcome, l.DurationSeconds)
	for _, c := range l.JoinCommands {
		fmt.Fprintln(to, "to add a worker:", c.Worker)
	}
	if l.Outcome == "succeeded" {
		return
	}
	// Further lines are indented, so that none looks like a hint.
	fmt.Fprintf(to, "phase %q: %s\n", l.Error.Phase, strings.ReplaceAll(l.Error.Cause, "\n", "\n\t"))
	for _, hint := range l.Error.Hints {
		fmt.Fprintln(to, "  -", strings.ReplaceAll(hint, "\n", "\n\t"))
	}
}
