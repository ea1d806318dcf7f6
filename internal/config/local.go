package config

import (
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// newLocal returns the settings that all machines have in common, from complete and checked
// documents.
func newLocal(r *v1beta4.NodeRegistrationOptions, t *v1beta4.Timeouts, facts Facts,
	common Common) node.Local {
	local := node.Local{
		Name:          r.Name,
		Hostname:      normalizeName(facts.Hostname),
		CRISocket:     r.CRISocket,
		Taints:        r.Taints,
		KubeletArgs:   convertArgs(r.KubeletExtraArgs),
		PullPolicy:    r.ImagePullPolicy,
		PullSerially:  r.ImagePullSerial == nil || *r.ImagePullSerial,
		IgnoredChecks: normalizeIgnored(r.IgnorePreflightErrors),
		Platform:      facts.Platform,
		Paths:         facts.Platform.Paths(),
		Timeouts:      newTimeouts(t),
	}
	if common.KubeconfigDir != "" {
		local.Paths.Kubeconfigs = common.KubeconfigDir
	}
	return local
}

func newTimeouts(t *v1beta4.Timeouts) node.Timeouts {
	return node.Timeouts{
		ControlPlane:  durationOf(t.ControlPlaneComponentHealthCheck),
		Kubelet:       durationOf(t.KubeletHealthCheck),
		KubernetesAPI: durationOf(t.KubernetesAPICall),
		EtcdAPI:       durationOf(t.EtcdAPICall),
		TLSBootstrap:  durationOf(t.TLSBootstrap),
		Discovery:     durationOf(t.Discovery),
		Upgrade:       durationOf(t.UpgradeManifests),
	}
}

func durationOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func normalizeIgnored(checks []string) node.IgnoredChecks {
	var all node.IgnoredChecks
	for _, name := range checks {
		all = append(all, strings.ToLower(name))
	}
	slices.Sort(all)
	return all
}

func patchesDir(p *v1beta4.Patches) string {
	if p == nil {
		return ""
	}
	return p.Directory
}

func convertArgs(list []v1beta4.Arg) []node.Arg {
	var all []node.Arg
	for _, a := range list {
		all = append(all, node.Arg{Name: a.Name, Value: a.Value})
	}
	return all
}

// newBootstrapTokens parses tokens, and generates those that the user left empty.
func newBootstrapTokens(list []v1beta4.BootstrapToken,
	random io.Reader) ([]node.BootstrapToken, error) {
	var all []node.BootstrapToken
	for _, t := range list {
		token := node.BootstrapToken{
			Description: t.Description,
			TTL:         durationOf(t.TTL),
			Usages:      t.Usages,
			Groups:      t.Groups,
			Random:      t.Token == "",
		}
		if t.Expires != nil {
			token.Expires = t.Expires.Time
		}
		var err error
		if token.Random {
			token.ID, token.Secret, err = node.NewToken(random)
		} else {
			token.ID, token.Secret, err = node.ParseToken(t.Token)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, token)
	}
	return all, nil
}
