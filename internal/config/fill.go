package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

func fillNode(r *v1beta4.NodeRegistrationOptions, facts Facts, common Common,
	run *RunOptions) field.ErrorList {
	wanted, hostname := normalizeName(cmp.Or(common.NodeName, r.Name)),
		normalizeName(facts.Hostname)
	r.Name = cmp.Or(wanted, hostname)
	// The kubelet registers with the name in its argument hostname-override, whatever else is set.
	if override, overrides := node.LastArg(convertArgs(r.KubeletExtraArgs),
		"hostname-override"); overrides {
		r.Name = cmp.Or(normalizeName(override), hostname)
		if wanted != "" && wanted != r.Name {
			run.warn(fmt.Sprintf(
				"the node name %q has no effect: kubeletExtraArgs sets hostname-override to %q, so the "+
					"kubelet registers as %q; set only one of them", wanted, override,
				r.Name))
		}
	}
	r.IgnorePreflightErrors = mergeIgnored(r.IgnorePreflightErrors, common.IgnorePreflightErrors)
	return fillSocket(&r.CRISocket, facts, field.NewPath("nodeRegistration", "criSocket"), run)
}

func normalizeName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// mergeIgnored is the union of lists of check names, as the user wrote them. Case does not matter.
func mergeIgnored(lists ...[]string) (all []string) {
	for _, name := range slices.Concat(lists...) {
		name = strings.TrimSpace(name)
		if !slices.ContainsFunc(all, func(n string) bool { return strings.EqualFold(n, name) }) {
			all = append(all, name)
		}
	}
	return all
}

// fillCluster sets what depends on other fields. bindPort is that of this machine's API server; 0 if it has none.
func fillCluster(c *v1beta4.ClusterConfiguration, bindPort int32) {
	for i, san := range c.APIServer.CertSANs {
		c.APIServer.CertSANs[i] = strings.ToLower(san)
	}
	if host, port, err := splitEndpoint(c.ControlPlaneEndpoint); err == nil && host != "" &&
		port == "" {
		c.ControlPlaneEndpoint = net.JoinHostPort(host, strconv.Itoa(int(cmp.Or(bindPort, v1beta4.DefaultBindPort))))
	}
}

// resolveVersion resolves a version or a label to a supported release.
func (f Facts) resolveVersion(text string) (release.Target, []string, error) {
	fetch := f.Fetch
	if fetch == nil {
		fetch = func(string) (string, error) { return "", errors.New("no network access") }
	}
	target, notes, err := f.Tool.Resolve(text, fetch)
	if f.Fetch == nil {
		notes = nil
	}
	if err != nil {
		return target, notes, err
	}
	return target, notes, f.Tool.CheckTarget(target)
}

// useKeptVersion returns the version that an interrupted run found behind the label, or else target.
func (f Facts) useKeptVersion(label string, target release.Target) (release.Target, error) {
	kept, err := f.KeptVersion(label, target.String())
	if err != nil || kept == target.String() {
		return target, err
	}
	f.Fetch = func(string) (string, error) { return kept, nil }
	target, _, err = f.resolveVersion(label)
	return target, err
}
