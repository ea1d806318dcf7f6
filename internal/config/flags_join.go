package config

import (
	"fmt"
	"slices"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// JoinFlags are what join can be told on the command line.
type JoinFlags struct {
	Common
	Endpoint string // the argument, "host:port": without it there is no discovery by token
	// Inside says that the command is for a machine that knows its cluster already, and has no flags that say how to find one.
	Inside bool

	AdvertiseAddress         string   // --apiserver-advertise-address
	BindPort                 int32    // --apiserver-bind-port
	CertificateKey           string   // --certificate-key
	ControlPlane             bool     // --control-plane
	CRISocket                string   // --cri-socket
	DiscoveryFile            string   // --discovery-file
	DiscoveryToken           string   // --discovery-token
	CACertHashes             []string // --discovery-token-ca-cert-hash
	UnsafeSkipCAVerification bool     // --discovery-token-unsafe-skip-ca-verification
	Patches                  string   // --patches
	TLSBootstrapToken        string   // --tls-bootstrap-token
	Token                    string   // --token: stands in for both tokens where they are not given
	ReplaceMembers           []string // --replace-member: counts beside a file too
}

// NewJoinFlags are the flags of join before the user says anything.
func NewJoinFlags() JoinFlags { return JoinFlags{BindPort: v1beta4.DefaultBindPort} }

// document is what a file would say in place of the flags. adminKubeconfig stands
// in for discovery where a control plane joins or the cluster is known already; it may be empty.
func (f JoinFlags) document(adminKubeconfig string) (c v1beta4.JoinConfiguration, warnings []string, err error) {
	c = v1beta4.JoinConfiguration{
		NodeRegistration: v1beta4.NodeRegistrationOptions{CRISocket: f.CRISocket},
		Discovery:        f.discovery(),
		Patches:          &v1beta4.Patches{Directory: f.Patches},
	}
	if f.Inside && adminKubeconfig == "" {
		return c, nil, problem.New("", fmt.Errorf("this phase finds the cluster by %s, which does not exist", node.DefaultPaths().Kubeconfig("admin.conf")),
			"on a machine that becomes a control plane this makes it: kubeadm join phase control-plane-prepare kubeconfig",
			"or name a configuration file that says how to find the cluster, if the phase has --config")
	}
	if f.ControlPlane {
		c.ControlPlane = &v1beta4.JoinControlPlane{
			LocalAPIEndpoint: v1beta4.APIEndpoint{AdvertiseAddress: f.AdvertiseAddress, BindPort: f.BindPort},
			CertificateKey:   f.CertificateKey,
		}
	} else {
		warnings = f.unusedFlagWarnings()
	}
	if adminKubeconfig == "" || !f.ControlPlane && !f.Inside {
		return c, warnings, nil
	}
	if c.Discovery.BootstrapToken != nil || c.Discovery.File != nil {
		warnings = append(warnings, "discovery is left out: "+adminKubeconfig+" of this machine already knows the cluster")
	}
	// The token stays what the kubelet introduces itself with, as it needs no administrator's rights.
	c.Discovery.BootstrapToken, c.Discovery.File = nil, &v1beta4.FileDiscovery{KubeConfigPath: adminKubeconfig}
	c.Discovery.TLSBootstrapToken = first(f.TLSBootstrapToken, f.Token, f.DiscoveryToken)
	return c, warnings, nil
}

func (f JoinFlags) discovery() v1beta4.Discovery {
	d := v1beta4.Discovery{TLSBootstrapToken: first(f.TLSBootstrapToken, f.Token)}
	if f.DiscoveryFile != "" {
		d.File = &v1beta4.FileDiscovery{KubeConfigPath: f.DiscoveryFile}
	}
	if f.Endpoint != "" {
		d.BootstrapToken = &v1beta4.BootstrapTokenDiscovery{
			Token:                    first(f.DiscoveryToken, f.Token),
			APIServerEndpoint:        f.Endpoint,
			CACertHashes:             slices.Clone(f.CACertHashes),
			UnsafeSkipCAVerification: f.UnsafeSkipCAVerification,
		}
	}
	return d
}

// unusedFlagWarnings warns of flags that only a control plane has a use for.
func (f JoinFlags) unusedFlagWarnings() (warnings []string) {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"certificate-key", f.CertificateKey != ""},
		{"apiserver-advertise-address", f.AdvertiseAddress != ""},
		{"replace-member", len(f.ReplaceMembers) > 0},
		{"apiserver-bind-port", f.BindPort != 0 && f.BindPort != v1beta4.DefaultBindPort},
	} {
		if flag.given {
			warnings = append(warnings, "--"+flag.name+" is not used without --control-plane")
		}
	}
	return warnings
}

// first is the first text that is not empty.
func first(texts ...string) string {
	i := slices.IndexFunc(texts, func(s string) bool { return s != "" })
	if i < 0 {
		return ""
	}
	return texts[i]
}
