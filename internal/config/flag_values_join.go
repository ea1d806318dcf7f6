package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// JoinFlags are the flags of join.
type JoinFlags struct {
	Common
	Endpoint string // the argument, "host:port"; it is required for discovery by token
	// HasJoined is set for commands of a machine that has joined its cluster: they have no
	// discovery flags.
	HasJoined bool

	AdvertiseAddress         string   `flag:"apiserver-advertise-address"`
	BindPort                 int32    `flag:"apiserver-bind-port"`
	CertificateKey           string   `flag:"certificate-key"`
	ControlPlane             bool     `flag:"control-plane"`
	CRISocket                string   `flag:"cri-socket"`
	DiscoveryFile            string   `flag:"discovery-file"`
	DiscoveryToken           string   `flag:"discovery-token"`
	CACertHashes             []string `flag:"discovery-token-ca-cert-hash"`
	UnsafeSkipCAVerification bool     `flag:"discovery-token-unsafe-skip-ca-verification"`
	Patches                  string   `flag:"patches"`
	TLSBootstrapToken        string   `flag:"tls-bootstrap-token"`
	Token                    string   `flag:"token"`             // default of both tokens
	NodeAddressFrom          string   `flag:"node-address-from"` // allowed with a file too
	ReplaceMembers           []string `flag:"replace-member"`    // allowed with a file too
}

// NewJoinFlags are the default values of the flags of join.
func NewJoinFlags() JoinFlags { return JoinFlags{BindPort: v1beta4.DefaultBindPort} }

// document converts the flags to the document of a file. A control plane, or a machine that has
// joined its cluster, uses the AdminKubeconfig of the facts instead of discovery; it may be empty.
func (f JoinFlags) document(facts Facts) (c v1beta4.JoinConfiguration, warnings []string, err error) {
	adminKubeconfig := facts.AdminKubeconfig
	c = v1beta4.JoinConfiguration{
		NodeRegistration: v1beta4.NodeRegistrationOptions{CRISocket: f.CRISocket},
		Discovery: v1beta4.Discovery{
			TLSBootstrapToken: cmp.Or(f.TLSBootstrapToken, f.Token)},
		Patches: &v1beta4.Patches{Directory: f.Patches},
	}
	if f.DiscoveryFile != "" {
		c.Discovery.File = &v1beta4.FileDiscovery{KubeConfigPath: f.DiscoveryFile}
	}
	if f.Endpoint != "" {
		c.Discovery.BootstrapToken = &v1beta4.BootstrapTokenDiscovery{
			Token:                    cmp.Or(f.DiscoveryToken, f.Token),
			APIServerEndpoint:        f.Endpoint,
			CACertHashes:             slices.Clone(f.CACertHashes),
			UnsafeSkipCAVerification: f.UnsafeSkipCAVerification,
		}
	}
	if f.HasJoined && adminKubeconfig == "" && facts.Platform.IsWindows() {
		return c, nil, problem.New(errors.New("this phase needs the discovery settings of the join"),
			"set --config to a file with them")
	}
	if f.HasJoined && adminKubeconfig == "" {
		return c, nil, problem.New(fmt.Errorf("this phase needs %s, which does not exist",
			node.DefaultPaths().Kubeconfig("admin.conf")),
			"to create it on a new control plane node: kubeadm join phase control-plane-prepare kubeconfig",
			"or set --config to a file with the discovery settings, if the phase has this flag")
	}
	if f.ControlPlane {
		c.ControlPlane = &v1beta4.JoinControlPlane{
			LocalAPIEndpoint: v1beta4.APIEndpoint{AdvertiseAddress: f.AdvertiseAddress,
				BindPort: f.BindPort},
			CertificateKey: f.CertificateKey,
		}
	} else {
		warnings = f.unusedFlagWarnings()
	}
	if adminKubeconfig == "" || !f.ControlPlane && !f.HasJoined {
		return c, warnings, nil
	}
	if c.Discovery.BootstrapToken != nil || c.Discovery.File != nil {
		warnings = append(warnings, "discovery is skipped: this machine already has "+
			adminKubeconfig)
	}
	// The kubelet still uses the token for its TLS bootstrap, which does not need cluster-admin.
	c.Discovery.BootstrapToken, c.Discovery.File = nil,
		&v1beta4.FileDiscovery{KubeConfigPath: adminKubeconfig}
	c.Discovery.TLSBootstrapToken = cmp.Or(f.TLSBootstrapToken, f.Token, f.DiscoveryToken)
	return c, warnings, nil
}

// unusedFlagWarnings warns of flags that only have an effect on a control plane.
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
			warnings = append(warnings, "--"+flag.name+" has no effect without --control-plane")
		}
	}
	return warnings
}
