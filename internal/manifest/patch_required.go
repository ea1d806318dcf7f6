package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/release"
)

// requiredArguments lists the arguments without which a component exits, loses its data, serves
// everybody, or does not work with the rest of the control plane.
func requiredArguments(component string) []string {
	switch component {
	case Etcd:
		return []string{"advertise-client-urls", "cert-file", "client-cert-auth", "data-dir",
			"initial-advertise-peer-urls", "initial-cluster", "key-file", "listen-client-urls",
			"listen-metrics-urls", "listen-peer-urls", "name", "peer-cert-file",
			"peer-client-cert-auth", "peer-key-file", "peer-trusted-ca-file", "trusted-ca-file"}
	case release.APIServer:
		return []string{"authorization-mode", "client-ca-file", "etcd-cafile", "etcd-certfile",
			"etcd-keyfile", "etcd-servers", "kubelet-client-certificate", "kubelet-client-key",
			"proxy-client-cert-file", "proxy-client-key-file", "requestheader-client-ca-file",
			"secure-port", "service-account-issuer", "service-account-key-file",
			"service-account-signing-key-file", "service-cluster-ip-range", "tls-cert-file",
			"tls-private-key-file"}
	case release.ControllerManager:
		return []string{"kubeconfig", "root-ca-file", "use-service-account-credentials"}
	case release.Scheduler:
		return []string{"kubeconfig"}
	}
	return nil
}

// substituteArgument returns the argument that a component also accepts in place of a required one;
// empty if there is none.
func substituteArgument(component, name string) string {
	switch component + " " + name {
	case release.APIServer + " authorization-mode":
		return "authorization-config"
	case release.APIServer + " service-account-key-file",
		release.APIServer + " service-account-signing-key-file":
		return "service-account-signing-endpoint"
	case release.Scheduler + " kubeconfig":
		return "config"
	}
	return ""
}

// checkRequired returns an error if patches took something away that the component of a static Pod
// needs. What was missing before is not the fault of a patch.
func checkRequired(before, after []byte) error {
	var was, is corev1.Pod
	if err := errors.Join(json.Unmarshal(before, &was), json.Unmarshal(after, &is)); err != nil {
		return err
	}
	old := findMissingParts(&was)
	missing := slices.DeleteFunc(findMissingParts(&is),
		func(part string) bool { return slices.Contains(old, part) })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("it removes something that %s needs: %s", is.Name, strings.Join(missing, ", "))
}

// findMissingParts lists what the component of a static Pod needs and its manifest lacks.
func findMissingParts(pod *corev1.Pod) (missing []string) {
	c, err := ComponentContainer(pod, pod.Name)
	if err != nil {
		return nil // an error of its own
	}
	for _, name := range requiredArguments(pod.Name) {
		substitute := substituteArgument(pod.Name, name)
		switch {
		case hasArgument(c, name):
			missing = append(missing, findMissingVolume(pod, c, name)...)
		case substitute == "":
			missing = append(missing, "the argument --"+name)
		case !hasArgument(c, substitute):
			missing = append(missing, fmt.Sprintf("the argument --%s or --%s", name, substitute))
		}
	}
	if !pod.Spec.HostNetwork {
		missing = append(missing, "spec.hostNetwork: true")
	}
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{
		{"livenessProbe", c.LivenessProbe},
		{"readinessProbe", c.ReadinessProbe},
		{"startupProbe", c.StartupProbe},
	} {
		if p.probe == nil {
			missing = append(missing, "the "+p.name)
			continue
		}
		if get := p.probe.HTTPGet; get != nil && get.Port.StrVal != "" &&
			!slices.ContainsFunc(c.Ports,
				func(port corev1.ContainerPort) bool { return port.Name == get.Port.StrVal }) {
			missing = append(missing,
				fmt.Sprintf("the port %q of its %s", get.Port.StrVal, p.name))
		}
	}
	return missing
}

// hasArgument reports whether the command of a container contains an argument, also inside the text of
// a shell script that starts the component.
func hasArgument(c *corev1.Container, name string) bool {
	form := regexp.MustCompile(`(^|[^a-z0-9-])--?` + regexp.QuoteMeta(name) + `([^a-z0-9-]|$)`)
	return slices.ContainsFunc(slices.Concat(c.Command, c.Args), form.MatchString)
}

// findMissingVolume names the argument of a container if its value is a path outside all volumes.
// Data in an emptyDir would be lost whenever the manifest changes.
func findMissingVolume(pod *corev1.Pod, c *corev1.Container, name string) []string {
	file := ""
	for _, arg := range slices.Concat(c.Command, c.Args) { // the last one counts
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			file = value
		}
	}
	if !strings.HasPrefix(file, "/") {
		return nil
	}
	for _, m := range c.VolumeMounts {
		dir := strings.TrimRight(m.MountPath, "/")
		if file != dir && !strings.HasPrefix(file, dir+"/") {
			continue
		}
		i := slices.IndexFunc(pod.Spec.Volumes,
			func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || name != "data-dir" || pod.Spec.Volumes[i].EmptyDir == nil {
			return nil
		}
	}
	return []string{fmt.Sprintf("a volume of the host for --%s=%s", name, file)}
}
