package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// ReconfigureFlags are the flags of "reconfigure plan" and "reconfigure apply" that change the
// configuration of the cluster. The tags name them.
type ReconfigureFlags struct {
	AddCertSANs     []string      `flag:"add-cert-san"`
	SetArgs         flag.TextList `flag:"set-arg"` // "COMPONENT:NAME=VALUE", or "COMPONENT:NAME-" to remove it
	FeatureGates    []string      `flag:"feature-gate"`
	ImageRepository string        `flag:"image-repository"`
	// Corefile is the path of a file, and CoreDNSReplicas how many Pods CoreDNS has: settings that no document has.
	Corefile        string `flag:"corefile"`
	CoreDNSReplicas *int32 `flag:"coredns-replicas"`
	// Endpoint is another controlPlaneEndpoint, and RemoveCertSANs are names that certificates are not to
	// have any more: "kubeadm endpoint" sets them.
	Endpoint       string
	RemoveEndpoint bool // the cluster is to have none
	RemoveCertSANs []string
}

// Given reports whether there is a flag.
func (f ReconfigureFlags) Given() bool {
	return len(f.AddCertSANs)+len(f.SetArgs)+len(f.FeatureGates) > 0 || f.ImageRepository != "" || f.changesCoreDNS()
}

func (f ReconfigureFlags) changesCoreDNS() bool { return f.Corefile != "" || f.CoreDNSReplicas != nil }

// ReconfigureNodeFlags are the flags of the commands that bring a node to a configuration.
type ReconfigureNodeFlags struct {
	Patches               string   `flag:"patches"`
	IgnorePreflightErrors []string `flag:"ignore-preflight-errors"`
	CertificateKey        string   `flag:"certificate-key"`
	UploadCerts           bool     `flag:"upload-certs"`
}

// Local is what the flags say of this machine.
func (f ReconfigureNodeFlags) Local() (node.Local, error) {
	wrong := faults{fieldName: func(_, path string) string { return "--" + path }}
	ignored := mergeIgnored(f.IgnorePreflightErrors)
	wrong.fields("", checkIgnoredErrors(field.NewPath(string(flag.IgnorePreflightErrors)), ignored))
	if f.Patches != "" {
		wrong.fields("", checkAbsolutePath(field.NewPath(string(flag.Patches)), f.Patches))
	}
	local := NewLocal()
	wrong.fields("", checkCertificateKey(field.NewPath(string(flag.CertificateKey)), f.CertificateKey))
	local.CertificateKey, local.UploadCerts = f.CertificateKey, f.UploadCerts
	local.Patches, local.IgnoredChecks = f.Patches, normalizeIgnored(ignored)
	local.PullPolicy = corev1.PullIfNotPresent
	return local, wrong.err(File{}.source())
}

// Reconfigure returns what a cluster is to store instead of its present configuration: the documents of
// the file replace the stored ones, and the flags change single fields of the result. Fields that no
// running cluster can change may be left out of the file; another value is an error that says why.
// bindPort is the port of this machine's API server.
func Reconfigure(file File, flags ReconfigureFlags, stored StoredConfig,
	bindPort int32) (StoredConfig, RunOptions, error) {
	var run RunOptions
	present, target, err := decodeStoredCluster(stored.Cluster, bindPort, &run.Warnings)
	if err != nil {
		return stored, run, storedProblem(err, "kubeadm-config")
	}
	wanted := &v1beta4.ClusterConfiguration{}
	cluster := &documentTarget{kind: v1beta4.KindCluster, into: wanted}
	kubelet := &documentTarget{kind: kindKubelet, into: &kubeletconfig.KubeletConfiguration{}}
	proxyDocument := &proxyconfig.KubeProxyConfiguration{}
	proxy := &documentTarget{kind: kindProxy, into: proxyDocument}
	if file.Given() {
		if err := file.read(&run, cluster, kubelet, proxy); err != nil {
			return stored, run, err
		}
	}
	wrong := faults{fieldName: func(kind, path string) string { return kind + " " + path }}
	fixed := valuesOfFixedArgs(present) // which the flags may change
	switch {
	case cluster.found:
		keepFixed(wanted, present, target, &wrong)
	case file.Given() && !kubelet.found && !proxy.found:
		wrong.add("it has no document that can change a cluster: %s, %s or %s", v1beta4.KindCluster, kindKubelet, kindProxy)
		return stored, run, wrong.err(file.source())
	default:
		wanted = present // which nothing compares any more
	}
	run.warn(flags.apply(wanted, &wrong)...)
	refuseFixedArgs(fixed, valuesOfFixedArgs(wanted), &wrong)
	gates := flags.gateSettings(target, &wrong)
	setGateArgs(wanted, gates, &wrong)
	wanted.Default()
	fillCluster(wanted, bindPort)
	wanted.KubernetesVersion = target.Stored()
	wrong.fields(v1beta4.KindCluster, checkCluster(wanted, node.Platform{}))
	wrong.fields(v1beta4.KindCluster, checkStaticPods(wanted))
	if proxy.found && wanted.Proxy.Disabled {
		run.warn(kindProxy + " is not used: proxy.disabled is set")
		proxy.found = false
	}
	if kubelet.found && isStored(kubelet.into, &kubeletconfig.KubeletConfiguration{}, stored.Kubelet, kindKubelet) {
		kubelet.found = false
	}
	if proxy.found && isStored(proxy.into, &proxyconfig.KubeProxyConfiguration{}, stored.KubeProxy, kindProxy) {
		proxy.found = false
	}
	if proxy.found {
		wrong.fields(kindProxy, checkProxy(proxyDocument))
	}
	if err := wrong.err(file.source()); err != nil {
		return stored, run, err
	}
	run.warn(warnAboutCluster(wanted)...)
	for _, document := range []struct {
		changed bool
		value   any
		into    *string
	}{
		{true, wanted, &stored.Cluster},
		{kubelet.found, kubelet.into, &stored.Kubelet.Text},
		{proxy.found, proxy.into, &stored.KubeProxy.Text},
	} {
		if !document.changed {
			continue
		}
		text, err := yaml.Marshal(document.value)
		if err != nil {
			return stored, run, fmt.Errorf("encoding the configuration: %w", err)
		}
		*document.into = string(text)
	}
	stored.Kubelet.Generated = stored.Kubelet.Generated && !kubelet.found
	stored.KubeProxy.Generated = stored.KubeProxy.Generated && !proxy.found
	if err := stored.setComponentGates(!wanted.Proxy.Disabled, gates); err != nil {
		return stored, run, err
	}
	run.warn(warnAboutUnsetGates(gates)...)
	return stored, run, nil
}

