package release

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Names of the components with flags that are no images of Kubernetes' own.
const (
	Kubelet = "kubelet"
	Etcd    = "etcd"
)

// span says in which minors a component has a flag, or all flags that begin like it. Zero means without end.
type span struct {
	component   string
	flag        string // ends with "*" if it stands for more than one
	since, gone uint
}

// spans lists the flags that came or went since the oldest release that is known; flags.txt has all of the newest.
func spans() []span {
	var all []span
	add := func(since, gone uint, component string, flags ...string) {
		for _, f := range flags {
			all = append(all, span{component, f, since, gone})
		}
	}
	for _, component := range []string{APIServer, ControllerManager, Scheduler} {
		add(35, 0, component, "min-compatibility-version")
		add(36, 0, component, "tls-curve-preferences")
	}
	add(35, 0, ControllerManager, "concurrent-device-taint-eviction-syncs", "controller-shutdown-timeout")
	add(36, 0, ControllerManager, "concurrent-resourceclaim-syncs")
	add(37, 0, ControllerManager, "concurrent-disruption-syncs")
	add(0, 37, ControllerManager, "concurrent-service-syncs")
	add(0, 34, Kubelet, "cloud-config", "register-schedulable")
	add(0, 35, Kubelet, "pod-infra-container-image")
	add(0, 37, Kubelet, "application-metrics-count-limit", "boot-id-file", "container-hints", "containerd", "containerd-namespace",
		"enable-load-reader", "event-storage-age-limit", "event-storage-event-limit", "global-housekeeping-interval",
		"log-cadvisor-usage", "machine-id-file", "storage-driver-*")
	add(6, 0, Etcd, "feature-gates", "watch-progress-notify-interval")
	add(0, 7, Etcd, "discovery", "discovery-proxy", "experimental-*")
	return all
}

// LacksFlag is the error of a component of that version that is given the flag too early or too late; nil for others.
func LacksFlag(component string, v *version.Version, flag string) error {
	for _, s := range spans() {
		switch {
		case s.component != component || !s.covers(flag):
		case v.Minor() < s.since:
			return fmt.Errorf("%s %s does not know --%s, which came with %d.%d", component, v, flag, v.Major(), s.since)
		case s.gone > 0 && v.Minor() >= s.gone:
			return fmt.Errorf("%s %s does not know --%s any more, which went with %d.%d", component, v, flag, v.Major(), s.gone)
		}
	}
	return nil
}

func (s span) covers(flag string) bool {
	prefix, many := strings.CutSuffix(s.flag, "*")
	return flag == s.flag || many && strings.HasPrefix(flag, prefix)
}

// EtcdVersion is the version of the local etcd by its tag. A tag that is no version stands for the usual one.
func (i Images) EtcdVersion() *version.Version {
	v, err := version.ParseSemantic(i.EtcdTag())
	if err != nil {
		v = version.MustParseSemantic(i.line().etcd)
	}
	return version.MustParseGeneric(fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())) // without the number of the image's build
}
