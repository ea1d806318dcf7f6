package laws

import (
	"regexp"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
)

// A run without one of its phases succeeds, or names the missing phase.
func TestErrorNamesSkippedPhase(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		engine.Walk(s.phases, func(address string, _ engine.Phase) {
			t.Run(strings.ReplaceAll(address, "/", " "), func(t *testing.T) {
				r := s.newRun(s.machine(t))
				r.sel.Skip = []string{address}
				err := r.execute(t).err
				if err != nil && !namesPhase(err, address) {
					t.Errorf("neither the error nor its hints name the phase to run:\n%v\n%s", err,
						strings.Join(problem.Hints(err), "\n"))
				}
			})
		})
	})
}

var phaseNamed = regexp.MustCompile(`kubeadm [a-z]+ phase ([a-z -]*[a-z])|needs phase "([a-z/-]+)"`)

// namesPhase reports whether the error names the phase, one above or one below it.
func namesPhase(err error, address string) bool {
	text := err.Error() + "\n" + strings.Join(problem.Hints(err), "\n")
	for _, m := range phaseNamed.FindAllStringSubmatch(text, -1) {
		named := strings.TrimSuffix(strings.ReplaceAll(m[1]+m[2], " ", "/"), "/all")
		if named == address || strings.HasPrefix(named, address+"/") ||
			strings.HasPrefix(address, named+"/") {
			return true
		}
	}
	return false
}
