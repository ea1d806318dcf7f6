package rotateca

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// checkStart returns the authorities to replace, which are all of this cluster by default. It is an
// error if they cannot be replaced on this machine.
func checkStart(ctx context.Context, e *engine.Env, n *node.Node,
	names []string) ([]string, error) {
	if manifest.IsRootless(n) {
		return nil, problem.New(errors.New("the CA of a rootless control plane cannot be replaced"),
			"disable the feature gate RootlessControlPlane first")
	}
	local, why := node.HasLocalEtcd(n)
	if slices.Contains(names, rotation.EtcdAuthority) && !local {
		return nil, problem.New(fmt.Errorf("--ca: etcd cannot be selected: %s", why),
			"replace the CA of etcd where it runs, and leave it out: "+
				"--ca cluster,front-proxy,service-account")
	}
	if len(names) == 0 {
		names = slices.DeleteFunc(rotation.AuthorityNames(),
			func(name string) bool { return name == rotation.EtcdAuthority && !local })
	}
	for _, a := range rotation.Authorities() {
		if slices.Contains(names, a.Name) {
			if _, err := readPresent(ctx, e, n, a); err != nil {
				return nil, err
			}
		}
	}
	if err := checkArguments(ctx, e, n, names); err != nil {
		return names, err
	}
	return names, checkKubelet(ctx, e, n, names)
}

// checkKubelet is an error if the client certificate of the kubelet has to be replaced and cannot be.
func checkKubelet(ctx context.Context, e *engine.Env, n *node.Node, names []string) error {
	if !slices.Contains(names, rotation.ClusterAuthority) {
		return nil
	}
	_, err := readKubeletClient(ctx, e, n)
	return err
}

// checkArguments is an error if components do not read the files that a rotation replaces.
func checkArguments(ctx context.Context, e *engine.Env, n *node.Node, names []string) error {
	type setting struct{ component, arg, want string }
	var wanted []setting
	paths := n.Paths
	if slices.Contains(names, rotation.ClusterAuthority) {
		for _, s := range signingArgs(paths) {
			wanted = append(wanted, setting{release.ControllerManager, s.name, s.usual})
		}
		wanted = append(wanted,
			setting{release.ControllerManager, "root-ca-file", paths.Cert("ca")},
			setting{release.APIServer, "client-ca-file", paths.Cert("ca")})
	}
	if slices.Contains(names, rotation.FrontProxyAuthority) {
		wanted = append(wanted, setting{release.APIServer, "requestheader-client-ca-file",
			paths.Cert("front-proxy-ca")})
	}
	if slices.Contains(names, rotation.EtcdAuthority) {
		wanted = append(wanted,
			setting{release.APIServer, "etcd-cafile", paths.Cert("etcd/ca")},
			setting{release.Etcd, "trusted-ca-file", paths.Cert("etcd/ca")},
			setting{release.Etcd, "peer-trusted-ca-file", paths.Cert("etcd/ca")})
	}
	if slices.Contains(names, rotation.ServiceAccountAuthority) {
		wanted = append(wanted,
			setting{release.APIServer, "service-account-key-file", paths.Certificate("sa.pub")},
			setting{release.APIServer, "service-account-signing-key-file",
				paths.Certificate("sa.key")},
			setting{release.ControllerManager, "service-account-private-key-file",
				paths.Certificate("sa.key")})
	}
	for _, s := range wanted {
		pod, err := staticpod.Read(ctx, e, n, s.component)
		if err != nil {
			return err
		}
		value := manifest.ArgumentValue(pod, s.arg)
		// a killed run of the first stage may have written it already
		if value != s.want && !strings.HasPrefix(value, rotationDir(paths)+"/") {
			return problem.New(fmt.Errorf("--%s of %s is %s and not %s: its file would not "+
				"be replaced", s.arg, s.component, untrusted.Quote(value), s.want),
				"replace it manually, and leave it out of --ca")
		}
	}
	if slices.Contains(names, rotation.ClusterAuthority) {
		return checkKubeletAuthority(ctx, e, n)
	}
	return nil
}

// checkKubeletAuthority is an error if kube-apiserver verifies kubelets by a copy of the cluster CA,
// which would become stale. It may be another CA.
func checkKubeletAuthority(ctx context.Context, e *engine.Env, n *node.Node) error {
	file, err := kubeletAuthority(ctx, e, n)
	own := n.Paths.Cert("ca")
	if err != nil || file == "" || file == own {
		return err
	}
	copied, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return err
	}
	present, err := state.ReadRequired(ctx, e.World, own)
	if err != nil {
		return err
	}
	cas, err := pki.ParseCertificates(present)
	if err != nil {
		return err
	}
	others, err := pki.ParseCertificates(copied)
	if err != nil {
		return problem.During("reading "+file, err, "restore the file, or set "+
			"--kubelet-certificate-authority of kube-apiserver to "+own)
	}
	for _, ca := range cas {
		if slices.ContainsFunc(others, ca.Equal) {
			return problem.New(fmt.Errorf("--kubelet-certificate-authority of kube-apiserver is %s, "+
				"a copy of the cluster CA: it would not be replaced", untrusted.Quote(file)),
				"set it to "+own)
		}
	}
	return nil
}

// behindError is the error of a stage that nodes have to reach first.
func behindError(names []string, before rotation.Stage) error {
	return problem.New(fmt.Errorf("these nodes have not reached stage %q: %s", before,
		strings.Join(names, ", ")),
		"run this on each of them: kubeadm certs rotate-ca "+before.Command(),
		"delete the Nodes of machines that no longer exist: kubectl delete node NAME")
}
