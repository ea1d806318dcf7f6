package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

func checkNodeRegistration(at *field.Path, r *v1beta4.NodeRegistrationOptions,
	platform node.Platform) field.ErrorList {
	errs := slices.Concat(
		checkSubdomain(at.Child("name"), r.Name, "; the default is the host name of the machine"),
		checkSocket(at.Child("criSocket"), r.CRISocket, platform),
		checkArgNames(at.Child("kubeletExtraArgs"), r.KubeletExtraArgs),
		checkNodeIP(at.Child("kubeletExtraArgs"), r.KubeletExtraArgs),
	)
	for i, t := range r.Taints {
		at := at.Child("taints").Index(i)
		if len(validation.IsQualifiedName(t.Key)) > 0 {
			errs = append(errs, field.Invalid(at.Child("key"), t.Key,
				"must be a taint key such as example.org/dedicated"))
		}
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value,
				"must be at most 63 letters, digits, dashes, dots and underscores, and begin and end with a letter or digit"))
		}
		errs = append(errs, checkOneOf(at.Child("effect"), string(t.Effect),
			string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule),
			string(corev1.TaintEffectNoExecute))...)
	}
	return slices.Concat(errs,
		checkIgnoredErrors(at.Child("ignorePreflightErrors"), r.IgnorePreflightErrors),
		checkOneOf(at.Child("imagePullPolicy"), string(r.ImagePullPolicy),
			string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)),
	)
}

// checkNodeIP checks the addresses of the node. The kubelet ignores one that it cannot parse, and
// takes that of the default route instead.
func checkNodeIP(at *field.Path, args []v1beta4.Arg) (errs field.ErrorList) {
	for i, arg := range args {
		if arg.Name != "node-ip" || arg.Value == "" {
			continue
		}
		var is6 []bool
		isValid := true
		for _, text := range strings.Split(arg.Value, ",") {
			ip, err := netip.ParseAddr(strings.TrimSpace(text))
			isValid = isValid && err == nil
			is6 = append(is6, ip.Is6())
		}
		if !isValid || len(is6) > 2 || len(is6) == 2 && is6[0] == is6[1] {
			errs = append(errs, field.Invalid(at.Index(i).Child("value"), arg.Value,
				"node-ip must be an IP address, or an IPv4 and an IPv6 address separated by a comma"))
		}
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

func checkDiscovery(d *v1beta4.Discovery) (errs field.ErrorList) {
	at := field.NewPath("discovery")
	switch {
	case d.BootstrapToken == nil && d.File == nil:
		errs = append(errs, field.Required(at,
			"set bootstrapToken (kubeadm join HOST:PORT --token …) or file (--discovery-file)"))
	case d.BootstrapToken != nil && d.File != nil:
		errs = invalid(at, field.OmitValueType{},
			"bootstrapToken and file are mutually exclusive: set only one of them")
	}
	if d.BootstrapToken != nil {
		errs = append(errs, checkDiscoveryToken(at.Child("bootstrapToken"), d.BootstrapToken)...)
	}
	if d.File != nil {
		at := at.Child("file", "kubeConfigPath")
		text := d.File.KubeConfigPath
		u, err := url.Parse(text)
		switch {
		case text == "":
			errs = append(errs, field.Required(at, "set the path or https URL of a kubeconfig"))
		case !strings.Contains(text, "://"):
		case err != nil: // which repeats the text
			errs = append(errs, field.Invalid(at, field.OmitValueType{},
				"must be a path or an https URL"))
		case u.Scheme != "https" || u.Host == "":
			errs = append(errs, field.Invalid(at, u.Redacted(),
				"must be a path or an https URL: a file from another URL cannot be trusted"))
		}
	}
	// the same token is checked above
	if tls := d.TLSBootstrapToken; tls != "" &&
		(d.BootstrapToken == nil || d.BootstrapToken.Token != tls) {
		_, _, err := node.ParseToken(tls)
		errs = append(errs, invalidSecret(at.Child("tlsBootstrapToken"), err)...)
	}
	return errs
}

func checkDiscoveryToken(at *field.Path,
	t *v1beta4.BootstrapTokenDiscovery) (errs field.ErrorList) {
	_, _, err := node.ParseToken(t.Token)
	errs = append(errs, invalidSecret(at.Child("token"), err)...)
	host, port, err := net.SplitHostPort(t.APIServerEndpoint)
	wanted := "must be host:port of an API server"
	if strings.Count(t.APIServerEndpoint, ":") > 1 && !strings.Contains(t.APIServerEndpoint, "[") {
		wanted += "; put an IPv6 address in brackets, as in [2001:db8::1]:6443"
	}
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
