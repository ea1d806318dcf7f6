package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
)

func checkVolumes(c *v1beta4.ClusterConfiguration) field.ErrorList {
	return slices.Concat(
		mounts(field.NewPath("apiServer", "extraVolumes"), c.APIServer.ExtraVolumes),
		mounts(field.NewPath("controllerManager", "extraVolumes"), c.ControllerManager.ExtraVolumes),
		mounts(field.NewPath("scheduler", "extraVolumes"), c.Scheduler.ExtraVolumes),
	)
}

// mounts asks for what the kubelet would refuse the whole Pod without.
func mounts(at *field.Path, list []v1beta4.HostPathMount) (errs field.ErrorList) {
	for i, v := range list {
		if len(validation.IsDNS1123Label(v.Name)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), v.Name, "must be lower-case letters, digits and dashes, at most 63 (RFC 1123)"))
		}
		errs = append(errs, absolute(at.Index(i).Child("hostPath"), v.HostPath)...)
		errs = append(errs, absolute(at.Index(i).Child("mountPath"), v.MountPath)...)
	}
	return errs
}

func checkEnvs(c *v1beta4.ClusterConfiguration) field.ErrorList {
	errs := slices.Concat(
		variables(field.NewPath("apiServer", "extraEnvs"), c.APIServer.ExtraEnvs),
		variables(field.NewPath("controllerManager", "extraEnvs"), c.ControllerManager.ExtraEnvs),
		variables(field.NewPath("scheduler", "extraEnvs"), c.Scheduler.ExtraEnvs),
	)
	if c.Etcd.Local != nil {
		errs = append(errs, variables(field.NewPath("etcd", "local", "extraEnvs"), c.Etcd.Local.ExtraEnvs)...)
	}
	return errs
}

func variables(at *field.Path, list []v1beta4.EnvVar) (errs field.ErrorList) {
	for i, v := range list {
		if v.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"), "an environment variable needs a name"))
		}
	}
	return errs
}
