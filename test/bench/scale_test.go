package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func TestLimitsOfKubelets(t *testing.T) {
	for crowd, want := range map[[2]int]string{{0, 1}: "--kubelets",
		{maxMachines + 1, 20}: "--kubelets", {100, 0}: "--at-once", {100, 20}: ""} {
		b := &bench{older: "/older", bundle: "b", rounds: 1, kubelets: crowd[0], atOnce: crowd[1],
			storm: noStorm}
		for i := range b.programs {
			b.programs[i].path = "/bin/sh"
		}
		if err := b.check(nil); (err == nil) != (want == "") ||
			!strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%d kubelets, %d at once: got %v, want an error that names %q", crowd[0],
				crowd[1], err, want)
		}
	}
}

// TestScriptsAreValidShell finds syntax errors, which otherwise only a run on nodes would show.
func TestScriptsAreValidShell(t *testing.T) {
	for _, script := range []string{machinesScript, machineScript, restartScript} {
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s in\n%s", err, out, script)
		}
	}
}