// isStored reports whether a document of a component is the stored one, which then stays as it is.
func isStored(document, into any, stored StoredComponent, kind string) bool {
	var ignored []string
	err := decodeStored(storedDocument{"", stored.Text, kind}, into, &ignored)
	return err == nil && reflect.DeepEqual(document, into)
}

// apply changes the fields that the flags name.
func (f ReconfigureFlags) apply(c *v1beta4.ClusterConfiguration, wrong *faults) (warnings []string) {
	if c.ControlPlaneEndpoint = cmp.Or(f.Endpoint, c.ControlPlaneEndpoint); f.RemoveEndpoint {
		c.ControlPlaneEndpoint = ""
	}
	c.APIServer.CertSANs = slices.DeleteFunc(slices.Clone(c.APIServer.CertSANs),
		func(name string) bool { return node.HasHost(f.RemoveCertSANs, name) })
	for _, name := range f.AddCertSANs {
		if !node.HasHost(c.APIServer.CertSANs, name) {
			c.APIServer.CertSANs = append(c.APIServer.CertSANs, name)
		}
	}
	c.ImageRepository = cmp.Or(f.ImageRepository, c.ImageRepository)
	f.checkCoreDNS(c, wrong)
	set := map[string]bool{} // of this command: an argument that is set twice has both values
	times := func(setting string) (n int) {
		for _, text := range f.SetArgs {
			if strings.HasPrefix(text, setting+"=") {
				n++
			}
		}
		return n
	}
	for _, text := range f.SetArgs {
		component, setting, ok := strings.Cut(text, ":")
		name, value, hasValue := strings.Cut(strings.TrimLeft(setting, "-"), "=")
		bare, isRemoval := strings.CutSuffix(name, "-")
		if !hasValue {
			name = bare
		}
		args := argsOf(c, component)
		stored := 0
		if args != nil {
			stored = len(*args) - len(withoutArg(*args, name))
		}
		again := set[component+":"+name]
		switch {
		case !ok || name == "" || !hasValue && !isRemoval:
			wrong.add("--%s %q: it must be COMPONENT:NAME=VALUE, or COMPONENT:NAME- to remove the argument",
				flag.SetArg, text)
			continue
		case args == nil && component == manifest.Etcd:
			wrong.add("--%s %q: the etcd of this cluster is external: change its arguments where it runs",
				flag.SetArg, text)
			continue
		case args == nil:
			wrong.add("--%s %q: the component must be one of %s", flag.SetArg, text,
				strings.Join(append(manifest.Components(), manifest.Etcd), ", "))
			continue
		case stored > 1 && !again && stored != times(component+":"+name):
			wrong.add("--%s %q: the argument is set %d times: change it in a file for --%s", flag.SetArg, text,
				stored, flag.Config)
			continue
		case !hasValue && stored == 0:
			warnings = append(warnings, fmt.Sprintf("--%s %q: extraArgs of the component does not set the argument",
				flag.SetArg, text))
			continue
		}
		if name == "service-account-issuer" {
			warnings = append(warnings, "tokens of an issuer that service-account-issuer no longer lists become invalid")
		}
		if !again {
			*args = withoutArg(*args, name)
		}
		if hasValue {
			*args = append(*args, v1beta4.Arg{Name: name, Value: value})
		}
		set[component+":"+name] = true
	}
	return warnings
}

