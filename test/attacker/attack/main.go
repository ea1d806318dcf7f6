// Attack runs the server of package attacker: the plan comes from the standard input, and what it is told goes to the standard output.
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
