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

// localOf is what all machines have in common, once everything is filled in and checked.
func localOf(r *v1beta4.NodeRegistrationOptions, t *v1beta4.Timeouts, facts Facts, common Common) node.Local {
	local := node.Local{
		Name:         r.Name,
		Hostname:     tidyName(facts.Hostname),
		CRISocket:    r.CRISocket,
		Taints:       r.Taints,
		KubeletArgs:  args(r.KubeletExtraArgs),
		PullPolicy:   r.ImagePullPolicy,
		PullSerially: r.ImagePullSerial == nil || *r.ImagePullSerial,
		Ignore:       ignore(r.IgnorePreflightErrors),
		Paths:        node.DefaultPaths(),
		Timeouts:     timeouts(t),
	}
	if common.KubeconfigDir != "" {
		local.Paths.Kubeconfigs = common.KubeconfigDir
	}
	return local
}

func timeouts(t *v1beta4.Timeouts) node.Timeouts {
	return node.Timeouts{
		ControlPlane:  length(t.ControlPlaneComponentHealthCheck),
		Kubelet:       length(t.KubeletHealthCheck),
		KubernetesAPI: length(t.KubernetesAPICall),
		EtcdAPI:       length(t.EtcdAPICall),
		TLSBootstrap:  length(t.TLSBootstrap),
		Discovery:     length(t.Discovery),
		Upgrade:       length(t.UpgradeManifests),
	}
}

func length(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func ignore(checks []string) node.Ignore {
	var all node.Ignore
	for _, name := range checks {
		all = append(all, strings.ToLower(name))
	}
	slices.Sort(all)
	return all
}

func directory(p *v1beta4.Patches) string {
	if p == nil {
		return ""
	}
	return p.Directory
}

func args(list []v1beta4.Arg) []node.Arg {
	var all []node.Arg
	for _, a := range list {
		all = append(all, node.Arg{Name: a.Name, Value: a.Value})
	}
	return all
}

// bootstrapTokens makes up the tokens that the user left to us.
func bootstrapTokens(list []v1beta4.BootstrapToken, random io.Reader) ([]node.BootstrapToken, error) {
	var all []node.BootstrapToken
	for _, t := range list {
		token := node.BootstrapToken{
			Description: t.Description,
			TTL:         length(t.TTL),
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
