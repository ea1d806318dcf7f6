package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// The checks in this file are used by several fields. Each returns nil if the value is valid.

func invalid(at *field.Path, value any, detail string) field.ErrorList {
	return field.ErrorList{field.Invalid(at, value, detail)}
}

// invalidSecret is like invalid, but does not repeat the value. It returns nil if err is nil.
func invalidSecret(at *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	return invalid(at, field.OmitValueType{}, err.Error())
}

func checkAbsolutePath(at *field.Path, value string) field.ErrorList {
	if path.IsAbs(value) {
		return nil
	}
	return invalid(at, value, "must be an absolute path")
}

func checkSubdomain(at *field.Path, value, more string) field.ErrorList {
	if len(validation.IsDNS1123Subdomain(value)) == 0 {
		return nil
	}
	if longest := validation.DNS1123SubdomainMaxLength; len(value) > longest {
		return invalid(at, value[:40]+"...",
			fmt.Sprintf("has %d characters: at most %d are allowed", len(value), longest))
	}
	return invalid(at, value,
		"must be lower-case letters, digits, dashes and dots, and begin and end with a letter or digit (RFC 1123)"+more)
}

func checkOneOf(at *field.Path, value string, allowed ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return invalid(at, value, "must be one of "+strings.Join(allowed, ", "))
}

// checkSANs checks that all names can be SANs of a certificate.
func checkSANs(at *field.Path, names []string) (errs field.ErrorList) {
	for _, name := range names {
		if _, unusable := pki.ParseSANs([]string{name}); len(unusable) > 0 {
			// Without its index, because minikube parses the field (test/parity/phrases).
			errs = append(errs, field.Invalid(at, name,
				"must be an IP address or a DNS name, which may begin with \"*.\""))
		}
	}
	return errs
}

// checkArgNames checks that all arguments have a name. Whether a component accepts them is checked
// before it is started (manifest.FindComponentProblems).
func checkArgNames(at *field.Path, args []v1beta4.Arg) (errs field.ErrorList) {
	for i, a := range args {
		if a.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"),
				"set the name of the argument"))
		}
	}
	return errs
}

func checkURLs(at *field.Path, list []string, secure bool) (errs field.ErrorList) {
	for i, text := range list {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme == "" || u.Host == "":
			errs = append(errs, field.Invalid(at.Index(i), text,
				"must be a URL such as https://10.0.0.1:2379"))
		case secure && u.Scheme != "https":
			errs = append(errs, field.Invalid(at.Index(i), text,
				"must begin with https:// if caFile, certFile or keyFile is set"))
		}
	}
	return errs
}

// checkIgnoredErrors checks that "all" is the only entry of its list.
func checkIgnoredErrors(at *field.Path, checks []string) field.ErrorList {
	if len(checks) > 1 &&
		slices.ContainsFunc(checks,
			func(name string) bool { return strings.EqualFold(name, "all") }) {
		return invalid(at, strings.Join(checks, ","),
			`"all" includes every check: use either "all" or single checks`)
	}
	return nil
}

// checkSocket allows an empty value: fillSocket has reported it.
func checkSocket(at *field.Path, value string, platform node.Platform) field.ErrorList {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err == nil && platform.IsCRISocket(u) {
		return nil
	}
	return invalid(at, value, platform.CRISocketForm())
}

// checkAPIEndpoint checks that other machines can reach the address, which may be empty, and that
// the port is one.
func checkAPIEndpoint(at *field.Path, e v1beta4.APIEndpoint) (errs field.ErrorList) {
	ip, err := netip.ParseAddr(e.AdvertiseAddress)
	switch {
	case e.AdvertiseAddress == "":
	case err != nil:
		errs = invalid(at.Child("advertiseAddress"), e.AdvertiseAddress, "must be an IP address")
	case !ip.IsGlobalUnicast() || ip.Zone() != "":
		errs = invalid(at.Child("advertiseAddress"), e.AdvertiseAddress,
			"must be an address that other machines can reach (global unicast)")
	}
	if len(validation.IsValidPortNum(int(e.BindPort))) > 0 {
		errs = append(errs, invalid(at.Child("bindPort"), e.BindPort,
			"must be a port number, 1 to 65535")...)
	}
	return errs
}

// checkTimeouts checks that all timeouts are greater than zero.
func checkTimeouts(t *v1beta4.Timeouts) (errs field.ErrorList) {
	at := field.NewPath("timeouts")
	for _, limit := range []struct {
		name string
		d    *metav1.Duration
	}{
		{"controlPlaneComponentHealthCheck", t.ControlPlaneComponentHealthCheck},
		{"discovery", t.Discovery},
		{"etcdAPICall", t.EtcdAPICall},
		{"kubeletHealthCheck", t.KubeletHealthCheck},
		{"kubernetesAPICall", t.KubernetesAPICall},
		{"tlsBootstrap", t.TLSBootstrap},
		{"upgradeManifests", t.UpgradeManifests},
	} {
		if durationOf(limit.d) <= 0 {
			errs = append(errs, field.Invalid(at.Child(limit.name), durationOf(limit.d).String(),
				"must be greater than 0s; omit it to use the default"))
		}
	}
	return errs
}

// splitEndpoint splits "host[:port]"; the port is empty if there is none.
func splitEndpoint(text string) (host, number string, err error) {
	host, number, err = net.SplitHostPort(text)
	switch {
	case err != nil:
		host, number, err = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), "", nil
	case number == "":
		return "", "", errors.New("no port follows the colon: add it, or remove the colon")
	}
	ip, badIP := netip.ParseAddr(host)
	if (badIP != nil || ip.Zone() != "") && len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", "", fmt.Errorf("host %q must be an IP address or a DNS name in lower case", host)
	}
	if number == "" {
		return host, "", nil
	}
	if err := checkPortText(number); err != nil {
		return "", "", err
	}
	return host, number, nil
}

// ServerURL is the URL of an API server at "host" or "host:port".
func ServerURL(text string) (string, error) {
	host, port, err := splitEndpoint(text)
	if err == nil && host == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", problem.New(fmt.Errorf("the API server %q: %w", text, err), "name it as host or host:port")
	}
	return "https://" + net.JoinHostPort(host, cmp.Or(port, strconv.Itoa(v1beta4.DefaultBindPort))), nil
}

func checkPortText(text string) error {
	if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %q must be a number, 1 to 65535", text)
	}
	return nil
}
