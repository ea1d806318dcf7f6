package preflight

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// fileFlags are the flags by which a component is given a file of the user's. It ends at once if it cannot read that.
func fileFlags() map[string][]string {
	return map[string][]string{
		release.APIServer: {
			"admission-control-config-file", "audit-policy-file", "audit-webhook-config-file", "authentication-config",
			"authentication-token-webhook-config-file", "authorization-config", "authorization-policy-file",
			"authorization-webhook-config-file", "egress-selector-config-file", "encryption-provider-config",
			"kubelet-certificate-authority", "oidc-ca-file", "token-auth-file", "tracing-config-file",
		},
		release.ControllerManager: {"cloud-config"},
		release.Scheduler:         {"config"},
	}
}

// section is a component's part of the ClusterConfiguration.
type section struct {
	component, field string
	user             node.Component
}

func sections(c *node.Cluster) []section {
	return []section{
		{release.APIServer, "apiServer", c.APIServer},
		{release.ControllerManager, "controllerManager", c.ControllerManager},
		{release.Scheduler, "scheduler", c.Scheduler},
	}
}

// componentFiles want what the user's arguments and volumes name to be on this machine, and to be shown to the component.
func componentFiles(n *node.Node) (list []Check) {
	for _, s := range sections(&n.Cluster) {
		for _, flag := range fileFlags()[s.component] {
			if path, given := node.LastArg(s.user.Args, flag); given && path != "" {
				list = append(list, s.argument(n, flag, path))
			}
		}
		for _, v := range s.user.Volumes {
			if mustExist(v.PathType) {
				list = append(list, s.volume(v))
			}
		}
	}
	return list
}

const componentFile = "ComponentFile"

func (s section) argument(n *node.Node, flag, path string) Check {
	return Check{Name: componentFile, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		onHost, shown, err := s.hostPath(n, path)
		switch {
		case err != nil:
			rep.fail(err)
		case !shown && n.Patches != "":
			rep.Warn("see that a patch does", "%s is given --%s=%s, but %s.extraVolumes shows it no such path", s.component, flag, path, s.field)
		case !shown:
			rep.Fail("mount the file, or its folder, there", "%s is given --%s=%s, but %s.extraVolumes shows it no such path", s.component, flag, path, s.field)
		default:
			s.there(ctx, r, rep, onHost, "--"+flag+"="+path)
		}
	}}
}

func (s section) volume(v node.Volume) Check {
	return Check{Name: componentFile, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		s.there(ctx, r, rep, v.HostPath, s.field+".extraVolumes, volume "+v.Name+" of type "+string(v.PathType))
	}}
}

// there fails if the path is not on this machine.
func (s section) there(ctx context.Context, r state.Reader, rep *Report, path, origin string) {
	switch _, err := r.Stat(ctx, path); {
	case errors.Is(err, fs.ErrNotExist):
		rep.Fail("put it there, on every control plane", "%s needs %s, which does not exist (%s)", s.component, path, origin)
	case err != nil:
		rep.Fail("see that it can be read", "%s needs %s (%s): %v", s.component, path, origin, err)
	}
}

// hostPath is where on this machine the path in the component's container leads.
func (s section) hostPath(n *node.Node, path string) (onHost string, shown bool, err error) {
	pod, err := manifest.StaticPod(s.component, n, manifest.Host{CADirs: manifest.CADirs()})
	if err != nil {
		return "", false, err
	}
	longest := ""
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		rest, inside := strings.CutPrefix(path, strings.TrimSuffix(m.MountPath, "/"))
		if !inside || rest != "" && rest[0] != '/' || len(m.MountPath) < len(longest) {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name {
				onHost, longest, shown = strings.TrimSuffix(v.HostPath.Path, "/")+rest, m.MountPath, true
			}
		}
	}
	return onHost, shown, nil
}

// mustExist tells whether the kubelet starts no Pod before the volume's path is there.
func mustExist(t corev1.HostPathType) bool {
	return t != corev1.HostPathUnset && t != corev1.HostPathDirectoryOrCreate && t != corev1.HostPathFileOrCreate
}
