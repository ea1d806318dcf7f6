package reset

import (
	"context"
	"crypto/x509"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// removeUserKubeconfigs removes .kube/config from the home directory of the user, and of the one
// who runs sudo, if all its clusters are the one that this machine leaves.
func removeUserKubeconfigs(ctx context.Context, e *engine.Env) {
	left := readLeftCluster(ctx, e)
	for _, home := range findHomes(ctx, e) {
		file := path.Join(home, ".kube", "config")
		data, err := state.ReadOptional(ctx, e.World, file)
		if data == nil && err == nil {
			continue
		}
		if len(left.cas) == 0 && err == nil {
			e.Warn("%s is not removed: the cluster's CA is no longer on this machine to compare it with; if the file belongs to this cluster, remove it manually", file)
			continue
		}
		var config *pki.Kubeconfig
		if err == nil {
			config, err = pki.ParseKubeconfig(data)
		}
		if err != nil {
			e.Warn("%s is not removed: %v", file, err)
			continue
		}
		own, elsewhere, others := left.splitClusters(config)
		switch {
		case len(config.Clusters) == 0:
			e.Say("keeping %s, which has no cluster", file)
		case len(own)+len(elsewhere) == 0:
			e.Say("keeping %s, which belongs to another cluster", file)
		case len(elsewhere) > 0:
			e.Warn("%s is not removed: cluster %s has the CA of this cluster, but its server is %q; if the file belongs to this cluster, remove it manually",
				file, elsewhere[0], config.Clusters[elsewhere[0]].Server)
		case len(others) > 0:
			e.Warn("%s is not removed, because it also has other clusters: %v; %s", file, others, untrusted.CommandHint(
				"remove this cluster's entries manually", "kubectl config delete-cluster", own[0]))
		default:
			e.Say("removing %s, which belongs to this cluster", file)
			warnOnError(e, e.Do(ctx, change.Remove{Path: file}), "remove it manually")
		}
	}
}

// leftCluster is the cluster that this machine is a node of. Clusters may share a CA, so the server
// belongs to it.
type leftCluster struct {
	cas     []*x509.Certificate
	servers []string // URLs of its API servers in the kubeconfigs of this machine
}

func readLeftCluster(ctx context.Context, e *engine.Env) (left leftCluster) {
	p := e.Local.Paths
	if data, err := e.World.ReadFile(ctx, p.Cert("ca")); err == nil {
		left.cas, _ = pki.ParseCertificates(data)
	}
	for _, name := range []string{"admin.conf", "kubelet.conf"} {
		data, err := e.World.ReadFile(ctx, p.Kubeconfig(name))
		if err != nil {
			continue
		}
		if config, err := pki.ParseKubeconfig(data); err == nil {
			embedded, _ := config.EmbeddedCAs()
			left.cas = append(left.cas, embedded...)
			for _, cluster := range config.Clusters {
				left.servers = append(left.servers, cluster.Server)
			}
		}
	}
	return left
}

// splitClusters returns the names of the clusters in a kubeconfig that trust one of the CAs, by
// whether their server is known, and of all others.
func (left leftCluster) splitClusters(config *pki.Kubeconfig) (own, elsewhere, others []string) {
	for name, cluster := range config.Clusters {
		trusted, _ := pki.ParseCertificates(cluster.CertificateAuthorityData)
		switch {
		case !slices.ContainsFunc(trusted, func(t *x509.Certificate) bool {
			return slices.ContainsFunc(left.cas, t.Equal)
		}):
			others = append(others, name)
		case slices.Contains(left.servers, cluster.Server):
			own = append(own, name)
		default:
			elsewhere = append(elsewhere, name)
		}
	}
	slices.Sort(own)
	slices.Sort(elsewhere)
	slices.Sort(others)
	return own, elsewhere, others
}

// findHomes returns the home directory in the environment, and that of the user who runs sudo.
func findHomes(ctx context.Context, e *engine.Env) (homes []string) {
	host, err := e.World.Host(ctx)
	if err != nil {
		return nil
	}
	add := func(home string) {
		if path.IsAbs(home) && !slices.Contains(homes, path.Clean(home)) {
			homes = append(homes, path.Clean(home))
		}
	}
	for _, variable := range host.Env {
		if home, ok := strings.CutPrefix(variable, "HOME="); ok {
			add(home)
		}
		user, ok := strings.CutPrefix(variable, "SUDO_USER=")
		if !ok {
			continue
		}
		passwd, _ := e.World.ReadFile(ctx, "/etc/passwd")
		for line := range strings.Lines(string(passwd)) {
			f := strings.Split(strings.TrimSpace(line), ":") // see passwd(5)
			if len(f) >= 6 && f[0] == user {
				add(f[5])
			}
		}
	}
	return homes
}
