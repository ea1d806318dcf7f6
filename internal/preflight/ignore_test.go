package preflight

import (
	"strings"
	"testing"

	"kubeadm/internal/node"
)

func TestUnknownNames(t *testing.T) {
	for name, want := range map[string]string{
		"all": "", "numcpu": "", "swap": "", "port-6443": "", "port-12345": "", "componentargs": "",
		"componentfile": "", "imagepull": "",
		"createjob": "", "corednsmigration": "", "fileexisting-crictl": "", "service-docker": "",
		"isprivilegeduser": "",
		"fileavailable--etc-kubernetes-manifests-kube-apiserver.yaml": "",
		"diravailable--srv-etcd":                                   "",
		"filecontent--proc-sys-net-bridge-bridge-nf-call-iptables": "",
		"numcpus":                   "did you mean NumCPU?",
		"memory":                    "has no effect",
		"port6443":                  "did you mean Port-6443?",
		"componentarg":              "did you mean ComponentArgs?",
		"kubeletverion":             "did you mean KubeletVersion?",
		"diravailable-var-lib-etcd": "did you mean DirAvailable--var-lib-etcd?",
		"fileavailable-etc-kubernetes-manifests-kube-apiserver.yaml": "did you mean FileAvailable--etc-kubernetes-manifests-kube-apiserver.yaml?",
		"":     "has no effect",
		"all ": "has no effect",
	} {
		got := strings.Join(UnknownNames(node.IgnoredChecks{name}), "\n")
		if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
