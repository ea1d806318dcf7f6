package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImages(t *testing.T) {
	for name, c := range map[string]struct {
		images Images
		want   []string
	}{
		"default": {Images{Target: parseTarget(t, "v1.37.1")}, []string{
			"registry.k8s.io/kube-apiserver:v1.37.1",
			"registry.k8s.io/kube-controller-manager:v1.37.1",
			"registry.k8s.io/kube-scheduler:v1.37.1",
			"registry.k8s.io/kube-proxy:v1.37.1",
			"registry.k8s.io/coredns/coredns:v1.14.6",
			"registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.7.0-0",
		}},
		"nothing optional": {Images{Target: parseTarget(t, "v1.36.3"), NoProxy: true, NoDNS: true,
			ExternalEtcd: true}, []string{
			"registry.k8s.io/kube-apiserver:v1.36.3",
			"registry.k8s.io/kube-controller-manager:v1.36.3",
			"registry.k8s.io/kube-scheduler:v1.36.3",
			"registry.k8s.io/pause:3.10.2",
		}},
		"own registry": {Images{
			Target: parseTarget(t, "v1.38.0-alpha.1+a.b"), Repository: "reg:5000/k8s",
			DNS:  ImageChoice{Repository: "dns.example", Tag: "v1"},
			Etcd: ImageChoice{Repository: "registry.k8s.io", Tag: "3.6.1-0"},
		}, []string{
			"reg:5000/k8s/kube-apiserver:v1.38.0-alpha.1_a.b",
			"reg:5000/k8s/kube-controller-manager:v1.38.0-alpha.1_a.b",
			"reg:5000/k8s/kube-scheduler:v1.38.0-alpha.1_a.b",
			"reg:5000/k8s/kube-proxy:v1.38.0-alpha.1_a.b",
			"dns.example/coredns:v1",
			"reg:5000/k8s/pause:3.10.2",
			"registry.k8s.io/etcd:3.6.1-0",
		}},
		"digests": {Images{
			Target: parseTarget(t, "v1.37.1"), NoProxy: true,
			DNS:  ImageChoice{Tag: "v1.14.6@sha256:0123"},
			Etcd: ImageChoice{Tag: "3.6.1-0@sha256:4567"},
		}, []string{
			"registry.k8s.io/kube-apiserver:v1.37.1",
			"registry.k8s.io/kube-controller-manager:v1.37.1",
			"registry.k8s.io/kube-scheduler:v1.37.1",
			"registry.k8s.io/coredns/coredns:v1.14.6@sha256:0123",
			"registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.6.1-0@sha256:4567",
		}},
		"CI build": {Images{Target: parseTarget(t, "ci/v1.37.2-rc.0.4+abc"), NoDNS: true,
			ExternalEtcd: true}, []string{
			"gcr.io/k8s-staging-ci-images/kube-apiserver:v1.37.2-rc.0.4_abc",
			"gcr.io/k8s-staging-ci-images/kube-controller-manager:v1.37.2-rc.0.4_abc",
			"gcr.io/k8s-staging-ci-images/kube-scheduler:v1.37.2-rc.0.4_abc",
			"gcr.io/k8s-staging-ci-images/kube-proxy:v1.37.2-rc.0.4_abc",
			"registry.k8s.io/pause:3.10.2",
		}},
		"CI build, own registry": {Images{
			Target: parseTarget(t, "ci/v1.37.2-rc.0.4+abc"), Repository: "mirror", NoProxy: true,
			NoDNS: true, ExternalEtcd: true,
		}, []string{
			"mirror/kube-apiserver:v1.37.2-rc.0.4_abc",
			"mirror/kube-controller-manager:v1.37.2-rc.0.4_abc",
			"mirror/kube-scheduler:v1.37.2-rc.0.4_abc", "mirror/pause:3.10.2",
		}},
		"DNS alone from the default registry": {Images{
			Target: parseTarget(t, "v1.37.1"), Repository: "mirror", NoProxy: true,
			ExternalEtcd: true,
			DNS:          ImageChoice{Repository: DefaultRepository},
		}, []string{
			"mirror/kube-apiserver:v1.37.1", "mirror/kube-controller-manager:v1.37.1",
			"mirror/kube-scheduler:v1.37.1",
			"registry.k8s.io/coredns/coredns:v1.14.6", "mirror/pause:3.10.2",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.images.All()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A digest is no part of the version.
func TestVersionsOfImages(t *testing.T) {
	i := Images{Target: parseTarget(t, "v1.37.1"), DNS: ImageChoice{Tag: "v1.13.0@sha256:0123"},
		Etcd: ImageChoice{Tag: "3.6.1-0@sha256:4567"}}
	if got := i.CoreDNSTag(); got != "v1.13.0" {
		t.Errorf("the version of CoreDNS is %s", got)
	}
	if got := i.EtcdTag() + " " + i.EtcdVersion().String(); got != "3.6.1-0 3.6.1" {
		t.Errorf("the version of etcd is %s", got)
	}
}
