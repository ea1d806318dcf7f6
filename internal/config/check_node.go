package config

import (
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

func checkInit(c *v1beta4.InitConfiguration) field.ErrorList {
	return slices.Concat(
		checkNodeRegistration(field.NewPath("nodeRegistration"), &c.NodeRegistration),
		checkAPIEndpoint(field.NewPath("localAPIEndpoint"), c.LocalAPIEndpoint),
		checkCertificateKey(field.NewPath("certificateKey"), c.CertificateKey),
		checkTokens(c),
		checkTimeouts(c.Timeouts),
	)
}

func checkJoin(c *v1beta4.JoinConfiguration) field.ErrorList {
	errs := checkNodeRegistration(field.NewPath("nodeRegistration"), &c.NodeRegistration)
	if !path.IsAbs(c.CACertPath) || !strings.HasSuffix(c.CACertPath, ".crt") {
		errs = append(errs, invalid(field.NewPath("caCertPath"), c.CACertPath,
			"must be an absolute path that ends in .crt")...)
	}
	errs = slices.Concat(errs,
		checkDiscoveryMethod(&c.Discovery),
		checkDiscoveryToken(c.Discovery.BootstrapToken),
		checkDiscoveryFile(c.Discovery.File),
	)
	token := c.Discovery.BootstrapToken
	// else it is checked above
	if tls := c.Discovery.TLSBootstrapToken; tls != "" && (token == nil || token.Token != tls) {
		_, _, err := node.ParseToken(tls)
		errs = append(errs, invalidSecret(field.NewPath("discovery", "tlsBootstrapToken"), err)...)
	}
	if c.ControlPlane != nil {
		at := field.NewPath("controlPlane")
		errs = append(errs, checkAPIEndpoint(at.Child("localAPIEndpoint"),
			c.ControlPlane.LocalAPIEndpoint)...)
		errs = append(errs, checkCertificateKey(at.Child("certificateKey"),
			c.ControlPlane.CertificateKey)...)
	}
	return append(errs, checkTimeouts(c.Timeouts)...)
}

func checkReset(c *v1beta4.ResetConfiguration) field.ErrorList {
	dir := field.NewPath("certificatesDir")
	errs := checkAbsolutePath(dir, c.CertificatesDir)
	if node.IsSystemDir(c.CertificatesDir) {
		errs = invalid(dir, c.CertificatesDir,
			"must be a directory that contains only certificates: everything in it is removed")
	}
	errs = slices.Concat(errs,
		checkSocket(field.NewPath("criSocket"), c.CRISocket),
		checkIgnoredErrors(field.NewPath("ignorePreflightErrors"), c.IgnorePreflightErrors),
	)
	for i, flag := range c.UnmountFlags {
		errs = append(errs, checkOneOf(field.NewPath("unmountFlags").Index(i), flag,
			node.UnmountFlags()...)...)
	}
	return append(errs, checkTimeouts(c.Timeouts)...)
}

func checkNodeRegistration(at *field.Path, r *v1beta4.NodeRegistrationOptions) field.ErrorList {
	return slices.Concat(
		checkSubdomain(at.Child("name"), r.Name, "; the default is the host name of the machine"),
		checkSocket(at.Child("criSocket"), r.CRISocket),
		checkArgNames(at.Child("kubeletExtraArgs"), r.KubeletExtraArgs),
		checkTaints(at.Child("taints"), r.Taints),
		checkIgnoredErrors(at.Child("ignorePreflightErrors"), r.IgnorePreflightErrors),
		checkOneOf(at.Child("imagePullPolicy"), string(r.ImagePullPolicy),
			string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)),
	)
}

// checkTaints checks that the API server accepts all taints.
func checkTaints(at *field.Path, list []corev1.Taint) (errs field.ErrorList) {
	for i, t := range list {
		if len(validation.IsQualifiedName(t.Key)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("key"), t.Key,
				"must be a taint key such as example.org/dedicated"))
		}
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("value"), t.Value,
				"must be at most 63 letters, digits, dashes, dots and underscores, and begin and end with a letter or digit"))
		}
		errs = append(errs, checkOneOf(at.Index(i).Child("effect"), string(t.Effect),
			string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule),
			string(corev1.TaintEffectNoExecute))...)
	}
	return errs
}

func checkCertificateKey(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	_, err := pki.ParseCertificateKey(value)
	return invalidSecret(at, err)
}

func checkDiscoveryMethod(d *v1beta4.Discovery) field.ErrorList {
	at := field.NewPath("discovery")
	switch {
	case d.BootstrapToken == nil && d.File == nil:
		return field.ErrorList{field.Required(at,
			"set bootstrapToken (kubeadm join HOST:PORT --token …) or file (--discovery-file)")}
	case d.BootstrapToken != nil && d.File != nil:
		return invalid(at, field.OmitValueType{},
			"bootstrapToken and file are mutually exclusive: set only one of them")
	}
	return nil
}

func checkDiscoveryToken(t *v1beta4.BootstrapTokenDiscovery) (errs field.ErrorList) {
	if t == nil {
		return nil
	}
	at := field.NewPath("discovery", "bootstrapToken")
	_, _, err := node.ParseToken(t.Token)
	errs = append(errs, invalidSecret(at.Child("token"), err)...)
	host, port, err := net.SplitHostPort(t.APIServerEndpoint)
	const wanted = "must be host:port of an API server"
	if err != nil || host == "" || port == "" {
		errs = append(errs, field.Invalid(at.Child("apiServerEndpoint"), t.APIServerEndpoint,
			wanted))
	} else if err := checkPortText(port); err != nil {
		errs = append(errs, field.Invalid(at.Child("apiServerEndpoint"), t.APIServerEndpoint,
			wanted+": "+err.Error()))
	}
	if len(t.CACertHashes) == 0 && !t.UnsafeSkipCAVerification {
		errs = append(errs, field.Required(at.Child("caCertHashes"),
			"set the hash of the cluster CA, which \"kubeadm token create --print-join-command\" prints; "+
				"unsafeSkipCAVerification (--discovery-token-unsafe-skip-ca-verification) skips the check, "+
				"and then anyone with the token can impersonate the cluster"))
	}
	for i, hash := range t.CACertHashes {
		if _, err := pki.ParsePin(hash); err != nil {
			errs = append(errs, field.Invalid(at.Child("caCertHashes").Index(i), hash, err.Error()))
		}
	}
	return errs
}

func checkDiscoveryFile(f *v1beta4.FileDiscovery) field.ErrorList {
	if f == nil {
		return nil
	}
	at := field.NewPath("discovery", "file", "kubeConfigPath")
	u, err := url.Parse(f.KubeConfigPath)
	switch {
	case f.KubeConfigPath == "":
		return field.ErrorList{field.Required(at, "set the path or https URL of a kubeconfig")}
	case !strings.Contains(f.KubeConfigPath, "://"):
		return nil
	case err != nil: // which repeats the text
		return invalid(at, field.OmitValueType{}, "must be a path or an https URL")
	case u.Scheme != "https" || u.Host == "":
		return invalid(at, u.Redacted(),
			"must be a path or an https URL: a file from another URL cannot be trusted")
	}
	return nil
}
