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
	return apply(c, []rule[v1beta4.InitConfiguration]{
		func(c *v1beta4.InitConfiguration) field.ErrorList {
			return checkNodeRegistration(field.NewPath("nodeRegistration"), &c.NodeRegistration)
		},
		func(c *v1beta4.InitConfiguration) field.ErrorList {
			return checkAPIEndpoint(field.NewPath("localAPIEndpoint"), c.LocalAPIEndpoint)
		},
		func(c *v1beta4.InitConfiguration) field.ErrorList {
			return checkCertificateKey(field.NewPath("certificateKey"), c.CertificateKey)
		},
		checkTokens,
		func(c *v1beta4.InitConfiguration) field.ErrorList { return checkTimeouts(c.Timeouts) },
	})
}

func checkJoin(c *v1beta4.JoinConfiguration) field.ErrorList {
	return apply(c, []rule[v1beta4.JoinConfiguration]{
		func(c *v1beta4.JoinConfiguration) field.ErrorList {
			return checkNodeRegistration(field.NewPath("nodeRegistration"), &c.NodeRegistration)
		},
		func(c *v1beta4.JoinConfiguration) field.ErrorList {
			return caFile(field.NewPath("caCertPath"), c.CACertPath)
		},
		checkDiscoveryMethod,
		checkDiscoveryToken,
		checkDiscoveryFile,
		checkTLSBootstrapToken,
		func(c *v1beta4.JoinConfiguration) field.ErrorList {
			at := field.NewPath("controlPlane")
			if c.ControlPlane == nil {
				return nil
			}
			return append(checkAPIEndpoint(at.Child("localAPIEndpoint"), c.ControlPlane.LocalAPIEndpoint),
				checkCertificateKey(at.Child("certificateKey"), c.ControlPlane.CertificateKey)...)
		},
		func(c *v1beta4.JoinConfiguration) field.ErrorList { return checkTimeouts(c.Timeouts) },
	})
}

func checkReset(c *v1beta4.ResetConfiguration) field.ErrorList {
	return apply(c, []rule[v1beta4.ResetConfiguration]{
		func(c *v1beta4.ResetConfiguration) field.ErrorList {
			return expendable(field.NewPath("certificatesDir"), c.CertificatesDir)
		},
		func(c *v1beta4.ResetConfiguration) field.ErrorList {
			return checkSocket(field.NewPath("criSocket"), c.CRISocket)
		},
		func(c *v1beta4.ResetConfiguration) field.ErrorList {
			return checkIgnoredErrors(field.NewPath("ignorePreflightErrors"), c.IgnorePreflightErrors)
		},
		func(c *v1beta4.ResetConfiguration) (errs field.ErrorList) {
			for i, flag := range c.UnmountFlags {
				errs = append(errs, checkOneOf(field.NewPath("unmountFlags").Index(i), flag, node.UnmountFlags()...)...)
			}
			return errs
		},
		func(c *v1beta4.ResetConfiguration) field.ErrorList { return checkTimeouts(c.Timeouts) },
	})
}

// expendable asks whether a folder may be emptied.
func expendable(at *field.Path, value string) field.ErrorList {
	if node.OfSystem(value) {
		return invalid(at, value, "must be a directory of certificates alone: all that is in it is removed")
	}
	return checkAbsolutePath(at, value)
}

func checkNodeRegistration(at *field.Path, r *v1beta4.NodeRegistrationOptions) field.ErrorList {
	return slices.Concat(
		checkSubdomain(at.Child("name"), r.Name, "; it is the host name of the machine unless you name another"),
		checkSocket(at.Child("criSocket"), r.CRISocket),
		checkArgNames(at.Child("kubeletExtraArgs"), r.KubeletExtraArgs),
		checkTaints(at.Child("taints"), r.Taints),
		checkIgnoredErrors(at.Child("ignorePreflightErrors"), r.IgnorePreflightErrors),
		checkOneOf(at.Child("imagePullPolicy"), string(r.ImagePullPolicy),
			string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)),
	)
}

