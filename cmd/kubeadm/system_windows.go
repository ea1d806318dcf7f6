package main

import (
	"os"
	"time"

	system "golang.org/x/sys/windows"

	"kubeadm/internal/cli"
	"kubeadm/internal/report"
	"kubeadm/internal/world/windows"
)

// closedPipe are the errors of writing to a pipe without a reader.
var closedPipe = []error{system.ERROR_BROKEN_PIPE, system.ERROR_NO_DATA}

func openJournal(dir string) (cli.Journal, error) { return windows.NewStore(dir) }

func createLog(command string, began time.Time) (report.LogFile, error) {
	return windows.CreateRunLog(windows.RunLogDir, command, began)
}

func chroot(dir string) error { return windows.Chroot(dir) }

func isTerminal(f *os.File) bool { return windows.IsTerminal(f) }

func isSameTerminal(a, b *os.File) bool { return windows.IsTerminal(a) && windows.IsTerminal(b) }

func columns(f *os.File) int { return windows.Columns(f) }

func hideTyping(f *os.File) (restore func(), err error) { return windows.HideInput(f) }
