package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

// Join resolves the part of a joining machine's desired state that is known before discovery.
func Join(file File, flags JoinFlags, facts Facts) (node.Local, RunOptions, error) {
	c, run, err := readJoin(file, flags, facts)
	if err != nil {
		return node.Local{}, run, err
	}
	run.applyFlags(c.DryRun, c.SkipPhases, flags.Common)
	if c.ControlPlane != nil {
		if err := CheckControlPlane(facts); err != nil {
			return node.Local{}, run, err
		}
	}
	if err := completeJoin(c, flags, inputs{file, flags.Common, facts}, &run); err != nil {
		return node.Local{}, run, err
	}
	local := newLocal(&c.NodeRegistration, c.Timeouts, facts, flags.Common)
	local.Role = node.Worker
	local.Patches = facts.Platform.Clean(patchesDir(c.Patches))
	local.CACertPath = c.CACertPath
	local.Discovery.TLSBootstrapToken = c.Discovery.TLSBootstrapToken
	if t := c.Discovery.BootstrapToken; t != nil {
		local.Discovery.Endpoint = t.APIServerEndpoint
		local.Discovery.Token = t.Token
		local.Discovery.CACertHashes = t.CACertHashes
		local.Discovery.UnsafeSkipCAVerification = t.UnsafeSkipCAVerification
	}
	if c.Discovery.File != nil {
		local.Discovery.File = facts.Platform.Clean(c.Discovery.File.KubeConfigPath)
	}
	if len(local.Discovery.CACertHashes) == 0 {
		// they also apply to discovery by kubeconfig
		local.Discovery.CACertHashes = flags.CACertHashes
	}
	local.Discovery.ReplaceMembers = flags.ReplaceMembers
	if cp := c.ControlPlane; cp != nil {
		local.Role = node.ControlPlane
		local.Address = cp.LocalAPIEndpoint.AdvertiseAddress
		local.BindPort = cp.LocalAPIEndpoint.BindPort
		local.CertificateKey = cp.CertificateKey
	}
	return local, run, nil
}

// completeJoin sets what depends on the machine, and checks the document.
func completeJoin(c *v1beta4.JoinConfiguration, flags JoinFlags, from inputs, run *RunOptions) error {
	wrong := faults{fieldName: speaker(from.file, from.common, flag.Join)}
	var endpoint *v1beta4.APIEndpoint
	if c.ControlPlane != nil {
		endpoint = &c.ControlPlane.LocalAPIEndpoint
	}
	if err := fillNodeAddress(flags.NodeAddressFrom, from.facts, endpoint, &c.NodeRegistration); err != nil {
		wrong.add("%v", err)
		return wrong.err(from.file.source()) // without an address there would be other faults
	}
	wrong.fields(v1beta4.KindJoin, fillNode(&c.NodeRegistration, from.facts, from.common, run))
	if c.ControlPlane != nil {
		at := field.NewPath("controlPlane", "localAPIEndpoint")
		wrong.fields(v1beta4.KindJoin,
			fillAddress(&c.ControlPlane.LocalAPIEndpoint, from.facts, at))
		if c.NodeRegistration.Taints == nil {
			c.NodeRegistration.Taints = node.ControlPlaneTaints()
		}
	}

	platform := from.facts.Platform
	errs := checkNodeRegistration(field.NewPath("nodeRegistration"), &c.NodeRegistration, platform)
	c.CACertPath = platform.Clean(c.CACertPath)
	if !platform.IsAbs(c.CACertPath) || !strings.HasSuffix(c.CACertPath, ".crt") {
		errs = append(errs, field.Invalid(field.NewPath("caCertPath"), c.CACertPath,
			"must be an absolute path that ends in .crt"))
	}
	errs = append(errs, checkDiscovery(&c.Discovery)...)
	if c.ControlPlane != nil {
		at := field.NewPath("controlPlane")
		errs = slices.Concat(errs,
			checkAPIEndpoint(at.Child("localAPIEndpoint"), c.ControlPlane.LocalAPIEndpoint),
			checkCertificateKey(at.Child("certificateKey"), c.ControlPlane.CertificateKey))
	}
	wrong.fields(v1beta4.KindJoin, append(errs, checkTimeouts(c.Timeouts)...))
	return wrong.err(from.file.source())
}

func readJoin(file File, flags JoinFlags, facts Facts) (*v1beta4.JoinConfiguration, RunOptions, error) {
	var run RunOptions
	c := &v1beta4.JoinConfiguration{}
	var err error
	if file.Given() {
		err = file.read(&run, &documentTarget{kind: v1beta4.KindJoin, into: c, needed: true})
		if flags.Endpoint != "" {
			run.warn("the argument " + flags.Endpoint +
				" has no effect with --config: the file contains the discovery settings")
		}
	} else {
		*c, run.Warnings, err = flags.document(facts)
	}
	if err != nil {
		return nil, run, err
	}
	c.Default()
	return c, run, nil
}
