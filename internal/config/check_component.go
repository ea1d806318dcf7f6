package config

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"

	"kubeadm/internal/config/strict"
	"kubeadm/internal/config/v1beta4"
)

// checkStaticPods asks for what the static Pods of a control plane cannot run without. Commands
// that start none of them do not ask.
func checkStaticPods(c *v1beta4.ClusterConfiguration) field.ErrorList {
	errs := slices.Concat(checkVolumes(c), checkEnvs(c),
		checkMountable(field.NewPath("certificatesDir"), c.CertificatesDir))
	if local := c.Etcd.Local; local != nil {
		errs = append(errs, checkMountable(field.NewPath("etcd", "local", "dataDir"), local.DataDir)...)
	}
	return errs
}

// checkMountable refuses directories that would hide a container's own when they are mounted into it.
func checkMountable(at *field.Path, dir string) field.ErrorList {
	if !slices.Contains([]string{"/", "/dev", "/proc", "/sys"}, path.Clean(dir)) {
		return nil
	}
	return invalid(at, dir, "cannot be mounted into a container: choose a directory of its own")
}

// checkProxy asks whether kube-proxy on Linux knows the mode.
func checkProxy(p *proxyconfig.KubeProxyConfiguration) field.ErrorList {
	modes := []string{proxyMode, proxyModeIPVS, "nftables"}
	if mode := string(p.Mode); mode != "" && !slices.Contains(modes, mode) {
		text := "must be one of " + strings.Join(modes, ", ")
		if near := strict.Nearest(mode, modes); near != "" {
			text += "; did you mean " + near + "?"
		}
		return invalid(field.NewPath("mode"), mode, text)
	}
	return nil
}

func checkVolumes(c *v1beta4.ClusterConfiguration) field.ErrorList {
	return slices.Concat(
		checkMounts(field.NewPath("apiServer", "extraVolumes"), c.APIServer.ExtraVolumes),
		checkMounts(field.NewPath("controllerManager", "extraVolumes"), c.ControllerManager.ExtraVolumes),
		checkMounts(field.NewPath("scheduler", "extraVolumes"), c.Scheduler.ExtraVolumes),
	)
}

// checkMounts asks for what the kubelet would refuse the whole Pod without.
func checkMounts(at *field.Path, list []v1beta4.HostPathMount) (errs field.ErrorList) {
	for i, v := range list {
		if len(validation.IsDNS1123Label(v.Name)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), v.Name, "must be lower-case letters, digits and dashes, at most 63 (RFC 1123)"))
		}
		errs = append(errs, checkAbsolutePath(at.Index(i).Child("hostPath"), v.HostPath)...)
		errs = append(errs, checkAbsolutePath(at.Index(i).Child("mountPath"), v.MountPath)...)
		errs = append(errs, checkOneOf(at.Index(i).Child("pathType"), string(v.PathType), pathTypes()...)...)
	}
	return errs
}

// pathTypes are what the kubelet can be told to expect of a path; empty is nothing.
func pathTypes() (all []string) {
	for _, t := range []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate,
		corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev,
	} {
		all = append(all, string(t))
	}
	return all
}

func checkEnvs(c *v1beta4.ClusterConfiguration) field.ErrorList {
	errs := slices.Concat(
		checkEnvVars(field.NewPath("apiServer", "extraEnvs"), c.APIServer.ExtraEnvs),
		checkEnvVars(field.NewPath("controllerManager", "extraEnvs"), c.ControllerManager.ExtraEnvs),
		checkEnvVars(field.NewPath("scheduler", "extraEnvs"), c.Scheduler.ExtraEnvs),
	)
	if c.Etcd.Local != nil {
		errs = append(errs, checkEnvVars(field.NewPath("etcd", "local", "extraEnvs"), c.Etcd.Local.ExtraEnvs)...)
	}
	return errs
}

func checkEnvVars(at *field.Path, list []v1beta4.EnvVar) (errs field.ErrorList) {
	for i, v := range list {
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(at.Index(i).Child("name"), "an environment variable needs a name"))
		case len(validation.IsRelaxedEnvVarName(v.Name)) > 0:
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), v.Name, "must be printable letters without an equals sign"))
		}
	}
	return errs
}
