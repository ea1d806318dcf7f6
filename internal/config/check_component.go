package config

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/strict"
)

// checkStaticPods checks the settings of the static Pods of a control plane. Only commands that
// start static Pods use it.
func checkStaticPods(c *v1beta4.ClusterConfiguration) field.ErrorList {
	errs := slices.Concat(
		checkVolumes(field.NewPath("apiServer", "extraVolumes"), c.APIServer.ExtraVolumes),
		checkVolumes(field.NewPath("controllerManager", "extraVolumes"),
			c.ControllerManager.ExtraVolumes),
		checkVolumes(field.NewPath("scheduler", "extraVolumes"), c.Scheduler.ExtraVolumes),
		checkEnvVars(field.NewPath("apiServer", "extraEnvs"), c.APIServer.ExtraEnvs),
		checkEnvVars(field.NewPath("controllerManager", "extraEnvs"),
			c.ControllerManager.ExtraEnvs),
		checkEnvVars(field.NewPath("scheduler", "extraEnvs"), c.Scheduler.ExtraEnvs),
	)
	if local := c.Etcd.Local; local != nil {
		errs = append(errs, checkEnvVars(field.NewPath("etcd", "local", "extraEnvs"),
			local.ExtraEnvs)...)
	}
	errs = append(errs, checkMountable(field.NewPath("certificatesDir"), c.CertificatesDir)...)
	if local := c.Etcd.Local; local != nil {
		errs = append(errs, checkMountable(field.NewPath("etcd", "local", "dataDir"),
			local.DataDir)...)
	}
	return errs
}

// checkMountable rejects directories that would hide the container's own if they were mounted.
func checkMountable(at *field.Path, dir string) field.ErrorList {
	if !slices.Contains([]string{"/", "/dev", "/proc", "/sys"}, path.Clean(dir)) {
		return nil
	}
	return invalid(at, dir, "cannot be mounted into a container: use another directory")
}

// checkProxy checks that kube-proxy on Linux supports the mode.
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

// checkVolumes finds volumes for which the kubelet would reject the whole Pod.
func checkVolumes(at *field.Path, list []v1beta4.HostPathMount) (errs field.ErrorList) {
	var types []string
	for _, t := range []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate,
		corev1.HostPathFile,
		corev1.HostPathFileOrCreate, corev1.HostPathSocket, corev1.HostPathCharDev,
		corev1.HostPathBlockDev,
	} {
		types = append(types, string(t))
	}
	for i, v := range list {
		if len(validation.IsDNS1123Label(v.Name)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), v.Name,
				"must be at most 63 lower-case letters, digits and dashes (RFC 1123)"))
		}
		errs = append(errs, checkAbsolutePath(at.Index(i).Child("hostPath"), v.HostPath)...)
		errs = append(errs, checkAbsolutePath(at.Index(i).Child("mountPath"), v.MountPath)...)
		errs = append(errs, checkOneOf(at.Index(i).Child("pathType"), string(v.PathType),
			types...)...)
	}
	return errs
}

func checkEnvVars(at *field.Path, list []v1beta4.EnvVar) (errs field.ErrorList) {
	for i, v := range list {
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(at.Index(i).Child("name"),
				"set the name of the environment variable"))
		case len(validation.IsRelaxedEnvVarName(v.Name)) > 0:
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), v.Name,
				"must be printable ASCII characters without an equals sign"))
		}
	}
	return errs
}
