package release

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestCheckArg(t *testing.T) {
	for _, c := range []struct {
		component, version, name, value string
		fatal                           bool
		want                            string // in text and remedy; empty for a good argument
	}{
		{APIServer, "1.37.1", "v", "4", false, ""},
		{APIServer, "1.37.1", "authorization-mode", "Node,RBAC", false, ""},
		// deprecated, and hidden in its help
		{APIServer, "1.37.1", "kubelet-port", "10250", false, ""},
		{APIServer, "1.37.1", "profiling", "F", false, ""},
		{APIServer, "1.37.1", "max-requests-inflight", "0x10", false, ""},
		{APIServer, "1.37.1", "feature-gates", "", false, ""},
		{APIServer, "1.37.1", "service-account-issuer", "https://a?b=c", false, ""},
		{Scheduler, "1.34.4", "config", "/etc/scheduler.yaml", false, ""},
		{ControllerManager, "1.36.3", "concurrent-service-syncs", "1", false, ""},
		{Kubelet, "1.36.3", "storage-driver-db", "x", false, ""},
		{Kubelet, "1.37.1", "node-ip", "10.0.0.1,fd00::1", false, ""},
		{Kubelet, "1.37.1", "v", "4 ", false, ""}, // systemd drops the space
		{Kubelet, "1.37.1", "node-labels", `"a=b, c=d"`, false, ""},
		{Etcd, "3.6.5", "experimental-initial-corrupt-check", "true", false, ""},
		{Etcd, "3.6.5", "discovery", "x", false, ""},
		{Etcd, "3.5.24", "enable-v2", "true", false, ""},        // not all flags of 3.5 are listed
		{APIServer, "1.99.0", "shiny", "x", false, ""},          // nor those of future releases
		{Etcd, "3.7.0", "heartbeat-interval", "250", false, ""}, // in milliseconds
		{APIServer, "1.37.1", "v=4", "", true, `use the name "v" with the value "4"`},
		{APIServer, "1.37.1", "--v=4", "", true, "without leading dashes"},
		{APIServer, "1.37.1", "nonsense=4", "5", true, "contains its value"},
		{APIServer, "1.37.1", "feature-gates=A", "true", false,
			`use the name "feature-gates" with the value "A=true"`},
		{APIServer, "1.37.1", "audit-log-path=/x", "", false, `with the value "/x"`},
		{Kubelet, "1.37.1", "node-labels=a", "b", false,
			`use the name "node-labels" with the value "a=b"`},
		{APIServer, "1.37.1", " v", "4", true, "contains white space"},
		{APIServer, "1.37.1", "audit_log_path", "/x", false, `use the name "audit-log-path"`},
		{Etcd, "3.7.0", "data_dir", "/x", true, "did you mean data-dir?"},
		{APIServer, "1.37.1", "authorisation-mode", "RBAC", true,
			"did you mean authorization-mode?"},
		{Scheduler, "1.37.1", "tls-cypher-suites", "x", true, "did you mean tls-cipher-suites?"},
		{APIServer, "1.34.4", "tls-curve-preferences", "x", true, "added in 1.36"},
		{ControllerManager, "1.34.4", "controller-shutdown-timeout", "x", true, "added in 1.35"},
		{Etcd, "3.7.0", "experimental-enable-lease-checkpoint", "true", true,
			"set feature-gates to LeaseCheckpoint=true"},
		{Etcd, "3.7.0", "experimental-warning-apply-duration", "1s", true,
			"rename it to warning-apply-duration"},
		{Etcd, "3.7.0", "experimental-nothing", "1s", true, "remove it"},
		{APIServer, "1.37.1", "v", "-1", true, "is not a non-negative integer"},
		{APIServer, "1.37.1", "v", " 4", true, `remove the white space: "4"`},
		{APIServer, "1.37.1", "request-timeout", "60", true, "is not a duration"},
		{Kubelet, "1.37.1", "v", " 4", true, "non-negative integer"},
		{Kubelet, "1.37.1", "node-labels", "a=b, c=d", true, "systemd"},
		{APIServer, "1.37.1", "audit-log-path", "/x\n", false, "begins or ends with white space"},
		{Etcd, "3.7.0", "auto-tls", "yes", true, "is not true or false"},
		{APIServer, "1.37.1", "enable-admission-plugins", "NodeRestriction,PodSecurity,", false, ""},
		{APIServer, "1.99.0", "enable-admission-plugins", "Shiny", false, ""},
		{APIServer, "1.36.3", "disable-admission-plugins", "JobValidation", false, ""},
		{APIServer, "1.37.1", "disable-admission-plugins", "JobValidation", true, "removed in 1.37"},
		{APIServer, "1.34.4", "enable-admission-plugins", "PodGroupProtection", true, "added in 1.36"},
		{APIServer, "1.37.1", "enable-admission-plugins", "NodeRestriction,PodSecurityPolicy", true,
			"has no admission plugin PodSecurityPolicy (removed in 1.25)"},
		{APIServer, "1.37.1", "enable-admission-plugins", "NodeRestrictions", true,
			"did you mean NodeRestriction?"},
		{APIServer, "1.37.1", "enable-admission-plugins", "NodeRestriction, Priority", true,
			`has no admission plugin " Priority"`},
	} {
		fault := CheckArg(c.component, version.MustParseSemantic(c.version), c.name, c.value)
		if fault == nil {
			fault = &ArgProblem{}
		}
		if got := fault.Text + "; " + fault.Hint; c.want == "" && got != "; " ||
			!strings.Contains(got, c.want) || fault.Fatal != c.fatal {
			t.Errorf("%s %s --%s=%s: fatal is %v, %s\nwant %v, %q", c.component, c.version, c.name,
				c.value, fault.Fatal, got, c.fatal, c.want)
		}
	}
}

func TestFlagList(t *testing.T) {
	count := map[string]int{}
	for line := range strings.Lines(flagList) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("flags.txt: %q is not three words", line)
		}
		count[f[0]]++
	}
	for _, component := range []string{APIServer, ControllerManager, Scheduler, Kubelet, Etcd} {
		if count[component] < 50 {
			t.Errorf("%s has %d flags only", component, count[component])
		}
	}
	for _, s := range flagRanges() {
		listed := false
		for line := range strings.Lines(flagList) {
			f := strings.Fields(line)
			listed = listed || f[0] == s.component && s.matches(f[1])
		}
		if listed == (s.gone > 0) {
			t.Errorf("%s --%s: in flags.txt is %v, gone with %d", s.component, s.flag, listed,
				s.gone)
		}
	}
}
