package config

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
)

func checkCluster(c *v1beta4.ClusterConfiguration) field.ErrorList {
	return apply(c, []rule[v1beta4.ClusterConfiguration]{
		checkEtcd,
		checkNetworking,
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return checkControlPlaneEndpoint(field.NewPath("controlPlaneEndpoint"), c.ControlPlaneEndpoint)
		},
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return checkSANs(field.NewPath("apiServer", "certSANs"), c.APIServer.CertSANs)
		},
		checkArgs,
		checkImages,
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return checkAbsolutePath(field.NewPath("certificatesDir"), c.CertificatesDir)
		},
		checkFeatureGates,
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			if _, err := pki.ParseAlgorithm(c.EncryptionAlgorithm); err != nil {
				return invalid(field.NewPath("encryptionAlgorithm"), c.EncryptionAlgorithm, err.Error())
			}
			return nil
		},
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return append(checkValidityPeriod(field.NewPath("certificateValidityPeriod"), c.CertificateValidityPeriod),
				checkValidityPeriod(field.NewPath("caCertificateValidityPeriod"), c.CACertificateValidityPeriod)...)
		},
	})
}

// warnAboutCluster warns of what is allowed but seldom wise.
func warnAboutCluster(c *v1beta4.ClusterConfiguration) (warnings []string) {
	leaf, ca := durationOf(c.CertificateValidityPeriod), durationOf(c.CACertificateValidityPeriod)
	if leaf > v1beta4.DefaultCertValidity {
		warnings = append(warnings, fmt.Sprintf("certificateValidityPeriod %s is longer than %s: a stolen key stays useful all that time", leaf, v1beta4.DefaultCertValidity))
	}
	if leaf > ca {
		warnings = append(warnings, fmt.Sprintf("certificateValidityPeriod %s is longer than that of the CAs, %s: certificates end with their CA", leaf, ca))
	}
	if ca > v1beta4.DefaultCAValidity {
		warnings = append(warnings, fmt.Sprintf("caCertificateValidityPeriod %s is longer than %s", ca, v1beta4.DefaultCAValidity))
	}
	for _, name := range findSiteLocal(c.Networking.ServiceSubnet, c.Networking.PodSubnet) {
		warnings = append(warnings, fmt.Sprintf("subnet %s reaches into the site-local addresses fec0::/10, which RFC 3879 has given up", name))
	}
	for _, pair := range findOverlaps(c.Networking.ServiceSubnet, c.Networking.PodSubnet) {
		warnings = append(warnings, fmt.Sprintf("serviceSubnet and podSubnet overlap: %s: a Pod may get the address of a Service", pair))
	}
	return warnings
}

func checkControlPlaneEndpoint(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	if _, _, err := splitEndpoint(value); err != nil {
		return invalid(at, value, "must be host or host:port: "+err.Error())
	}
	return nil
}

func checkArgs(c *v1beta4.ClusterConfiguration) field.ErrorList {
	return slices.Concat(
		checkArgNames(field.NewPath("apiServer", "extraArgs"), c.APIServer.ExtraArgs),
		checkArgNames(field.NewPath("controllerManager", "extraArgs"), c.ControllerManager.ExtraArgs),
		checkArgNames(field.NewPath("scheduler", "extraArgs"), c.Scheduler.ExtraArgs),
	)
}

func checkFeatureGates(c *v1beta4.ClusterConfiguration) (errs field.ErrorList) {
	for _, err := range release.UnknownGates(c.FeatureGates) {
		errs = append(errs, invalid(field.NewPath("featureGates"), field.OmitValueType{}, err.Error())...)
	}
	return errs
}

func checkValidityPeriod(at *field.Path, d *metav1.Duration) field.ErrorList {
	if least := time.Minute; durationOf(d) < least {
		return invalid(at, durationOf(d).String(), "must be at least "+least.String())
	}
	return nil
}

// repositoryForm is the name of an image without tag in the grammar of the OCI
// distribution specification, a registry's host and port before it.
var repositoryForm = regexp.MustCompile(`^(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)

// tagForm is a tag in the same grammar.
var tagForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func checkImages(c *v1beta4.ClusterConfiguration) field.ErrorList {
	errs := slices.Concat(
		checkRepository(field.NewPath("imageRepository"), c.ImageRepository),
		checkImage(field.NewPath("dns"), c.DNS.ImageMeta),
	)
	if c.Etcd.Local != nil {
		errs = append(errs, checkImage(field.NewPath("etcd", "local"), c.Etcd.Local.ImageMeta)...)
	}
	return errs
}

func checkImage(at *field.Path, m v1beta4.ImageMeta) (errs field.ErrorList) {
	if m.ImageRepository != "" {
		errs = checkRepository(at.Child("imageRepository"), m.ImageRepository)
	}
	if m.ImageTag != "" && !tagForm.MatchString(m.ImageTag) {
		errs = append(errs, field.Invalid(at.Child("imageTag"), m.ImageTag, "must be the tag of an image, such as v1.2.3"))
	}
	return errs
}

func checkRepository(at *field.Path, value string) field.ErrorList {
	if repositoryForm.MatchString(value + "/name") {
		return nil
	}
	return invalid(at, value, "must be a registry and a path, such as registry.example:5000/kubernetes, without scheme and tag")
}

func checkEtcd(c *v1beta4.ClusterConfiguration) field.ErrorList {
	at := field.NewPath("etcd")
	local, external := c.Etcd.Local, c.Etcd.External
	switch {
	case local != nil && external != nil:
		return invalid(at, field.OmitValueType{}, "local and external exclude each other")
	case external != nil:
		return checkExternalEtcd(at.Child("external"), external)
	}
	at = at.Child("local")
	return slices.Concat(
		checkAbsolutePath(at.Child("dataDir"), local.DataDir),
		checkArgNames(at.Child("extraArgs"), local.ExtraArgs),
		checkSANs(at.Child("serverCertSANs"), local.ServerCertSANs),
		checkSANs(at.Child("peerCertSANs"), local.PeerCertSANs),
	)
}

func checkExternalEtcd(at *field.Path, e *v1beta4.ExternalEtcd) (errs field.ErrorList) {
	if len(e.Endpoints) == 0 {
		errs = append(errs, field.Required(at.Child("endpoints"), "name at least one URL of the etcd cluster"))
	}
	secure := e.CAFile != "" || e.CertFile != "" || e.KeyFile != ""
	errs = append(errs, checkURLs(at.Child("endpoints"), e.Endpoints, secure)...)
	errs = append(errs, checkURLs(at.Child("httpEndpoints"), e.HTTPEndpoints, false)...)
	for _, f := range []struct{ name, value string }{{"caFile", e.CAFile}, {"certFile", e.CertFile}, {"keyFile", e.KeyFile}} {
		if f.value != "" {
			errs = append(errs, checkAbsolutePath(at.Child(f.name), f.value)...)
		}
	}
	switch {
	case e.CertFile == "" && e.KeyFile != "":
		errs = append(errs, field.Required(at.Child("certFile"), "a key needs its certificate"))
	case e.CertFile != "" && e.KeyFile == "":
		errs = append(errs, field.Required(at.Child("keyFile"), "a certificate needs its key"))
	case e.CertFile != "" && e.CAFile == "":
		errs = append(errs, field.Required(at.Child("caFile"), "with a client certificate the servers' CA must be named too"))
	}
	return errs
}
