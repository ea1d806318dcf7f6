package v1beta4

import (
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What stands where the user says nothing.
const (
	DefaultBindPort          = 6443
	DefaultTokenTTL          = 24 * time.Hour
	DefaultTokenGroup        = "system:bootstrappers:kubeadm:default-node-token"
	DefaultKubernetesVersion = "stable-1"
	DefaultServiceSubnet     = "10.96.0.0/12"
	DefaultDNSDomain         = "cluster.local"
	DefaultCertificatesDir   = "/etc/kubernetes/pki"
	DefaultCACertPath        = "/etc/kubernetes/pki/ca.crt"
	DefaultImageRepository   = "registry.k8s.io"
	DefaultClusterName       = "kubernetes"
	DefaultAlgorithm         = "RSA-2048"
	DefaultEtcdDataDir       = "/var/lib/etcd"
	DefaultCertValidity      = 365 * 24 * time.Hour
	DefaultCAValidity        = 10 * DefaultCertValidity
)

// DefaultTokenUsages are what a bootstrap token is good for.
func DefaultTokenUsages() []string { return []string{"signing", "authentication"} }

// Default fills in what the user left out. A token that is left out stays so.
func (c *InitConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindInit}
	if len(c.BootstrapTokens) == 0 {
		c.BootstrapTokens = []BootstrapToken{{}}
	}
	for i := range c.BootstrapTokens {
		c.BootstrapTokens[i].Default()
	}
	c.NodeRegistration.defaults()
	c.LocalAPIEndpoint.defaults()
	defaultTimeouts(&c.Timeouts)
}

// Default fills in what the user left out, except the token itself.
func (t *BootstrapToken) Default() {
	if t.TTL == nil && t.Expires == nil {
		t.TTL = &metav1.Duration{Duration: DefaultTokenTTL}
	}
	fallback(&t.Usages, DefaultTokenUsages())
	fallback(&t.Groups, []string{DefaultTokenGroup})
}

// Default fills in what the user left out.
func (c *ClusterConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindCluster}
	or(&c.KubernetesVersion, DefaultKubernetesVersion)
	or(&c.Networking.ServiceSubnet, DefaultServiceSubnet)
	or(&c.Networking.DNSDomain, DefaultDNSDomain)
	or(&c.CertificatesDir, DefaultCertificatesDir)
	or(&c.ImageRepository, DefaultImageRepository)
	or(&c.ClusterName, DefaultClusterName)
	or(&c.EncryptionAlgorithm, DefaultAlgorithm)
	orPointer(&c.CertificateValidityPeriod, metav1.Duration{Duration: DefaultCertValidity})
	orPointer(&c.CACertificateValidityPeriod, metav1.Duration{Duration: DefaultCAValidity})
	for _, component := range []*ControlPlaneComponent{&c.APIServer.ControlPlaneComponent, &c.ControllerManager, &c.Scheduler} {
		defaultEnvs(component.ExtraEnvs)
	}
	c.Etcd.defaults()
}

func (e *Etcd) defaults() {
	if e.Local == nil && e.External == nil {
		e.Local = &LocalEtcd{}
	}
	if e.Local != nil {
		or(&e.Local.DataDir, DefaultEtcdDataDir)
		defaultEnvs(e.Local.ExtraEnvs)
	}
	if e.External != nil {
		fallback(&e.External.HTTPEndpoints, slices.Clone(e.External.Endpoints))
	}
}

// Default fills in what the user left out.
func (c *JoinConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindJoin}
	or(&c.CACertPath, DefaultCACertPath)
	if c.ControlPlane != nil {
		c.ControlPlane.LocalAPIEndpoint.defaults()
	}
	c.NodeRegistration.defaults()
	c.Discovery.defaults()
	defaultTimeouts(&c.Timeouts)
}

func (d *Discovery) defaults() {
	if d.BootstrapToken != nil {
		or(&d.TLSBootstrapToken, d.BootstrapToken.Token)
	}
	if d.File == nil {
		return
	}
	if u, err := url.Parse(d.File.KubeConfigPath); err == nil && u.Scheme == "file" {
		d.File.KubeConfigPath = u.Path
	}
}

// Default fills in what the user left out.
func (c *ResetConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindReset}
	or(&c.CertificatesDir, DefaultCertificatesDir)
	defaultTimeouts(&c.Timeouts)
}

// Default fills in what the user left out.
func (c *UpgradeConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindUpgrade}
	for _, checks := range []*UpgradeChecks{&c.Apply.UpgradeChecks, &c.Node.UpgradeChecks, &c.Plan.UpgradeChecks} {
		orPointer(&checks.EtcdUpgrade, true)
	}
	for _, steps := range []*UpgradeSteps{&c.Apply.UpgradeSteps, &c.Node.UpgradeSteps} {
		orPointer(&steps.CertificateRenewal, true)
		or(&steps.ImagePullPolicy, corev1.PullIfNotPresent)
		orPointer(&steps.ImagePullSerial, true)
	}
	defaultTimeouts(&c.Timeouts)
}

func (e *APIEndpoint) defaults() { or(&e.BindPort, DefaultBindPort) }

func (n *NodeRegistrationOptions) defaults() {
	or(&n.ImagePullPolicy, corev1.PullIfNotPresent)
	orPointer(&n.ImagePullSerial, true)
}

func defaultTimeouts(t **Timeouts) {
	orPointer(t, Timeouts{})
	for field, length := range map[**metav1.Duration]time.Duration{
		&(*t).ControlPlaneComponentHealthCheck: 4 * time.Minute,
		&(*t).KubeletHealthCheck:               4 * time.Minute,
		&(*t).KubernetesAPICall:                time.Minute,
		&(*t).EtcdAPICall:                      2 * time.Minute,
		&(*t).TLSBootstrap:                     5 * time.Minute,
		&(*t).Discovery:                        5 * time.Minute,
		&(*t).UpgradeManifests:                 5 * time.Minute,
	} {
		orPointer(field, metav1.Duration{Duration: length})
	}
}

func defaultEnvs(envs []EnvVar) {
	for _, e := range envs {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			or(&e.ValueFrom.FieldRef.APIVersion, "v1")
		}
	}
}

// or sets the field to the value if it is empty.
func or[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

func orPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func fallback(list *[]string, value []string) {
	if len(*list) == 0 {
		*list = value
	}
}
