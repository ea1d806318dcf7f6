package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/release"
)

// Common are the flags that are allowed with --config.
type Common struct {
	NodeName              string   `flag:"node-name"`               // overrides the file
	DryRun                *bool    `flag:"dry-run"`                 // nil if not set, else it overrides the file
	IgnorePreflightErrors []string `flag:"ignore-preflight-errors"` // added to those of the file
	SkipPhases            []string `flag:"skip-phases"`             // overrides the file if not empty
	KubeconfigDir         string   `flag:"kubeconfig-dir"`          // empty for the default
}

// InitFlags are the flags of init. The tags name them.
type InitFlags struct {
	Common
	UploadCerts     bool   `flag:"upload-certs"`      // allowed with --config
	NodeAddressFrom string `flag:"node-address-from"` // allowed with --config

	AdvertiseAddress     string        `flag:"apiserver-advertise-address"`
	BindPort             int32         `flag:"apiserver-bind-port"`
	CertSANs             []string      `flag:"apiserver-cert-extra-sans"`
	CertificatesDir      string        `flag:"cert-dir"`
	CertificateKey       string        `flag:"certificate-key"`
	ControlPlaneEndpoint string        `flag:"control-plane-endpoint"`
	CRISocket            string        `flag:"cri-socket"`
	FeatureGates         string        `flag:"feature-gates"`
	ImageRepository      string        `flag:"image-repository"`
	KubernetesVersion    string        `flag:"kubernetes-version"`
	Patches              string        `flag:"patches"`
	PodSubnet            string        `flag:"pod-network-cidr"`
	ServiceSubnet        string        `flag:"service-cidr"`
	DNSDomain            string        `flag:"service-dns-domain"`
	Token                string        `flag:"token"`
	TokenTTL             time.Duration `flag:"token-ttl"`

	// deprecated
	APIServerArgs         map[string]string `flag:"apiserver-extra-args"`
	ControllerManagerArgs map[string]string `flag:"controller-manager-extra-args"`
	SchedulerArgs         map[string]string `flag:"scheduler-extra-args"`
}

// NewInitFlags are the defaults of the flags of init.
func NewInitFlags() InitFlags {
	return InitFlags{
		BindPort:          v1beta4.DefaultBindPort,
		CertificatesDir:   v1beta4.DefaultCertificatesDir,
		ImageRepository:   v1beta4.DefaultImageRepository,
		KubernetesVersion: v1beta4.DefaultKubernetesVersion,
		ServiceSubnet:     v1beta4.DefaultServiceSubnet,
		DNSDomain:         v1beta4.DefaultDNSDomain,
		TokenTTL:          v1beta4.DefaultTokenTTL,
	}
}

// addArgs adds the arguments of components after those of the configuration.
func (f InitFlags) addArgs(c *v1beta4.ClusterConfiguration) {
	add := func(to *[]v1beta4.Arg, args map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(args)) {
			*to = append(*to, v1beta4.Arg{Name: name, Value: args[name]})
		}
	}
	add(&c.APIServer.ExtraArgs, f.APIServerArgs)
	add(&c.ControllerManager.ExtraArgs, f.ControllerManagerArgs)
	add(&c.Scheduler.ExtraArgs, f.SchedulerArgs)
}

// documents are the configuration documents with the values of the flags.
func (f InitFlags) documents() (init v1beta4.InitConfiguration, cluster v1beta4.ClusterConfiguration, err error) {
	gates, err := release.ParseFeatureGates(f.FeatureGates)
	if err != nil {
		return init, cluster, fmt.Errorf("%s: --feature-gates: %w", File{}.source(), err)
	}
	init = v1beta4.InitConfiguration{
		BootstrapTokens: []v1beta4.BootstrapToken{{
			Token:       f.Token,
			TTL:         &metav1.Duration{Duration: f.TokenTTL},
			Description: "Created by kubeadm init for joining nodes",
		}},
		LocalAPIEndpoint: v1beta4.APIEndpoint{AdvertiseAddress: f.AdvertiseAddress,
			BindPort: f.BindPort},
		CertificateKey:   f.CertificateKey,
		NodeRegistration: v1beta4.NodeRegistrationOptions{CRISocket: f.CRISocket},
		Patches:          &v1beta4.Patches{Directory: f.Patches},
	}
	cluster = v1beta4.ClusterConfiguration{
		KubernetesVersion:    f.KubernetesVersion,
		ControlPlaneEndpoint: f.ControlPlaneEndpoint,
		Networking: v1beta4.Networking{PodSubnet: f.PodSubnet,
			ServiceSubnet: f.ServiceSubnet, DNSDomain: f.DNSDomain},
		APIServer:       v1beta4.APIServer{CertSANs: slices.Clone(f.CertSANs)},
		CertificatesDir: f.CertificatesDir,
		ImageRepository: f.ImageRepository,
		FeatureGates:    gates,
	}
	return init, cluster, nil
}

// TokenFlags are the flags of "token create".
type TokenFlags struct {
	UploadCerts bool `flag:"upload-certs"` // allowed with --config

	Token          string        // the argument; empty for a random token
	CertificateKey string        `flag:"certificate-key"`
	Description    string        `flag:"description"`
	TTL            time.Duration `flag:"ttl"`
	Usages         []string      `flag:"usages"`
	Groups         []string      `flag:"groups"`
}

// NewTokenFlags are the defaults of the flags of "token create".
func NewTokenFlags() TokenFlags {
	return TokenFlags{
		TTL:    v1beta4.DefaultTokenTTL,
		Usages: v1beta4.DefaultTokenUsages(),
		Groups: []string{v1beta4.DefaultTokenGroup},
	}
}

func (f TokenFlags) document() v1beta4.InitConfiguration {
	return v1beta4.InitConfiguration{CertificateKey: f.CertificateKey,
		BootstrapTokens: []v1beta4.BootstrapToken{{
			Token:       f.Token,
			Description: f.Description,
			TTL:         &metav1.Duration{Duration: f.TTL},
			Usages:      slices.Clone(f.Usages),
			Groups:      slices.Clone(f.Groups),
		}}}
}

// ResetFlags are the flags of reset.
type ResetFlags struct {
	Common
	CertificatesDir string `flag:"cert-dir"`
	CleanupTmpDir   bool   `flag:"cleanup-tmp-dir"`
	CRISocket       string `flag:"cri-socket"`
	Force           bool   `flag:"force"`

	// Allowed with --config, as ResetConfiguration has no such fields.
	Clean        []string      `flag:"clean"`
	LeaveCluster bool          `flag:"leave-cluster"`
	DrainTimeout time.Duration `flag:"drain-timeout"`
}

// DefaultDrainTimeout is how long the Pods of a node may take to leave it.
const DefaultDrainTimeout = 5 * time.Minute

// NewResetFlags are the defaults of the flags of reset.
func NewResetFlags() ResetFlags {
	return ResetFlags{CertificatesDir: v1beta4.DefaultCertificatesDir,
		DrainTimeout: DefaultDrainTimeout}
}

func (f ResetFlags) document() v1beta4.ResetConfiguration {
	return v1beta4.ResetConfiguration{
		CertificatesDir: f.CertificatesDir,
		CleanupTmpDir:   f.CleanupTmpDir,
		CRISocket:       f.CRISocket,
		Force:           f.Force,
	}
}
