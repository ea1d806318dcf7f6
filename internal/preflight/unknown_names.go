package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/strict"
	"kubeadm/internal/untrusted"
)

// checkNamePattern matches the names with a port, a path, a program or a service. A path begins
// with a slash, and each slash of it is written as a dash.
var checkNamePattern = regexp.MustCompile(
	`(?i)^(port-[0-9]+|(fileavailable|diravailable|filecontent)--.+|(fileexisting|service)-.+)$`)

// UnknownNames returns a warning for each name to ignore that no check has, here or in upstream's
// kubeadm.
func UnknownNames(ignore node.IgnoredChecks) (warnings []string) {
	names := append(Names(), "ControlPlaneNodesReady", "CoreDNSMigration",
		"CoreDNSUnsupportedPlugins",
		"CreateJob", "StaticPodManifest", "EtcdQuorum", "UpgradeOrder")
	for _, name := range ignore {
		isName := func(n string) bool { return strings.EqualFold(n, name) }
		if name == "all" || checkNamePattern.MatchString(name) ||
			slices.ContainsFunc(names, isName) {
			continue
		}
		text := fmt.Sprintf("unknown preflight check %s, so ignoring it has no effect",
			untrusted.Quote(name))
		if near := strict.Nearest(name, names); near != "" {
			text += ": did you mean " + near + "?"
		}
		warnings = append(warnings, text)
	}
	return warnings
}
