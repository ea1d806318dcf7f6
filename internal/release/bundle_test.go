package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// flagForm is a flag at the beginning of a line of help.
var flagForm = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z][a-z0-9-]*)`)

// TestFlagsMatchComponents compares flags.txt and flagRanges with the help of each component. It
// is skipped unless KUBEADM_BUNDLE or KUBEADM_BUNDLE_OLDER names a directory with the components
// of a release.
func TestFlagsMatchComponents(t *testing.T) {
	tried := false
	for _, variable := range []string{"KUBEADM_BUNDLE", "KUBEADM_BUNDLE_OLDER"} {
		bundle := os.Getenv(variable)
		if bundle == "" {
			continue
		}
		tried = true
		for _, component := range []string{APIServer, ControllerManager, Scheduler, Kubelet, Etcd} {
			t.Run(variable+"/"+component, func(t *testing.T) {
				t.Parallel()
				compareFlags(t, filepath.Join(bundle, "bin", component), component)
			})
		}
	}
	if !tried {
		t.Skip("neither KUBEADM_BUNDLE nor KUBEADM_BUNDLE_OLDER names components to compare with")
	}
}

func compareFlags(t *testing.T, program, component string) {
	v := versionOf(t, program)
	help := helpOf(t, program)
	if len(help) < 50 {
		t.Fatalf("the help of %s %s has %d flags only", component, v, len(help))
	}
	for _, flag := range help {
		if fault := checkArgName(component, v, flag); fault != nil && flag != "help" &&
			acceptsFlag(program, flag) {
			t.Errorf("%s %s has a flag that is not listed: %s", component, v, fault.Text)
		}
	}
	for _, flag := range listFlags(component, v) {
		if !slices.Contains(help, flag) && !acceptsFlag(program, flag) { // hidden, or not there
			t.Errorf("%s %s has no flag --%s", component, v, flag)
		}
	}
	if said, _ := exec.Command(program, "--no-such-flag",
		"--help").CombinedOutput(); !strings.Contains(string(said), "no-such-flag") {
		t.Errorf("%s %s does not name unknown flags: %s", component, v, said)
	}
}

// acceptsFlag reports whether the program has a flag. The help of some lists removed flags.
func acceptsFlag(program, flag string) bool {
	said, _ := exec.Command(program, "--"+flag+"=1", "--help").CombinedOutput()
	return !strings.Contains(string(said), "unknown flag: --"+flag) &&
		!strings.Contains(string(said), "not defined: -"+flag)
}

func versionOf(t *testing.T, program string) *version.Version {
	t.Helper()
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(string(out))
	v, err := version.ParseSemantic(text)
	if err != nil {
		t.Fatalf("%s says it is %q", program, out)
	}
	return v
}

func helpOf(t *testing.T, program string) (flags []string) {
	t.Helper()
	out, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, m := range flagForm.FindAllStringSubmatch(string(out), -1) {
		flags = append(flags, m[1])
	}
	return flags
}