// checkCoreDNS adds what is wrong with the flags of CoreDNS to the faults.
func (f ReconfigureFlags) checkCoreDNS(c *v1beta4.ClusterConfiguration, wrong *faults) {
	if f.changesCoreDNS() && c.DNS.Disabled {
		wrong.add("--%s and --%s: %s dns.disabled is set, so kubeadm does not manage CoreDNS", flag.Corefile, flag.CoreDNSReplicas,
			v1beta4.KindCluster)
	}
	if n := f.CoreDNSReplicas; n != nil && *n < 1 {
		wrong.add("--%s=%d: it must be at least 1, as Pods find Services by CoreDNS", flag.CoreDNSReplicas, *n)
	}
}

// argsOf are the extra arguments of a component; nil if there is no component of that name.
func argsOf(c *v1beta4.ClusterConfiguration, component string) *[]v1beta4.Arg {
	switch component {
	case release.APIServer:
		return &c.APIServer.ExtraArgs
	case release.ControllerManager:
		return &c.ControllerManager.ExtraArgs
	case release.Scheduler:
		return &c.Scheduler.ExtraArgs
	case manifest.Etcd:
		if c.Etcd.Local != nil {
			return &c.Etcd.Local.ExtraArgs
		}
	}
	return nil
}

func withoutArg(args []v1beta4.Arg, name string) []v1beta4.Arg {
	return slices.DeleteFunc(slices.Clone(args), func(a v1beta4.Arg) bool { return a.Name == name })
}

// FieldChange is a field of a configuration that the cluster stores, before and after a change. An empty
// text is a field that is not set.
type FieldChange struct {
	Kind   string `json:"kind"`
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// IsSame reports whether two configurations of a cluster are the same, with their defaults set.
func IsSame(a, b *node.Cluster) bool {
	return a.Document == b.Document && reflect.DeepEqual(a.Kubelet.Config, b.Kubelet.Config) &&
		reflect.DeepEqual(a.KubeProxy.Config, b.KubeProxy.Config)
}

// ListChanges returns the fields that differ between two configurations of a cluster, with their
// defaults set.
func ListChanges(before, after *node.Cluster) ([]FieldChange, error) {
	var all []FieldChange
	for _, d := range []struct {
		kind          string
		before, after any
	}{
		{v1beta4.KindCluster, before.Document, after.Document},
		{kindKubelet, before.Kubelet.Config, after.Kubelet.Config},
		{kindProxy, before.KubeProxy.Config, after.KubeProxy.Config},
	} {
		old, err := flatten(d.before)
		if err != nil {
			return nil, err
		}
		now, err := flatten(d.after)
		if err != nil {
			return nil, err
		}
		for _, field := range sortedUnion(old, now) {
			if old[field] != now[field] {
				all = append(all, FieldChange{d.kind, field, old[field], now[field]})
			}
		}
	}
	if len(all) == 0 && !IsSame(before, after) {
		all = []FieldChange{{v1beta4.KindCluster, "order of lists", "", "changed"}}
	}
	return all, nil
}

func sortedUnion(a, b map[string]string) (fields []string) {
	for _, m := range []map[string]string{a, b} {
		for field := range m {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// flatten returns the values of a document, YAML text or a value, by their path. An element of a list
// that has a name has that name in its path, and its value is that of its field "value" if there is one.
func flatten(document any) (map[string]string, error) {
	text, isText := document.(string)
	if !isText {
		data, err := yaml.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encoding the configuration: %w", err)
		}
		text = string(data)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	all := map[string]string{}
	flattenInto(all, "", value)
	return all, nil
}

func flattenInto(all map[string]string, at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			path := name
			if at != "" {
				path = at + "." + name
			}
			flattenInto(all, path, child)
		}
	case []any:
		for i, child := range v {
			object, isObject := child.(map[string]any)
			name, isNamed := object["name"].(string)
			switch content, hasValue := object["value"]; {
			case isObject && isNamed && hasValue:
				path := fmt.Sprintf("%s[%s]", at, name)
				if earlier, repeated := all[path]; repeated {
					content = fmt.Sprintf("%s, %v", earlier, content)
				}
				all[path] = fmt.Sprint(content)
			case isObject && isNamed:
				flattenInto(all, fmt.Sprintf("%s[%s]", at, name), object)
			case isObject:
				flattenInto(all, fmt.Sprintf("%s[%d]", at, i), child)
			default:
				all[fmt.Sprintf("%s[%v]", at, child)] = fmt.Sprint(child)
			}
		}
	default:
		all[at] = fmt.Sprint(v)
	}
}
