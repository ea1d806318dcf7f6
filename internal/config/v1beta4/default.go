package v1beta4

import (
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults.
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

// DefaultTokenUsages are the default usages of a bootstrap token.
func DefaultTokenUsages() []string { return []string{"signing", "authentication"} }

// Default sets the defaults of empty fields. A token remains empty.
func (c *InitConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindInit}
	if len(c.BootstrapTokens) == 0 {
		c.BootstrapTokens = []BootstrapToken{{}}
	}
	for i := range c.BootstrapTokens {
		t := &c.BootstrapTokens[i]
		if t.TTL == nil && t.Expires == nil {
			t.TTL = &metav1.Duration{Duration: DefaultTokenTTL}
		}
		setDefaultList(&t.Usages, DefaultTokenUsages())
		setDefaultList(&t.Groups, []string{DefaultTokenGroup})
	}
	c.NodeRegistration.setDefaults()
	setDefault(&c.LocalAPIEndpoint.BindPort, DefaultBindPort)
	setTimeoutDefaults(&c.Timeouts)
}

// Default sets the defaults of empty fields.
func (c *ClusterConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindCluster}
	setDefault(&c.KubernetesVersion, DefaultKubernetesVersion)
	setDefault(&c.Networking.ServiceSubnet, DefaultServiceSubnet)
	setDefault(&c.Networking.DNSDomain, DefaultDNSDomain)
	setDefault(&c.CertificatesDir, DefaultCertificatesDir)
	setDefault(&c.ImageRepository, DefaultImageRepository)
	setDefault(&c.ClusterName, DefaultClusterName)
	setDefault(&c.EncryptionAlgorithm, DefaultAlgorithm)
	setDefaultPointer(&c.CertificateValidityPeriod, metav1.Duration{Duration: DefaultCertValidity})
	setDefaultPointer(&c.CACertificateValidityPeriod, metav1.Duration{Duration: DefaultCAValidity})
	for _, component := range []*ControlPlaneComponent{&c.APIServer.ControlPlaneComponent,
		&c.ControllerManager, &c.Scheduler} {
		setEnvDefaults(component.ExtraEnvs)
	}
	if c.Etcd.Local == nil && c.Etcd.External == nil {
		c.Etcd.Local = &LocalEtcd{}
	}
	if local := c.Etcd.Local; local != nil {
		setDefault(&local.DataDir, DefaultEtcdDataDir)
		setEnvDefaults(local.ExtraEnvs)
	}
	if external := c.Etcd.External; external != nil {
		setDefaultList(&external.HTTPEndpoints, slices.Clone(external.Endpoints))
	}
}

// Default sets the defaults of empty fields.
func (c *JoinConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindJoin}
	setDefault(&c.CACertPath, DefaultCACertPath)
	if c.ControlPlane != nil {
		setDefault(&c.ControlPlane.LocalAPIEndpoint.BindPort, DefaultBindPort)
	}
	c.NodeRegistration.setDefaults()
	if token := c.Discovery.BootstrapToken; token != nil {
		setDefault(&c.Discovery.TLSBootstrapToken, token.Token)
	}
	if file := c.Discovery.File; file != nil {
		if u, err := url.Parse(file.KubeConfigPath); err == nil && u.Scheme == "file" {
			file.KubeConfigPath = u.Path
		}
	}
	setTimeoutDefaults(&c.Timeouts)
}

// Default sets the defaults of empty fields.
func (c *ResetConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindReset}
	setDefault(&c.CertificatesDir, DefaultCertificatesDir)
	setTimeoutDefaults(&c.Timeouts)
}

// Default sets the defaults of empty fields.
func (c *UpgradeConfiguration) Default() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindUpgrade}
	for _, checks := range []*UpgradeChecks{&c.Apply.UpgradeChecks, &c.Node.UpgradeChecks,
		&c.Plan.UpgradeChecks} {
		setDefaultPointer(&checks.EtcdUpgrade, true)
	}
	for _, steps := range []*UpgradeSteps{&c.Apply.UpgradeSteps, &c.Node.UpgradeSteps} {
		setDefaultPointer(&steps.CertificateRenewal, true)
		setDefault(&steps.ImagePullPolicy, corev1.PullIfNotPresent)
		setDefaultPointer(&steps.ImagePullSerial, true)
	}
	setTimeoutDefaults(&c.Timeouts)
}

func (n *NodeRegistrationOptions) setDefaults() {
	setDefault(&n.ImagePullPolicy, corev1.PullIfNotPresent)
	setDefaultPointer(&n.ImagePullSerial, true)
}

func setTimeoutDefaults(t **Timeouts) {
	setDefaultPointer(t, Timeouts{})
	for field, length := range map[**metav1.Duration]time.Duration{
		&(*t).ControlPlaneComponentHealthCheck: 4 * time.Minute,
		&(*t).KubeletHealthCheck:               4 * time.Minute,
		&(*t).KubernetesAPICall:                time.Minute,
		&(*t).EtcdAPICall:                      2 * time.Minute,
		&(*t).TLSBootstrap:                     5 * time.Minute,
		&(*t).Discovery:                        5 * time.Minute,
		&(*t).UpgradeManifests:                 5 * time.Minute,
	} {
		setDefaultPointer(field, metav1.Duration{Duration: length})
	}
}

func setEnvDefaults(envs []EnvVar) {
	for _, e := range envs {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			setDefault(&e.ValueFrom.FieldRef.APIVersion, "v1")
		}
	}
}

// setDefault sets the field to the value if it is empty.
func setDefault[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDefaultList(list *[]string, value []string) {
	if len(*list) == 0 {
		*list = value
	}
}
