package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestCheckComponentGates(t *testing.T) {
	for _, c := range []struct {
		component, version, value string
		fatal                     bool
		want                      string // in text and hint; empty for good gates
	}{
		{APIServer, "1.37.1", "", false, ""},
		{APIServer, "1.37.1", "APIServerIdentity=true, AllAlpha=false", false, ""},
		{APIServer, "1.37.1", "kube:APIServerIdentity=false", false, ""},
		{APIServer, "1.37.1", "other:Magic=false", false, ""},
		{APIServer, "1.38.0", "Magic=true", false, ""}, // the gates of other releases are unknown
		{APIServer, "1.37.0-beta.1", "Magic=true", false, ""},
		{Kubelet, "1.33.9", "Magic=true", false, ""},
		{ControllerManager, "1.37.1", "CloudControllerManagerWebhook=true", false, ""},
		{APIServer, "1.37.1", "Magic=true", true,
			`kube-apiserver 1.37.1 has no feature gate "Magic" and does not start with it; remove it`},
		{Kubelet, "1.37.1", "APIServerIdentiti=true", true, "did you mean APIServerIdentity?"},
		{APIServer, "1.37.1", "APIServerIdentity:true", true, "set APIServerIdentity=true"},
		{APIServer, "1.37.1", "APIServerIdentity", true, "set APIServerIdentity=true or"},
		{APIServer, "1.37.1", "APIServerIdentity=yes", true, "is not true or false"},
		{Kubelet, "1.37.1", "kube:APIServerIdentity=true", true, "has no feature gate"},
		{Proxy, "1.37.1", "GitRepoVolumeDriver=true", true, "locked to false"},
		{Proxy, "1.37.1", "GitRepoVolumeDriver=false", false, "has no effect"},
	} {
		b := Binary{Component: c.component, Version: version.MustParseSemantic(c.version)}
		got, fatal := "", false
		for _, fault := range b.CheckGates(c.value) {
			got += fault.Text + "; " + fault.Hint
			fatal = fatal || fault.Fatal
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || fatal != c.fatal {
			t.Errorf("%s %s --feature-gates=%s: fatal is %v, %q\nwant %v, %q", c.component, c.version,
				c.value, fatal, got, c.fatal, c.want)
		}
	}
}

// An emulated version changes which gates are locked, but not which ones exist.
func TestGatesOfEmulatedVersion(t *testing.T) {
	b := Binary{Component: APIServer, Version: version.MustParseSemantic("1.37.1"), Emulates: true}
	if list := b.CheckGates("GitRepoVolumeDriver=true"); len(list) > 0 {
		t.Errorf("a gate that the emulated version may change: %v", list[0].Text)
	}
	if list := b.CheckGates("Magic=true"); len(list) != 1 || !list[0].Fatal {
		t.Errorf("an unknown gate: %v", list)
	}
}

func TestGateList(t *testing.T) {
	form := regexp.MustCompile(`^\w+ (all|kube-controller-manager)( 3[4-7]:[abgd][+-]!?)+\n$`)
	last, count := "", 0
	for line := range strings.Lines(gateList) {
		if !form.MatchString(line) || line <= last {
			t.Errorf("gates.txt: %q is malformed, or not sorted after %q", line, last)
		}
		last, count = line, count+1
	}
	if count < 200 {
		t.Errorf("gates.txt has %d gates only", count)
	}
}

// gateForm is a gate in the help of a component, which leaves out those that are GA or deprecated.
var gateForm = regexp.MustCompile(
	`([A-Z]\w+)=true\|false \((ALPHA|BETA) - default=(true|false)\)`)

// TestGatesMatchComponents compares gates.txt with the help of each component, and with what the
// component says of a gate that is locked or that it does not have. It is skipped like
// TestFlagsMatchComponents.
func TestGatesMatchComponents(t *testing.T) {
	tried := false
	for _, variable := range []string{"KUBEADM_BUNDLE", "KUBEADM_BUNDLE_OLDER"} {
		bundle := os.Getenv(variable)
		if bundle == "" {
			continue
		}
		tried = true
		for _, component := range []string{
			APIServer, ControllerManager, Scheduler, Kubelet, Proxy,
		} {
			t.Run(variable+"/"+component, func(t *testing.T) {
				compareGates(t, filepath.Join(bundle, "bin", component), component)
			})
		}
	}
	if !tried {
		t.Skip("neither KUBEADM_BUNDLE nor KUBEADM_BUNDLE_OLDER names components to compare with")
	}
}

func compareGates(t *testing.T, program, component string) {
	b := Binary{Component: component, Version: versionOf(t, program)}
	help, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	// a default that depends on another flag stands behind the one without it
	help = regexp.MustCompile(`, or [^\n]*`).ReplaceAll(help, nil)
	found := map[string]bool{}
	for _, m := range gateForm.FindAllStringSubmatch(string(help), -1) {
		g := b.findGate(m[1])
		found[m[1]] = true
		switch {
		case m[1] == "AllAlpha" || m[1] == "AllBeta":
		case !g.exists:
			// The test's programs are one binary, so that all have the gates of each.
			if all := (Binary{Component: ControllerManager, Version: b.Version}); !all.findGate(m[1]).exists {
				t.Errorf("%s %s has a gate that is not listed: %s", component, b.Version, m[1])
			}
		case g.on != (m[3] == "true"):
			t.Errorf("%s %s: the default of gate %s is %s", component, b.Version, m[1], m[3])
		}
	}
	if len(found) < 50 {
		t.Fatalf("the help of %s %s has %d gates only", component, b.Version, len(found))
	}
	for _, name := range b.listGates() {
		if g := b.findGate(name); g.stage == 'a' && !found[name] || g.stage == 'b' && !found[name] {
			t.Errorf("%s %s has no gate %s", component, b.Version, name)
		}
	}
}
