package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/release"
)

// checkFlags refuses arguments with which a component of the release would not start.
func checkFlags(c *v1beta4.ClusterConfiguration, target release.Target) (errs field.ErrorList) {
	lacks := func(component string, v *version.Version, args []v1beta4.Arg, path string, more ...string) {
		for i, a := range args {
			if err := release.LacksFlag(component, v, a.Name); err != nil {
				errs = append(errs, one(field.NewPath(path, more...).Index(i), a.Name, err.Error()+": delete it")...)
			}
		}
	}
	v := target.Version()
	lacks(release.APIServer, v, c.APIServer.ExtraArgs, "apiServer", "extraArgs")
	lacks(release.ControllerManager, v, c.ControllerManager.ExtraArgs, "controllerManager", "extraArgs")
	lacks(release.Scheduler, v, c.Scheduler.ExtraArgs, "scheduler", "extraArgs")
	if local := c.Etcd.Local; local != nil {
		images := release.Images{Target: target, Etcd: release.ImageChoice{Tag: local.ImageTag}}
		lacks(release.Etcd, images.EtcdVersion(), local.ExtraArgs, "etcd", "local", "extraArgs")
	}
	return errs
}
