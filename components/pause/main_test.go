package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play pause: with TEST_PAUSE set it starts a child that ends at once, and pauses.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_PAUSE") == "" {
		os.Exit(m.Run())
	}
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println(child.Process.Pid)
	main()
}

func TestPauseReapsAndEndsOnSignal(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TEST_PAUSE=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var child int
		if _, err := fmt.Fscan(bufio.NewReader(out), &child); err != nil {
			t.Fatal(err)
		}
		for start := time.Now(); syscall.Kill(child, 0) == nil; time.Sleep(5 * time.Millisecond) {
			if time.Since(start) > time.Minute {
				t.Fatal("the child is not reaped")
			}
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}
