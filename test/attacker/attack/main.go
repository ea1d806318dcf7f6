// Attack runs the server of package attacker: it reads the plan from standard input and writes
// requests to standard output.
package main

import (
	"fmt"
	"os"

	"kubeadm/test/attacker"
)

func main() {
	if err := attacker.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
