package release

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Names of the components that have flags and whose images do not carry the Kubernetes version.
const (
	Kubelet = "kubelet"
	Etcd    = "etcd"
)

// flagRange is the range of minor versions in which a component has a flag, or all flags with a
// prefix. A zero means that the range has no limit.
type flagRange struct {
	component   string
	flag        string // ends with "*" if it stands for more than one
	since, gone uint
}

// flagRanges lists the flags that were added or removed since the oldest supported release, and those
// removed before it that configurations still have. flags.txt lists all flags of the newest one.
func flagRanges() []flagRange {
	var all []flagRange
	add := func(since, gone uint, component string, flags ...string) {
		for _, f := range flags {
			all = append(all, flagRange{component, f, since, gone})
		}
	}
	for _, component := range []string{APIServer, ControllerManager, Scheduler} {
		add(35, 0, component, "min-compatibility-version")
		add(36, 0, component, "tls-curve-preferences")
	}
	add(35, 0, ControllerManager, "concurrent-device-taint-eviction-syncs",
		"controller-shutdown-timeout")
	add(36, 0, ControllerManager, "concurrent-resourceclaim-syncs")
	add(37, 0, ControllerManager, "concurrent-disruption-syncs")
	add(0, 37, ControllerManager, "concurrent-service-syncs")
	add(0, 34, Kubelet, "cloud-config", "register-schedulable")
	add(0, 35, Kubelet, "pod-infra-container-image")
	add(0, 37, Kubelet, "application-metrics-count-limit", "boot-id-file", "container-hints",
		"containerd", "containerd-namespace",
		"enable-load-reader", "event-storage-age-limit", "event-storage-event-limit",
		"global-housekeeping-interval",
		"log-cadvisor-usage", "machine-id-file", "storage-driver-*")
	// https://github.com/kubernetes/kubernetes/tree/master/CHANGELOG
	for _, component := range []string{APIServer, ControllerManager, Scheduler, Kubelet} {
		add(0, 26, component, "add-dir-header", "alsologtostderr", "log-backtrace-at", "log-dir",
			"log-file", "log-file-max-size", "logtostderr", "one-output", "skip-headers",
			"skip-log-headers", "stderrthreshold")
	}
	add(0, 19, APIServer, "basic-auth-file")
	add(0, 22, APIServer, "kubelet-https")
	add(0, 24, APIServer, "address", "insecure-bind-address", "insecure-port", "port")
	add(0, 24, ControllerManager, "address", "port")
	add(0, 27, ControllerManager, "enable-taint-manager", "pod-eviction-timeout")
	add(0, 23, Scheduler, "policy-config-file", "policy-configmap", "policy-configmap-namespace",
		"use-legacy-policy-config")
	add(0, 24, Kubelet, "cni-bin-dir", "cni-conf-dir", "network-plugin")
	add(0, 27, Kubelet, "container-runtime")
	add(6, 0, Etcd, "feature-gates", "watch-progress-notify-interval")
	add(0, 7, Etcd, "discovery", "discovery-proxy", "experimental-*")
	return all
}

// CheckFlag returns an error if the flag was added after that version of the component, or
// removed before it.
func CheckFlag(component string, v *version.Version, flag string) error {
	for _, s := range flagRanges() {
		switch {
		case s.component != component || !s.matches(flag):
		case v.Minor() < s.since:
			return fmt.Errorf("%s %s has no flag --%s (added in %d.%d)", component, v, flag,
				v.Major(), s.since)
		case s.gone > 0 && v.Minor() >= s.gone:
			return fmt.Errorf("%s %s has no flag --%s (removed in %d.%d)", component, v, flag,
				v.Major(), s.gone)
		}
	}
	return nil
}

func (s flagRange) matches(flag string) bool {
	prefix, many := strings.CutSuffix(s.flag, "*")
	return flag == s.flag || many && strings.HasPrefix(flag, prefix)
}
