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

// corefile is the configuration of CoreDNS for a cluster with that domain.
func corefile(domain string) string {
	cache := []string{"cache 30"}
	if domain != "" {
		cache = append(cache, "disable success "+domain, "disable denial "+domain)
	}
	plugins := [][]string{ // a plugin, then its options
		{"errors"},
		{"health", "lameduck 5s"},
		{"ready"},
		{"kubernetes " + domain + " in-addr.arpa ip6.arpa", "pods insecure", "fallthrough in-addr.arpa ip6.arpa", "ttl 30"},
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

// CorefilePlan is what becomes of the Corefile that a cluster already has.
type CorefilePlan struct {
	Config *corev1.ConfigMap // to be written
	// Keep says that an existing ConfigMap stays as it is; Config is for where there is none.
	Keep bool
	// Migrates says that Config also holds the old text as backup. A CoreDNS that still runs
	// in the old version must be pointed to it (ReadBackup) until it is replaced.
	Migrates bool
	// KeepDeployment says that an existing Deployment stays too, since the new version might not
	// understand the Corefile.
	KeepDeployment bool
	Warning        string // what the user should look at; may be empty
}

// PlanCorefile decides about the Corefile. existing is the data of the ConfigMap, nil where
// there is none; deployed is the version of CoreDNS in the cluster, empty if unknown. What
// the user wrote is kept unless the new version of CoreDNS could not read it or lacks something in it.
func PlanCorefile(n *node.Node, existing map[string]string, deployed string) (CorefilePlan, error) {
	images, err := Images(n)
	if err != nil {
		return CorefilePlan{}, err
	}
	fresh := corefile(n.Cluster.DNSDomain)
	plan := CorefilePlan{Config: dnsConfig(map[string]string{CorefileKey: fresh})}
	if existing == nil {
		return plan, nil
	}
	text, ok := existing[CorefileKey]
	if !ok {
		return CorefilePlan{}, fmt.Errorf("ConfigMap kube-system/coredns has no key %s: add it, or delete the ConfigMap", CorefileKey)
	}
	if text == fresh || migration.Default("", text) { // migration lags behind the newest default
		return plan, nil
	}
	plan.Keep = true
	plan.migrate(text, strings.TrimPrefix(deployed, "v"), strings.TrimPrefix(images.CoreDNSTag(), "v"))
	return plan, nil
}

// migrate replaces a user's Corefile by one for another version if it must.
func (p *CorefilePlan) migrate(text, from, to string) {
	if from == "" || from == to {
		return
	}
	if !slices.Contains(migration.ValidVersions(), to) {
		p.Warning = fmt.Sprintf("nobody knows whether the image of CoreDNS with the tag %q reads the Corefile in use; it is left as it is", to)
		return
	}
	migrated, err := migrate(from, to, text)
	switch {
	case err != nil:
		p.KeepDeployment = true
		p.Warning = fmt.Sprintf("the Corefile cannot be migrated from CoreDNS %s to %s: %v; CoreDNS stays as it is", from, to, err)
	case migrated != "":
		p.Keep, p.Migrates = false, true
		p.Config = dnsConfig(map[string]string{CorefileKey: migrated, CorefileBackupKey: text})
	}
}

// migrate returns the Corefile for the new version, or nothing where the old one will do.
func migrate(from, to, text string) (string, error) {
	notices, err := migration.Deprecated(from, to, text)
	if err != nil {
		return "", err
	}
	breaks := func(n migration.Notice) bool {
		return n.Severity == migration.SevRemoved || n.Severity == migration.SevNewDefault
	}
	if !slices.ContainsFunc(notices, breaks) {
		return "", nil
	}
	return migration.Migrate(from, to, text, false)
}

func dnsConfig(data map[string]string) *corev1.ConfigMap {
	return configMap(kubeSystem, "coredns", data)
}

// ReadBackup makes a Deployment of CoreDNS read the Corefile from CorefileBackupKey.
func ReadBackup(deployment *unstructured.Unstructured) error {
	volumes, _ := field(deployment.Object, "spec", "template", "spec", "volumes").([]any)
	for _, v := range volumes {
		items, _ := field(v, "configMap", "items").([]any)
		for _, i := range items {
			if item, ok := i.(map[string]any); ok && item["path"] == CorefileKey {
				item["key"] = CorefileBackupKey
				return nil
			}
		}
	}
	return errors.New("the Deployment coredns mounts no Corefile")
}

// field is what stands at that path below nested maps, nil if there is nothing.
func field(value any, path ...string) any {
	for _, name := range path {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}
