// Command pause is the process that holds a Pod's namespaces: it sleeps, reaps orphaned processes
// of the Pod, and exits on SIGINT or SIGTERM.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	// Upgrade health checks run "pause -v" as a Job, which must succeed.
	if slices.Contains(os.Args[1:], "-v") {
		fmt.Println("pause")
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	reapChildren() // children that exited before signal.Notify
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reapChildren()
	}
}

// reapChildren reaps all children that have exited: one SIGCHLD may stand for several.
func reapChildren() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
