package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"kubeadm/internal/doctor"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

// newHealthyNode is a control plane node some time after init.
func newHealthyNode(t *testing.T) *testMachine {
	t.Helper()
	return newHealthyNodeOf(t, quick)
}

// newHealthyNodeOf is such a node, created by that configuration.
func newHealthyNodeOf(t *testing.T, config []byte) *testMachine {
	t.Helper()
	s := newTestMachine(t)
	s.initClusterOf(t, config)
	if err := s.world.CompleteInit(); err != nil {
		t.Fatal(err)
	}
	return s
}

// editObject changes the fields of the object of a kind and name, which must exist.
func (s *testMachine) editObject(t *testing.T, kind, name string, edit func(map[string]any)) {
	t.Helper()
	o := s.world.FindObject(kind, name)
	if o == nil {
		t.Fatalf("there is no %s %s", kind, name)
	}
	edit(o.Object)
}

// diagnose runs the doctor and returns its result and exit code.
func (s *testMachine) diagnose(t *testing.T, args ...string) (d doctor.Diagnosis, code int) {
	t.Helper()
	err := s.run(t.Context(), append([]string{"doctor", "-o", "json"}, args...)...)
	if err != nil {
		code = problem.ExitCode(err)
	}
	if err := json.Unmarshal(s.out.Bytes(), &d); err != nil {
		t.Fatalf("%v, in\n%s%s", err, &s.out, &s.err)
	}
	return d, code
}

func describeFindings(d doctor.Diagnosis) string {
	var lines []string
	for _, f := range d.Findings {
		lines = append(lines, string(f.Severity)+" "+f.Check+": "+f.Text+"\n"+f.Evidence)
	}
	return strings.Join(lines, "\n")
}

func writeFile(name, text string) func(*testing.T, *testMachine) {
	return func(_ *testing.T, s *testMachine) {
		s.world.Files[name] = memory.File{Data: []byte(text), Mode: 0o600, ModTime: s.world.Now()}
	}
}

func remove(name string) func(*testing.T, *testMachine) {
	return func(_ *testing.T, s *testMachine) { delete(s.world.Files, name) }
}

func TestDoctorOnHealthyNode(t *testing.T) {
	s := newHealthyNode(t)
	before := s.world.Snapshot()
	d, code := s.diagnose(t)
	if len(d.Findings) > 0 || code != 0 {
		t.Errorf("exit code %d:\n%s", code, describeFindings(d))
	}
	for _, n := range d.NotChecked {
		t.Errorf("not checked: %s: %s", n.Check, n.Reason)
	}
	if s.world.Snapshot() != before {
		t.Error("it has changed the machine or the cluster")
	}
	if d.Machine.Role != "control-plane" || d.Kind != "Diagnosis" || len(d.Passed[doctor.Cluster]) < 10 {
		t.Errorf("got %+v", d)
	}
	if err := s.run(t.Context(), "doctor"); err != nil || !strings.Contains(s.out.String(), "nothing is wrong") {
		t.Errorf("%v:\n%s", err, &s.out)
	}
}

// An error is exit code 2, a warning 0.
func TestDoctorExitCode(t *testing.T) {
	s := newTestMachine(t)
	kubelet := s.world.Kubelet
	s.world.Kubelet = "v1.30.0"
	if d, code := s.diagnose(t); !d.HasErrors() || code != 2 {
		t.Errorf("exit code %d:\n%s", code, describeFindings(d))
	}
	s.world.Kubelet = kubelet
	writeFile("/proc/swaps", "Filename Type Size Used Priority\n/swap file 1 0 -2\n")(t, s)
	if d, code := s.diagnose(t); len(d.Findings) != 1 || code != 0 {
		t.Errorf("exit code %d:\n%s", code, describeFindings(d))
	}
}

// Turning swap off is asked for on its own, and --yes does not answer: two questions, whose answers may come in one piece.
func TestDoctorReadsEachAnswer(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/proc/swaps"] = memory.File{Data: []byte("Filename Type Size Used Priority\n/swap file 1 0 -2\n"), Mode: 0o444}
	s.world.Files["/proc/sys/net/ipv4/ip_forward"] = memory.File{Data: []byte("0\n"), Mode: 0o644}
	if d, _ := s.diagnose(t, "--fix", "--yes"); !strings.Contains(describeFindings(d), "swap is on") {
		t.Errorf("--yes answers for swap:\n%s", describeFindings(d))
	}
	s.world.Files["/proc/sys/net/ipv4/ip_forward"] = memory.File{Data: []byte("0\n"), Mode: 0o644}
	s.In = strings.NewReader("y\ny\n")
	if err := s.run(t.Context(), "doctor", "--fix"); err != nil {
		t.Fatalf("%v\n%s%s", err, &s.out, &s.err)
	}
	if n := strings.Count(s.out.String(), "Continue? [y/N]"); n != 2 {
		t.Errorf("it asked %d times:\n%s", n, &s.out)
	}
	if d, _ := s.diagnose(t); len(d.Findings) > 0 {
		t.Errorf("it is not fixed:\n%s", describeFindings(d))
	}
}
