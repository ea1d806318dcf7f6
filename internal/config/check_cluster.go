package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
)

func checkCluster(c *v1beta4.ClusterConfiguration, platform node.Platform) field.ErrorList {
	errs := append(checkEtcd(c), checkNetworking(c)...)
	endpoint := c.ControlPlaneEndpoint
	if _, _, err := splitEndpoint(endpoint); endpoint != "" && err != nil {
		errs = append(errs, field.Invalid(field.NewPath("controlPlaneEndpoint"), endpoint,
			"must be host or host:port: "+err.Error()))
	}
	errs = slices.Concat(errs,
		checkSANs(field.NewPath("apiServer", "certSANs"), c.APIServer.CertSANs),
		checkArgNames(field.NewPath("apiServer", "extraArgs"), c.APIServer.ExtraArgs),
		checkArgNames(field.NewPath("controllerManager", "extraArgs"),
			c.ControllerManager.ExtraArgs),
		checkArgNames(field.NewPath("scheduler", "extraArgs"), c.Scheduler.ExtraArgs),
		checkRepository(field.NewPath("imageRepository"), c.ImageRepository),
		checkImage(field.NewPath("dns"), c.DNS.ImageMeta),
	)
	if c.Etcd.Local != nil {
		errs = append(errs, checkImage(field.NewPath("etcd", "local"), c.Etcd.Local.ImageMeta)...)
	}
	if !platform.IsAbs(c.CertificatesDir) {
		errs = append(errs, checkAbsolutePath(field.NewPath("certificatesDir"), c.CertificatesDir)...)
	}
	for _, err := range release.CheckFeatureGates(c.FeatureGates) {
		errs = append(errs, invalidSecret(field.NewPath("featureGates"), err)...)
	}
	if _, err := pki.ParseAlgorithm(c.EncryptionAlgorithm); err != nil {
		errs = append(errs, invalid(field.NewPath("encryptionAlgorithm"), c.EncryptionAlgorithm,
			err.Error())...)
	}
	for _, period := range []struct {
		field string
		d     time.Duration
	}{
		{"certificateValidityPeriod", durationOf(c.CertificateValidityPeriod)},
		{"caCertificateValidityPeriod", durationOf(c.CACertificateValidityPeriod)},
	} {
		if least := time.Minute; period.d < least {
			errs = append(errs, field.Invalid(field.NewPath(period.field), period.d.String(),
				"must be at least "+least.String()))
		}
	}
	return errs
}

// warnAboutCluster warns of settings that are allowed but not recommended.
func warnAboutCluster(c *v1beta4.ClusterConfiguration) (warnings []string) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf(format, args...))
	}
	leaf, ca := durationOf(c.CertificateValidityPeriod), durationOf(c.CACertificateValidityPeriod)
	if leaf > v1beta4.DefaultCertValidity {
		warn("certificateValidityPeriod %s is longer than %s: a stolen key could be used for all that time",
			leaf, v1beta4.DefaultCertValidity)
	}
	if leaf > ca {
		warn("certificateValidityPeriod %s is longer than caCertificateValidityPeriod %s: "+
			"certificates expire along with their CA", leaf, ca)
	}
	if ca > v1beta4.DefaultCAValidity {
		warn("caCertificateValidityPeriod %s is longer than %s", ca, v1beta4.DefaultCAValidity)
	}
	siteLocal := netip.MustParsePrefix("fec0::/10")
	for text := range strings.SplitSeq(c.Networking.ServiceSubnet+","+c.Networking.PodSubnet, ",") {
		if s, err := netip.ParsePrefix(text); err == nil && s.Overlaps(siteLocal) {
			warn("subnet %s overlaps the site-local addresses fec0::/10, which RFC 3879 deprecates",
				text)
		}
	}
	for _, pair := range findOverlaps(c.Networking.ServiceSubnet, c.Networking.PodSubnet) {
		warn("serviceSubnet and podSubnet overlap: %s: a Pod may get the address of a Service",
			pair)
	}
	return warnings
}

// repositoryForm is the name of an image without tag according to the OCI distribution
// specification, with an optional registry host and port.
var repositoryForm = regexp.MustCompile(
	`^(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?` +
		`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)

// tagForm is a tag in the same grammar, which a digest may follow.
var tagForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(?:@sha256:[0-9a-f]{64}|@sha512:[0-9a-f]{128})?$`)

func checkImage(at *field.Path, m v1beta4.ImageMeta) (errs field.ErrorList) {
	if m.ImageRepository != "" {
		errs = checkRepository(at.Child("imageRepository"), m.ImageRepository)
	}
	if m.ImageTag != "" && !tagForm.MatchString(m.ImageTag) {
		errs = append(errs, field.Invalid(at.Child("imageTag"), m.ImageTag,
			"must be an image tag such as v1.2.3, which a digest may follow: v1.2.3@sha256:…"))
	}
	return errs
}

func checkRepository(at *field.Path, value string) field.ErrorList {
	if repositoryForm.MatchString(value + "/name") {
		return nil
	}
	return invalid(at, value,
		"must be a registry and a path, such as registry.example:5000/kubernetes, without scheme and tag")
}

func checkEtcd(c *v1beta4.ClusterConfiguration) (errs field.ErrorList) {
	at := field.NewPath("etcd")
	local, e := c.Etcd.Local, c.Etcd.External
	switch {
	case local != nil && e != nil:
		return invalid(at, field.OmitValueType{},
			"local and external are mutually exclusive: set only one of them")
	case local != nil:
		at = at.Child("local")
		return slices.Concat(
			checkAbsolutePath(at.Child("dataDir"), local.DataDir),
			checkArgNames(at.Child("extraArgs"), local.ExtraArgs),
			checkSANs(at.Child("serverCertSANs"), local.ServerCertSANs),
			checkSANs(at.Child("peerCertSANs"), local.PeerCertSANs),
		)
	}
	at = at.Child("external")
	if len(e.Endpoints) == 0 {
		errs = append(errs, field.Required(at.Child("endpoints"),
			"set at least one client URL of the etcd cluster"))
	}
	secure := e.CAFile != "" || e.CertFile != "" || e.KeyFile != ""
	errs = append(errs, checkURLs(at.Child("endpoints"), e.Endpoints, secure)...)
	errs = append(errs, checkURLs(at.Child("httpEndpoints"), e.HTTPEndpoints, false)...)
	for _, f := range []struct{ name, value string }{{"caFile", e.CAFile}, {"certFile", e.CertFile},
		{"keyFile", e.KeyFile}} {
		if f.value != "" {
			errs = append(errs, checkAbsolutePath(at.Child(f.name), f.value)...)
		}
	}
	switch {
	case e.CertFile == "" && e.KeyFile != "":
		errs = append(errs, field.Required(at.Child("certFile"),
			"certFile and keyFile must be set together"))
	case e.CertFile != "" && e.KeyFile == "":
		errs = append(errs, field.Required(at.Child("keyFile"),
			"certFile and keyFile must be set together"))
	case e.CertFile != "" && e.CAFile == "":
		errs = append(errs, field.Required(at.Child("caFile"), "must be set if certFile is set"))
	}
	return errs
}
