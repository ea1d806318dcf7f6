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
			return sharedEndpoint(field.NewPath("controlPlaneEndpoint"), c.ControlPlaneEndpoint)
		},
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return altNames(field.NewPath("apiServer", "certSANs"), c.APIServer.CertSANs)
		},
		checkArgs,
		checkImages,
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return absolute(field.NewPath("certificatesDir"), c.CertificatesDir)
		},
		checkGates,
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			if _, err := pki.ParseAlgorithm(c.EncryptionAlgorithm); err != nil {
				return one(field.NewPath("encryptionAlgorithm"), c.EncryptionAlgorithm, err.Error())
			}
			return nil
		},
		func(c *v1beta4.ClusterConfiguration) field.ErrorList {
			return append(lasting(field.NewPath("certificateValidityPeriod"), c.CertificateValidityPeriod),
				lasting(field.NewPath("caCertificateValidityPeriod"), c.CACertificateValidityPeriod)...)
		},
	})
}

// adviseCluster warns of what is allowed but seldom wise.
func adviseCluster(c *v1beta4.ClusterConfiguration) (warnings []string) {
	leaf, ca := length(c.CertificateValidityPeriod), length(c.CACertificateValidityPeriod)
	if leaf > v1beta4.DefaultCertValidity {
		warnings = append(warnings, fmt.Sprintf("certificateValidityPeriod %s is longer than %s: a stolen key stays useful all that time", leaf, v1beta4.DefaultCertValidity))
	}
	if leaf > ca {
		warnings = append(warnings, fmt.Sprintf("certificateValidityPeriod %s is longer than that of the CAs, %s: certificates end with their CA", leaf, ca))
	}
	if ca > v1beta4.DefaultCAValidity {
		warnings = append(warnings, fmt.Sprintf("caCertificateValidityPeriod %s is longer than %s", ca, v1beta4.DefaultCAValidity))
	}
	for _, name := range siteLocal(c.Networking.ServiceSubnet, c.Networking.PodSubnet) {
		warnings = append(warnings, fmt.Sprintf("subnet %s reaches into the site-local addresses fec0::/10, which RFC 3879 has given up", name))
	}
	for _, pair := range overlapping(c.Networking.ServiceSubnet, c.Networking.PodSubnet) {
		warnings = append(warnings, fmt.Sprintf("serviceSubnet and podSubnet overlap: %s: a Pod may get the address of a Service", pair))
	}
	return warnings
}

func sharedEndpoint(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	if _, _, err := splitEndpoint(value); err != nil {
		return one(at, value, "must be host or host:port: "+err.Error())
	}
	return nil
}

func checkArgs(c *v1beta4.ClusterConfiguration) field.ErrorList {
	return slices.Concat(
		argNames(field.NewPath("apiServer", "extraArgs"), c.APIServer.ExtraArgs),
		argNames(field.NewPath("controllerManager", "extraArgs"), c.ControllerManager.ExtraArgs),
		argNames(field.NewPath("scheduler", "extraArgs"), c.Scheduler.ExtraArgs),
	)
}

func checkGates(c *v1beta4.ClusterConfiguration) (errs field.ErrorList) {
	for _, err := range release.UnknownGates(c.FeatureGates) {
		errs = append(errs, one(field.NewPath("featureGates"), field.OmitValueType{}, err.Error())...)
	}
	return errs
}

func lasting(at *field.Path, d *metav1.Duration) field.ErrorList {
	if least := time.Minute; length(d) < least {
		return one(at, length(d).String(), "must be at least "+least.String())
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
		repository(field.NewPath("imageRepository"), c.ImageRepository),
		image(field.NewPath("dns"), c.DNS.ImageMeta),
	)
	if c.Etcd.Local != nil {
		errs = append(errs, image(field.NewPath("etcd", "local"), c.Etcd.Local.ImageMeta)...)
	}
	return errs
}

func image(at *field.Path, m v1beta4.ImageMeta) (errs field.ErrorList) {
	if m.ImageRepository != "" {
		errs = repository(at.Child("imageRepository"), m.ImageRepository)
	}
	if m.ImageTag != "" && !tagForm.MatchString(m.ImageTag) {
		errs = append(errs, field.Invalid(at.Child("imageTag"), m.ImageTag, "must be the tag of an image, such as v1.2.3"))
	}
	return errs
}

func repository(at *field.Path, value string) field.ErrorList {
	if repositoryForm.MatchString(value + "/name") {
		return nil
	}
	return one(at, value, "must be a registry and a path, such as registry.example:5000/kubernetes, without scheme and tag")
}

func checkEtcd(c *v1beta4.ClusterConfiguration) field.ErrorList {
	at := field.NewPath("etcd")
	local, external := c.Etcd.Local, c.Etcd.External
	switch {
	case local != nil && external != nil:
		return one(at, field.OmitValueType{}, "local and external exclude each other")
	case external != nil:
		return externalEtcd(at.Child("external"), external)
	}
	at = at.Child("local")
	return slices.Concat(
		absolute(at.Child("dataDir"), local.DataDir),
		argNames(at.Child("extraArgs"), local.ExtraArgs),
		altNames(at.Child("serverCertSANs"), local.ServerCertSANs),
		altNames(at.Child("peerCertSANs"), local.PeerCertSANs),
	)
}

func externalEtcd(at *field.Path, e *v1beta4.ExternalEtcd) (errs field.ErrorList) {
	if len(e.Endpoints) == 0 {
		errs = append(errs, field.Required(at.Child("endpoints"), "name at least one URL of the etcd cluster"))
	}
	secure := e.CAFile != "" || e.CertFile != "" || e.KeyFile != ""
	errs = append(errs, urls(at.Child("endpoints"), e.Endpoints, secure)...)
	errs = append(errs, urls(at.Child("httpEndpoints"), e.HTTPEndpoints, false)...)
	for _, f := range []struct{ name, value string }{{"caFile", e.CAFile}, {"certFile", e.CertFile}, {"keyFile", e.KeyFile}} {
		if f.value != "" {
			errs = append(errs, absolute(at.Child(f.name), f.value)...)
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
