package config

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// initDocuments are the documents that init reads.
type initDocuments struct {
	faults
	source  string
	label   string // version label; empty for a version
	init    v1beta4.InitConfiguration
	cluster v1beta4.ClusterConfiguration
	kubelet node.KubeletConfig
	proxy   node.ProxyConfig

	hasCluster bool // the file has a ClusterConfiguration
}

// Init resolves the desired state of a machine that creates a cluster.
func Init(file File, flags InitFlags, facts Facts) (*node.Node, RunOptions, error) {
	in, run, err := readInit(file, flags)
	if err != nil {
		return nil, run, err
	}
	n, err := in.resolveNode(flags, facts, &run)
	return n, run, err
}

// resolveNode is the node that the documents describe, with everything that they leave open.
func (in *initDocuments) resolveNode(flags InitFlags, facts Facts, run *RunOptions) (*node.Node, error) {
	run.applyFlags(in.init.DryRun, in.init.SkipPhases, flags.Common)
	syncAddonPhases(&in.cluster, run)
	if err := fillNodeAddress(flags.NodeAddressFrom, facts, &in.init.LocalAPIEndpoint,
		&in.init.NodeRegistration); err != nil {
		in.add("%v", err)
		return nil, in.err(in.source) // without an address there would be other faults
	}
	in.complete(facts, flags.Common, run)
	// a finished init may be re-run
	for _, e := range checkTokenExpiry(in.init.BootstrapTokens, facts.Now) {
		run.warn(in.fieldName(v1beta4.KindInit, e.Field) + ": " + e.ErrorBody())
	}
	target, err := in.resolve(facts, run)
	if err != nil {
		return nil, err
	}
	run.warn(fillKubelet(in.kubelet.Config, &in.cluster)...)
	run.warn(fillProxy(in.proxy.Config, &in.cluster, in.init.LocalAPIEndpoint.AdvertiseAddress)...)
	run.warn(warnAboutNode(in, in.init.LocalAPIEndpoint.AdvertiseAddress)...)
	return in.node(target, flags, facts)
}

// CheckControlPlane returns an error on a machine that cannot become a control plane node.
func CheckControlPlane(facts Facts) error {
	if !facts.Platform.IsWindows() {
		return nil
	}
	return problem.New(errors.New("this machine runs Windows, but control planes run on Linux"),
		"create the control plane on Linux machines, and join this one as a worker: kubeadm join, without --control-plane")
}

// node is the result of complete and checked documents.
func (in *initDocuments) node(target release.Target, flags InitFlags,
	facts Facts) (*node.Node, error) {
	cluster, err := newCluster(&in.cluster, target)
	if err != nil {
		return nil, err
	}
	cluster.VersionLabel, cluster.Kubelet, cluster.KubeProxy = in.label, in.kubelet, in.proxy
	local := newLocal(&in.init.NodeRegistration, in.init.Timeouts, facts, flags.Common)
	local.Role = node.ControlPlane
	local.Address = in.init.LocalAPIEndpoint.AdvertiseAddress
	local.BindPort = in.init.LocalAPIEndpoint.BindPort
	local.Patches = patchesDir(in.init.Patches)
	local.CertificateKey = in.init.CertificateKey
	local.UploadCerts = flags.UploadCerts
	local.Paths.Certificates = facts.Platform.Clean(in.cluster.CertificatesDir)
	local.CACertPath = local.Paths.Cert("ca")
	local.Tokens, err = newBootstrapTokens(in.init.BootstrapTokens, facts.Random)
	return &node.Node{Local: local, Cluster: cluster}, err
}

// Tokens resolves the settings of "token create": a node.Local with the tokens to create, whether
// to upload certificates and with which key, their paths, and the timeouts.
func Tokens(file File, flags TokenFlags, facts Facts) (node.Local, RunOptions, error) {
	in, run, err := readInit(file, NewInitFlags())
	if err != nil {
		return node.Local{}, run, err
	}
	in.fieldName = speaker(file, Common{}, flag.TokenCreate)
	if !file.Given() {
		in.init = flags.document()
		in.init.Default()
	}
	in.fields(v1beta4.KindInit, checkTokens(&in.init))
	in.fields(v1beta4.KindInit, checkTokenExpiry(in.init.BootstrapTokens, facts.Now))
	in.fields(v1beta4.KindInit,
		checkCertificateKey(field.NewPath("certificateKey"), in.init.CertificateKey))
	if err := in.err(in.source); err != nil {
		return node.Local{}, run, err
	}
	local := node.Local{
		UploadCerts: flags.UploadCerts, CertificateKey: in.init.CertificateKey,
		Paths: node.DefaultPaths(), Timeouts: newTimeouts(in.init.Timeouts),
	}
	local.Tokens, err = newBootstrapTokens(in.init.BootstrapTokens, facts.Random)
	return local, run, err
}

