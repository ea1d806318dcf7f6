package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kubeadm/internal/config/strict"
	"kubeadm/internal/node"
	"kubeadm/internal/untrusted"
)

// families are the names that depend on a port, a path, a program or a service. A path begins
// with a slash, and each slash of it is written as a dash.
var families = regexp.MustCompile(
	`(?i)^(port-[0-9]+|(fileavailable|diravailable|filecontent)--.+|(fileexisting|service)-.+)$`)

// UnknownNames returns a sentence for each name that is to be ignored and is no check's, here or
// in upstream's kubeadm. Such a name has no effect.
func UnknownNames(ignore node.Ignore) (sentences []string) {
	names := append(Names(), "ControlPlaneNodesReady", "CoreDNSMigration", "CoreDNSUnsupportedPlugins",
		"CreateJob", "StaticPodManifest")
	for _, name := range ignore {
		known := func(n string) bool { return strings.EqualFold(n, name) }
		if name == "all" || families.MatchString(name) || slices.ContainsFunc(names, known) {
			continue
		}
		text := fmt.Sprintf("there is no preflight check %s, so that ignoring it has no effect", untrusted.Quote(name))
		if near := strict.Nearest(name, names); near != "" {
			text += ": did you mean " + near + "?"
		}
		sentences = append(sentences, text)
	}
	return sentences
}
