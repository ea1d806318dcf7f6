package main

import (
	"os"
	"syscall"
	"time"

	"kubeadm/internal/cli"
	"kubeadm/internal/report"
	"kubeadm/internal/world/linux"
)

// closedPipe are the errors of writing to a pipe without a reader.
var closedPipe = []error{syscall.EPIPE}

func openJournal(dir string) (cli.Journal, error) { return linux.NewStore(dir) }

func createLog(command string, began time.Time) (report.LogFile, error) {
	return linux.CreateRunLog(linux.RunLogDir, command, began)
}

func chroot(dir string) error { return linux.Chroot(dir) }

func isTerminal(f *os.File) bool { return linux.IsTerminal(f) }

func isSameTerminal(a, b *os.File) bool { return linux.IsSameTerminal(a, b) }

func columns(f *os.File) int { return linux.Columns(f) }

func hideTyping(f *os.File) (restore func(), err error) { return linux.HideInput(f) }