// checkTaints asks whether the API server would accept all.
func checkTaints(at *field.Path, list []corev1.Taint) (errs field.ErrorList) {
	for i, t := range list {
		if len(validation.IsQualifiedName(t.Key)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("key"), t.Key, "must be the key of a taint, such as example.org/dedicated"))
		}
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("value"), t.Value, "must be letters, digits, dashes, dots and underscores, at most 63, and begin and end with a letter or digit"))
		}
		errs = append(errs, checkOneOf(at.Index(i).Child("effect"), string(t.Effect),
			string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute))...)
	}
	return errs
}

// checkSocket is socket, but silent where a fault while filling in has been reported.
func checkSocket(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	return checkSocketURL(at, value)
}

func checkCertificateKey(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	_, err := pki.ParseCertificateKey(value)
	return invalidSecret(at, err)
}

func caFile(at *field.Path, value string) field.ErrorList {
	if path.IsAbs(value) && strings.HasSuffix(value, ".crt") {
		return nil
	}
	return invalid(at, value, "must be an absolute path that ends in .crt")
}

func checkDiscoveryMethod(c *v1beta4.JoinConfiguration) field.ErrorList {
	at := field.NewPath("discovery")
	switch {
	case c.Discovery.BootstrapToken == nil && c.Discovery.File == nil:
		return field.ErrorList{field.Required(at,
			"say how to find the cluster: by bootstrapToken (kubeadm join HOST:PORT --token …) or by file (--discovery-file)")}
	case c.Discovery.BootstrapToken != nil && c.Discovery.File != nil:
		return invalid(at, field.OmitValueType{}, "bootstrapToken and file exclude each other: the cluster is found in one way")
	}
	return nil
}

func checkDiscoveryToken(c *v1beta4.JoinConfiguration) (errs field.ErrorList) {
	t := c.Discovery.BootstrapToken
	if t == nil {
		return nil
	}
	at := field.NewPath("discovery", "bootstrapToken")
	_, _, err := node.ParseToken(t.Token)
	errs = append(errs, invalidSecret(at.Child("token"), err)...)
	errs = append(errs, checkServer(at.Child("apiServerEndpoint"), t.APIServerEndpoint)...)
	if len(t.CACertHashes) == 0 && !t.UnsafeSkipCAVerification {
		errs = append(errs, field.Required(at.Child("caCertHashes"),
			"give the hash of the cluster's CA, which \"kubeadm token create --print-join-command\" prints; unsafeSkipCAVerification (--discovery-token-unsafe-skip-ca-verification) goes without, and then whoever knows the token can pose as the cluster"))
	}
	for i, hash := range t.CACertHashes {
		if _, err := pki.ParsePin(hash); err != nil {
			errs = append(errs, field.Invalid(at.Child("caCertHashes").Index(i), hash, err.Error()))
		}
	}
	return errs
}

func checkServer(at *field.Path, value string) field.ErrorList {
	host, number, err := net.SplitHostPort(value)
	if err != nil || host == "" || number == "" {
		return invalid(at, value, "must be host:port of an API server")
	}
	if err := checkPortText(number); err != nil {
		return invalid(at, value, "must be host:port of an API server: "+err.Error())
	}
	return nil
}

func checkDiscoveryFile(c *v1beta4.JoinConfiguration) field.ErrorList {
	f := c.Discovery.File
	if f == nil {
		return nil
	}
	at := field.NewPath("discovery", "file", "kubeConfigPath")
	u, err := url.Parse(f.KubeConfigPath)
	switch {
	case f.KubeConfigPath == "":
		return field.ErrorList{field.Required(at, "name a kubeconfig, as a path or an https URL")}
	case !strings.Contains(f.KubeConfigPath, "://"):
		return nil
	case err != nil: // which repeats the text
		return invalid(at, field.OmitValueType{}, "must be a path or an https URL")
	case u.Scheme != "https" || u.Host == "":
		return invalid(at, u.Redacted(), "must be a path or an https URL: nobody vouches for what comes over plain http")
	}
	return nil
}

// checkTLSBootstrapToken is silent where the token is that of the discovery, which has a rule of its own.
func checkTLSBootstrapToken(c *v1beta4.JoinConfiguration) field.ErrorList {
	token := c.Discovery.TLSBootstrapToken
	if token == "" || c.Discovery.BootstrapToken != nil && c.Discovery.BootstrapToken.Token == token {
		return nil
	}
	_, _, err := node.ParseToken(token)
	return invalidSecret(field.NewPath("discovery", "tlsBootstrapToken"), err)
}
