package preflight

import (
	"errors"
	"slices"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// target returns the target of a file.
func target(path string) string { return change.FileTarget(path) }

const kubeletUnit = "service:kubelet"

// halfInit is a machine on which an init was killed after the control plane had started.
func halfInit() *machine {
	m := fit()
	for _, path := range []string{
		"/etc/kubernetes/manifests/kube-apiserver.yaml",
		"/etc/kubernetes/manifests/kube-controller-manager.yaml",
		"/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/manifests/etcd.yaml",
		"/var/lib/kubelet/config.yaml",
	} {
		m.files[path] = "ours"
		m.made = append(m.made, target(path))
	}
	m.files["/var/lib/etcd/member"] = "of the member, not made by us"
	m.made = append(m.made, target("/var/lib/etcd"), kubeletUnit)
	for _, address := range []string{":6443", ":10259", ":10257", ":10250", "10.0.0.5:2379",
		"10.0.0.5:2380"} {
		m.busy[address] = &state.PortError{Address: address, Owner: "nginx (pid 812)"}
	}
	return m
}

// halfJoin is a machine on which a join was killed after the kubelet had received its certificate.
func halfJoin() *machine {
	m := fit()
	for _, path := range []string{
		"/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt",
		"/var/lib/kubelet/config.yaml",
	} {
		m.files[path] = "ours"
		m.made = append(m.made, target(path))
	}
	m.files["/etc/kubernetes/kubelet.conf"] = "of the kubelet, not made by us"
	m.made = append(m.made, kubeletUnit)
	m.busy[":10250"] = &state.PortError{Address: ":10250", Owner: "kubelet (pid 812)"}
	return m
}

func failed(t *testing.T, m *machine, checks []Check) []string {
	t.Helper()
	var all Failures
	errors.As(Run(t.Context(), m, checks, nil).Err(), &all)
	return all.checkNames()
}

func TestResumedRunPassesChecks(t *testing.T) {
	if got := failed(t, halfInit(), Init(controlPlane(), tool(t))); len(got) > 0 {
		t.Errorf("the second init fails at %v", got)
	}
	if got := failed(t, halfJoin(), Join(worker(), tool(t), KubeletVersion())); len(got) > 0 {
		t.Errorf("the second join fails at %v", got)
	}
}

func TestFilesOfOthersFailChecks(t *testing.T) {
	m := halfInit()
	m.made = nil
	want := []string{
		"Port-6443", "Port-10259", "Port-10257",
		"FileAvailable--etc-kubernetes-manifests-kube-apiserver.yaml",
		"FileAvailable--etc-kubernetes-manifests-kube-controller-manager.yaml",
		"FileAvailable--etc-kubernetes-manifests-kube-scheduler.yaml",
		"FileAvailable--etc-kubernetes-manifests-etcd.yaml",
		"Port-10250", "Port-2379", "Port-2380", "DirAvailable--var-lib-etcd",
	}
	if got := failed(t, m, Init(controlPlane(), tool(t))); !slices.Equal(got, want) {
		t.Errorf("init fails at %v, want %v", got, want)
	}
	m = halfJoin()
	m.made = nil
	want = []string{
		"FileAvailable--etc-kubernetes-kubelet.conf",
		"FileAvailable--etc-kubernetes-bootstrap-kubelet.conf",
		"Port-10250", "FileAvailable--etc-kubernetes-pki-ca.crt",
	}
	if got := failed(t, m, Join(worker(), tool(t), KubeletVersion())); !slices.Equal(got, want) {
		t.Errorf("join fails at %v, want %v", got, want)
	}
}

// A target that a run of ours made excuses what follows from it, and nothing else.
func TestEachTargetExcusesOwnChecksOnly(t *testing.T) {
	for _, c := range []struct {
		lost string // target that was not made
		init bool
		want []string
	}{
		{target("/etc/kubernetes/manifests/kube-scheduler.yaml"), true,
			[]string{"Port-10259", "FileAvailable--etc-kubernetes-manifests-kube-scheduler.yaml"}},
		{target("/etc/kubernetes/manifests/kube-apiserver.yaml"), true,
			[]string{"Port-6443", "FileAvailable--etc-kubernetes-manifests-kube-apiserver.yaml"}},
		{target("/etc/kubernetes/manifests/etcd.yaml"), true,
			[]string{"FileAvailable--etc-kubernetes-manifests-etcd.yaml", "Port-2379", "Port-2380",
				"DirAvailable--var-lib-etcd"}},
		{kubeletUnit, true, nil},
		{target("/var/lib/kubelet/config.yaml"), true, nil},
		{target("/etc/kubernetes/bootstrap-kubelet.conf"), false,
			[]string{"FileAvailable--etc-kubernetes-bootstrap-kubelet.conf"}},
		{target("/etc/kubernetes/pki/ca.crt"), false,
			[]string{"FileAvailable--etc-kubernetes-pki-ca.crt"}},
	} {
		m, checks := halfJoin(), Join(worker(), tool(t), KubeletVersion())
		if c.init {
			m, checks = halfInit(), Init(controlPlane(), tool(t))
		}
		m.made = slices.DeleteFunc(m.made, func(s string) bool { return s == c.lost })
		if got := failed(t, m, checks); !slices.Equal(got, c.want) {
			t.Errorf("without %s: fails at %v, want %v", c.lost, got, c.want)
		}
	}
}

func TestForeignAddressFailsResumedRun(t *testing.T) {
	m := halfInit()
	m.busy["10.0.0.5:2379"] = errors.New("cannot assign requested address")
	if got := failed(t, m, Init(controlPlane(), tool(t))); !slices.Equal(got,
		[]string{"Port-2379"}) {
		t.Errorf("fails at %v", got)
	}
}

func TestResumedJoinWithoutBootstrapKubeconfig(t *testing.T) {
	m := halfJoin()
	bootstrap := "/etc/kubernetes/bootstrap-kubelet.conf"
	delete(m.files, bootstrap)
	m.made = slices.DeleteFunc(m.made, func(s string) bool { return s == target(bootstrap) })
	if got := failed(t, m, Join(worker(), tool(t), KubeletVersion())); len(got) > 0 {
		t.Errorf("fails at %v", got)
	}
}
