package config

import (
	"errors"
	"fmt"
	"slices"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/manifest"
	"kubeadm/internal/strict"
)

// Migrate reads all documents of a file, of any supported API version, sets the defaults as the
// commands do, and checks them. The results are pointers to documents of v1beta4 in the order in
// which they are written, and after them the component configurations as they are in the file.
// Unsupported kinds are errors, and so are unknown and duplicate fields.
func Migrate(file File, facts Facts) (documents []any, run RunOptions, err error) {
	file.readsAllKinds, file.Strict = true, true
	kinds, components, err := file.kinds()
	if err != nil {
		return nil, run, err
	}
	readers := []struct { // in the order in which documents are written
		kinds []string // any of these is enough
		read  func(File, Facts) ([]any, RunOptions, error)
	}{
		{[]string{v1beta4.KindInit, v1beta4.KindCluster}, migrateInit},
		{[]string{v1beta4.KindJoin}, migrateJoin},
		{[]string{v1beta4.KindReset}, migrateReset},
		{[]string{v1beta4.KindUpgrade}, func(file File, _ Facts) ([]any, RunOptions, error) {
			c, run, err := readUpgrade(file)
			return []any{c}, run, err
		}},
	}
	var errs []error
	for _, r := range readers {
		isKind := func(kind string) bool { return slices.Contains(r.kinds, kind) }
		if !slices.ContainsFunc(kinds, isKind) {
			continue
		}
		read, how, err := r.read(file, facts)
		documents, errs = append(documents, read...), append(errs, err)
		run.warn(how.Warnings...)
	}
	// else init's reader has checked component configurations
	if !slices.Contains(kinds, v1beta4.KindInit) && !slices.Contains(kinds, v1beta4.KindCluster) {
		kubelet := &documentTarget{kind: kindKubelet, into: &kubeletconfig.KubeletConfiguration{}}
		proxy := &documentTarget{kind: kindProxy, into: &proxyconfig.KubeProxyConfiguration{}}
		errs = append(errs, file.read(&run, kubelet, proxy))
	}
	return append(documents, components...), run, errors.Join(errs...)
}

// kinds lists the kinds in the file, and the documents that configure components. It returns an error
// if a kind is not supported.
func (f File) kinds() (kinds []string, components []any, err error) {
	documents, err := strict.Split(f.Data)
	if err != nil {
		return nil, nil, explainConfigMap(f.Data, fmt.Errorf("%s: %w", f.source(), err))
	}
	var wrong faults
	for _, d := range documents {
		switch err := checkVersion(d, f.AllowExperimental); {
		case err != nil:
			wrong.add("%v", err)
		case !isSupportedKind(d):
			wrong.add("%s of %s is not supported%s", d, d.APIVersion, suggestKind(d))
		}
		kinds = append(kinds, d.Kind)
		if d.Kind == kindKubelet || d.Kind == kindProxy {
			components = append(components, d.Fields())
		}
	}
	return kinds, components, wrong.err(f.source())
}

func migrateInit(file File, facts Facts) ([]any, RunOptions, error) {
	in, run, err := readInit(file, NewInitFlags())
	if err != nil {
		return nil, run, err
	}
	// as in the file, which may be for another machine
	address := in.init.LocalAPIEndpoint.AdvertiseAddress
	in.complete(facts, Common{}, &run)
	in.fields(v1beta4.KindInit, checkTokenExpiry(in.init.BootstrapTokens, facts.Now))
	target, err := in.resolve(facts, &run)
	if err != nil {
		return nil, run, err
	}
	run.warn(fillKubelet(in.kubelet.Config, &in.cluster)...)
	run.warn(fillProxy(in.proxy.Config, &in.cluster, in.init.LocalAPIEndpoint.AdvertiseAddress)...)
	if file.ReportComponentProblems {
		// settings that would keep the components of this node from running
		n, err := in.node(target, NewInitFlags(), facts)
		if err != nil {
			return nil, run, err
		}
		n.Address = address
		run.warn(warnAboutNode(in, address)...)
		problems, err := manifest.FindComponentProblems(n, manifest.Host{})
		if err != nil {
			run.warn(err.Error())
		} else {
			problems = append(problems,
				manifest.FindKubeletProblems(n.KubeletArgs, target.Version())...)
			problems = append(problems, manifest.FindKubeletGateProblems(n, target.Version())...)
		}
		for _, p := range problems {
			run.warn(p.String())
		}
	}
	tokens, err := newBootstrapTokens(in.init.BootstrapTokens, facts.Random)
	for i, t := range tokens {
		in.init.BootstrapTokens[i].Token = t.String()
	}
	return []any{&in.init, &in.cluster}, run, err
}

func migrateJoin(file File, facts Facts) ([]any, RunOptions, error) {
	c, run, err := readJoin(file, NewJoinFlags(), facts)
	if err != nil {
		return nil, run, err
	}
	err = completeJoin(c, JoinFlags{}, inputs{file: file, facts: facts}, &run)
	if file.ReportComponentProblems {
		for _, p := range manifest.FindKubeletProblems(
			convertArgs(c.NodeRegistration.KubeletExtraArgs), facts.Tool.Version()) {
			run.warn(p.String())
		}
	}
	return []any{c}, run, err
}

func migrateReset(file File, facts Facts) ([]any, RunOptions, error) {
	c, run, err := readReset(file, NewResetFlags())
	if err != nil {
		return nil, run, err
	}
	return []any{c}, run, completeReset(c, inputs{file: file, facts: facts}, &run)
}
