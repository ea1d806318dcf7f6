package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/corefile-migration/migration"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Checks are the preflight checks of an upgrade: the Corefile can be migrated to the CoreDNS
// version of the tag, and the cluster is healthy. Users name the checks in ignorePreflightErrors.
func (c *Cluster) Checks(as state.Identity, paths node.Paths, coreDNSTag string) []preflight.Check {
	return []preflight.Check{
		c.unsupportedPlugins(coreDNSTag),
		c.corefileMigration(coreDNSTag),
		c.createJob(as),
		controlPlaneNodesReady(as),
		StaticPodManifests(paths, controlPlaneComponents()),
	}
}

// CoreDNSTag is the image tag of CoreDNS that an upgrade to the version deploys.
func (c *Cluster) CoreDNSTag(target release.Target) string {
	images := release.Images{Target: target, DNS: release.ImageChoice{Tag: c.Config.DNS.ImageTag}}
	return images.CoreDNSTag()
}

// coreDNSVersions returns the versions between which the Corefile would be migrated; ok is false if
// it stays as it is.
func (c *Cluster) coreDNSVersions(tag string) (from, to string, ok bool) {
	from, to = strings.TrimPrefix(c.CoreDNS, "v"), strings.TrimPrefix(tag, "v")
	return from, to, !c.Config.DNS.Disabled && c.Corefile != nil && from != to
}

// notMigrated are the hints for a Corefile that cannot be migrated.
const notMigrated = "fix ConfigMap kube-system/coredns; or ignore this check and update CoreDNS " +
	"yourself; or set dns.disabled: true in ConfigMap kube-system/kubeadm-config"

func (c *Cluster) unsupportedPlugins(tag string) preflight.Check {
	run := func(_ context.Context, _ state.Reader, rep *preflight.Report) {
		from, to, ok := c.coreDNSVersions(tag)
		if !ok {
			return
		}
		notices, err := migration.Unsupported(from, to, *c.Corefile)
		if err != nil {
			rep.Fail(notMigrated, "%s", migrationFault(from, to, err))
			return
		}
		var plugins []string
		for _, n := range notices {
			text := strings.TrimSpace(n.Plugin + " " + n.Option)
			if !slices.Contains(plugins, text) {
				plugins = append(plugins, text)
			}
		}
		if len(plugins) > 0 {
			rep.Fail(notMigrated,
				"the Corefile has plugins or options that cannot be migrated from CoreDNS %s to %s: %s", from, to, strings.Join(plugins, ", "))
		}
	}
	return preflight.Check{Name: "CoreDNSUnsupportedPlugins", Run: run}
}

func (c *Cluster) corefileMigration(tag string) preflight.Check {
	run := func(_ context.Context, _ state.Reader, rep *preflight.Report) {
		if c.CoreDNS == "" && !c.Config.DNS.Disabled {
			rep.Warn("to prevent that, set dns.disabled: true in ConfigMap kubeadm-config",
				"CoreDNS is not deployed, and the upgrade will deploy it")
		}
		from, to, ok := c.coreDNSVersions(tag)
		if !ok || from == "" {
			return
		}
		if _, err := migration.Migrate(from, to, *c.Corefile, false); err != nil {
			rep.Fail(notMigrated, "%s", migrationFault(from, to, err))
		}
	}
	return preflight.Check{Name: "CoreDNSMigration", Run: run}
}

// migrationFault says why a Corefile cannot be migrated.
func migrationFault(from, to string, err error) string {
	if from == "" {
		return "the Corefile's CoreDNS version is unknown because CoreDNS is not deployed"
	}
	return fmt.Sprintf("the Corefile cannot be migrated from CoreDNS %s to %s: %v", from, to, err)
}