// readInit reads the documents and sets the defaults that do not depend on the machine.
func readInit(file File, flags InitFlags) (*initDocuments, RunOptions, error) {
	in, run, err := decodeInit(file, flags)
	if err == nil {
		in.setDefaults(flags)
	}
	return in, run, err
}

func (in *initDocuments) setDefaults(flags InitFlags) {
	flags.addArgs(&in.cluster)
	in.init.Default()
	in.cluster.Default()
}

// decodeInit reads the documents.
func decodeInit(file File, flags InitFlags) (*initDocuments, RunOptions, error) {
	var run RunOptions
	var err error
	in := &initDocuments{
		source:  file.source(),
		kubelet: node.KubeletConfig{Config: &kubeletconfig.KubeletConfiguration{}, Generated: true},
		proxy:   node.ProxyConfig{Config: &proxyconfig.KubeProxyConfiguration{}, Generated: true},
	}
	in.fieldName = speaker(file, flags.Common, flag.Init)
	if file.Given() {
		kubelet := &documentTarget{kind: kindKubelet, into: in.kubelet.Config}
		proxy := &documentTarget{kind: kindProxy, into: in.proxy.Config}
		cluster := &documentTarget{kind: v1beta4.KindCluster, into: &in.cluster, needed: true}
		err = file.read(&run,
			&documentTarget{kind: v1beta4.KindInit, into: &in.init, needed: true}, cluster, kubelet,
			proxy)
		// v1beta3 has this timeout in the ClusterConfiguration. One in the InitConfiguration takes
		// precedence.
		if cluster.controlPlane != nil {
			in.init.Timeouts = cmp.Or(in.init.Timeouts, &v1beta4.Timeouts{})
			healthy := &in.init.Timeouts.ControlPlaneComponentHealthCheck
			*healthy = cmp.Or(*healthy, cluster.controlPlane)
		}
		in.kubelet.Generated, in.proxy.Generated = !kubelet.found, !proxy.found
		in.hasCluster = cluster.found
	} else {
		in.init, in.cluster, err = flags.documents()
	}
	if err != nil {
		return nil, run, err
	}
	return in, run, nil
}

// complete sets what depends on the machine, and checks the documents.
func (in *initDocuments) complete(facts Facts, common Common, run *RunOptions) {
	in.fields(v1beta4.KindInit, fillNode(&in.init.NodeRegistration, facts, common, run))
	in.fields(v1beta4.KindInit,
		fillAddress(&in.init.LocalAPIEndpoint, facts, field.NewPath("localAPIEndpoint")))
	if in.init.NodeRegistration.Taints == nil {
		in.init.NodeRegistration.Taints = node.ControlPlaneTaints()
	}
	fillCluster(&in.cluster, in.init.LocalAPIEndpoint.BindPort)

	in.fields(v1beta4.KindInit, slices.Concat(
		checkNodeRegistration(field.NewPath("nodeRegistration"), &in.init.NodeRegistration,
			facts.Platform),
		checkAPIEndpoint(field.NewPath("localAPIEndpoint"), in.init.LocalAPIEndpoint),
		checkCertificateKey(field.NewPath("certificateKey"), in.init.CertificateKey),
		checkTokens(&in.init),
		checkTimeouts(in.init.Timeouts),
	))
	in.fields(v1beta4.KindCluster, checkCluster(&in.cluster, facts.Platform))
	in.fields(v1beta4.KindCluster, checkStaticPods(&in.cluster))
	if !in.cluster.Proxy.Disabled {
		in.fields(kindProxy, checkProxy(in.proxy.Config))
	}
}

// resolve resolves the version to deploy. That can take some time, so all other faults are
// reported first.
func (in *initDocuments) resolve(facts Facts, run *RunOptions) (release.Target, error) {
	if err := in.err(in.source); err != nil {
		return release.Target{}, err
	}
	run.warn(warnAboutCluster(&in.cluster)...)
	label := in.cluster.KubernetesVersion
	target, notes, err := facts.resolveVersion(label)
	run.warn(notes...)
	if err == nil && release.IsLabel(label) && facts.KeptVersion != nil {
		target, err = facts.useKeptVersion(label, target)
	}
	if err != nil {
		in.add("%s: %v", in.fieldName(v1beta4.KindCluster, "kubernetesVersion"), err)
		return release.Target{}, in.err(in.source)
	}
	if release.IsLabel(label) {
		in.label = label
	}
	in.cluster.KubernetesVersion = target.Stored()
	return target, nil
}
