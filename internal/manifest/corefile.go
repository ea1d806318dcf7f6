package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/corefile-migration/migration"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/node"
)

// Keys of the ConfigMap of CoreDNS.
const (
	CorefileKey       = "Corefile"
	CorefileBackupKey = "Corefile-backup" // what CorefileKey was before it was migrated
)

// defaultCorefile is the configuration of CoreDNS for a cluster domain.
func defaultCorefile(domain string) string {
	cache := []string{"cache 30"}
	if domain != "" {
		cache = append(cache, "disable success "+domain, "disable denial "+domain)
	}
	plugins := [][]string{ // a plugin, then its options
		{"errors"},
		{"health", "lameduck 5s"},
		{"ready"},
		{"kubernetes " + domain + " in-addr.arpa ip6.arpa", "pods insecure",
			"fallthrough in-addr.arpa ip6.arpa", "ttl 30"},
		{"prometheus :9153"},
		{"forward . /etc/resolv.conf", "max_concurrent 1000"},
		cache,
		{"loop"},
		{"reload"},
		{"loadbalance"},
	}
	var out strings.Builder
	out.WriteString(".:53 {\n")
	for _, p := range plugins {
		out.WriteString("    " + p[0])
		if len(p) > 1 {
			out.WriteString(" {\n       " + strings.Join(p[1:], "\n       ") + "\n    }")
		}
		out.WriteString("\n")
	}
	out.WriteString("}\n")
	return out.String()
}

// CorefilePlan says what to do with the Corefile of a cluster.
type CorefilePlan struct {
	Config *corev1.ConfigMap // to be written
	// KeepConfig is set if an existing ConfigMap must not be changed; Config is for a cluster
	// without one.
	KeepConfig bool
	// Migrates is set if Config also holds the old Corefile as a backup. A CoreDNS that still runs
	// the old version must read the backup (UseBackupCorefile) until it is replaced.
	Migrates bool
	// KeepDeployment is set if an existing Deployment must not be changed either, because the new
	// version might not support the Corefile.
	KeepDeployment bool
	Warning        string // for the user; may be empty
}

// PlanCorefile decides what to do with the Corefile. existing is the data of the ConfigMap, nil if
// there is none; deployed is the version of CoreDNS in the cluster, empty if unknown. A Corefile
// that the user changed is kept unless the new version of CoreDNS does not support it.
func PlanCorefile(n *node.Node, existing map[string]string, deployed string) (CorefilePlan, error) {
	images, err := Images(n)
	if err != nil {
		return CorefilePlan{}, err
	}
	fresh := defaultCorefile(n.Cluster.DNSDomain)
	plan := CorefilePlan{Config: configMap(kubeSystem, "coredns",
		map[string]string{CorefileKey: fresh})}
	if existing == nil {
		return plan, nil
	}
	text, ok := existing[CorefileKey]
	if !ok {
		return CorefilePlan{},
			fmt.Errorf("ConfigMap kube-system/coredns has no key %s: add it, or delete the ConfigMap", CorefileKey)
	}
	if text == fresh || migration.Default("", text) { // migration may not have the newest default
		return plan, nil
	}
	plan.KeepConfig = true
	plan.migrate(text, strings.TrimPrefix(deployed, "v"),
		strings.TrimPrefix(images.CoreDNSTag(), "v"))
	return plan, nil
}

// migrate migrates a user's Corefile to another version of CoreDNS if necessary.
func (p *CorefilePlan) migrate(text, from, to string) {
	if from == "" || from == to {
		return
	}
	if !slices.Contains(migration.ValidVersions(), to) {
		p.Warning = fmt.Sprintf(
			"cannot migrate the Corefile to CoreDNS %q, which is not a known version; the Corefile stays unchanged", to)
		return
	}
	notices, err := migration.Deprecated(from, to, text)
	breaks := func(n migration.Notice) bool {
		return n.Severity == migration.SevRemoved || n.Severity == migration.SevNewDefault
	}
	if err == nil && !slices.ContainsFunc(notices, breaks) {
		return // the old Corefile still works
	}
	var migrated string
	if err == nil {
		migrated, err = migration.Migrate(from, to, text, false)
	}
	switch {
	case err != nil:
		p.KeepDeployment = true
		p.Warning = fmt.Sprintf(
			"the Corefile cannot be migrated from CoreDNS %s to %s: %v; CoreDNS is not upgraded",
			from, to, err)
	case migrated != "":
		p.KeepConfig, p.Migrates = false, true
		p.Config = configMap(kubeSystem, "coredns",
			map[string]string{CorefileKey: migrated, CorefileBackupKey: text})
	}
}

// UseBackupCorefile makes a Deployment of CoreDNS read the Corefile from CorefileBackupKey.
func UseBackupCorefile(deployment *unstructured.Unstructured) error {
	value, _, _ := unstructured.NestedFieldNoCopy(deployment.Object, "spec", "template", "spec",
		"volumes")
	volumes, _ := value.([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		value, _, _ := unstructured.NestedFieldNoCopy(volume, "configMap", "items")
		items, _ := value.([]any)
		for _, i := range items {
			if item, ok := i.(map[string]any); ok && item["path"] == CorefileKey {
				item["key"] = CorefileBackupKey
				return nil
			}
		}
	}
	return errors.New("the Deployment coredns does not mount a Corefile")
}
