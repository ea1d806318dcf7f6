package laws

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/release"
)

const (
	anyCluster      = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
	clusterDocument = anyCluster + "encryptionAlgorithm: ECDSA-P256\n" // as that of the machine
	kubeletDocument = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	proxyDocument   = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
)

// What each kind of change means for a node: which certificates are issued, what is replaced, in which
// order, and what happens later. The run does what the plan says, and no more.
func TestReconfigureMatrix(t *testing.T) {
	type effects = reconfiguration.Effects
	all := []string{manifest.Etcd, release.APIServer, release.ControllerManager, release.Scheduler}
	for name, c := range map[string]struct {
		document string
		flags    config.ReconfigureFlags
		want     effects
		later    string // a part of the only sentence about it
		writes   string // what a manifest, or the kubelet's file, has afterwards
	}{
		"SAN of the API server": {flags: config.ReconfigureFlags{AddCertSANs: []string{"api.example.com"}},
			want: effects{Certificates: []string{"apiserver"}}},
		"SAN of etcd's clients": {document: clusterDocument + "etcd: {local: {serverCertSANs: [etcd.example.com]}}",
			want: effects{Certificates: []string{"etcd-server"}}},
		"SAN of etcd's peers": {document: clusterDocument + "etcd: {local: {peerCertSANs: [etcd.example.com]}}",
			want: effects{Certificates: []string{"etcd-peer"}}},
		"argument of the API server": {flags: config.ReconfigureFlags{SetArgs: []string{"kube-apiserver:event-ttl=2h"}},
			want: effects{Restarted: []string{release.APIServer}}, writes: "--event-ttl=2h"},
		"volume of the API server": {document: clusterDocument +
			"apiServer: {extraVolumes: [{name: extra, hostPath: /etc/extra, mountPath: /etc/extra, pathType: DirectoryOrCreate}]}",
			want: effects{Restarted: []string{release.APIServer}}, writes: "path: /etc/extra"},
		"environment of the API server": {document: clusterDocument + "apiServer: {extraEnvs: [{name: EXTRA, value: set}]}",
			want: effects{Restarted: []string{release.APIServer}}, writes: "name: EXTRA"},
		"argument of the controller manager": {
			flags: config.ReconfigureFlags{SetArgs: []string{"kube-controller-manager:v=3"}},
			want:  effects{Restarted: []string{release.ControllerManager}}, writes: "--v=3"},
		"argument of the scheduler": {flags: config.ReconfigureFlags{SetArgs: []string{"kube-scheduler:v=3"}},
			want: effects{Restarted: []string{release.Scheduler}}, writes: "--v=3"},
		"argument of etcd": {flags: config.ReconfigureFlags{SetArgs: []string{"etcd:max-snapshots=4"}},
			want: effects{Restarted: []string{manifest.Etcd}}, writes: "--max-snapshots=4"},
		"image repository": {flags: config.ReconfigureFlags{ImageRepository: "registry.example.com/k8s"},
			want:   effects{Restarted: all, KubeProxy: true, CoreDNS: true},
			writes: "image: registry.example.com/k8s/kube-apiserver:"},
		"image of etcd": {document: clusterDocument + "etcd: {local: {imageTag: 9.9.9-0}}",
			want: effects{Restarted: []string{manifest.Etcd}}, writes: "/etcd:9.9.9-0"},
		"image of CoreDNS": {document: clusterDocument + "dns: {imageRepository: registry.example.com/dns}",
			want: effects{CoreDNS: true}},
		"kubelets": {document: kubeletDocument + "maxPods: 99", want: effects{Kubelet: true}, writes: "maxPods: 99",
			later: "maxPods"},
		"kubelets with room for more": {document: kubeletDocument + "maxPods: 120", want: effects{Kubelet: true}, writes: "maxPods: 120"},
		"kubelets, for later Pods": {document: kubeletDocument + "podPidsLimit: 100", want: effects{Kubelet: true},
			writes: "podPidsLimit: 100", later: "podPidsLimit"},
		"kube-proxy": {document: proxyDocument + "mode: nftables", want: effects{KubeProxy: true}},
		"a feature gate on": {flags: config.ReconfigureFlags{FeatureGates: []string{"AllAlpha=true"}},
			want: effects{Restarted: all[1:], Kubelet: true, KubeProxy: true}, writes: "--feature-gates=AllAlpha=true"},
		"a feature gate off": {flags: config.ReconfigureFlags{FeatureGates: []string{"AllBeta=false"}},
			want: effects{Restarted: []string{release.Scheduler, release.ControllerManager, release.APIServer},
				Kubelet: true, KubeProxy: true}, writes: "--feature-gates=AllBeta=false"},
		"a feature gate of one component": {
			flags: config.ReconfigureFlags{FeatureGates: []string{"kube-scheduler:AllAlpha=true"}},
			want:  effects{Restarted: []string{release.Scheduler}}, writes: "--feature-gates=AllAlpha=true"},
		"no addons": {document: clusterDocument + "dns: {disabled: true}", later: "dns.disabled"},
		"certificate validity": {document: clusterDocument + "certificateValidityPeriod: 1000h",
			later: "certificateValidityPeriod"},
		"CA validity": {document: clusterDocument + "caCertificateValidityPeriod: 90000h",
			later: "caCertificateValidityPeriod"},
		"keys": {document: anyCluster + "encryptionAlgorithm: RSA-2048", later: "encryptionAlgorithm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := reconfiguration.Request{Flags: c.flags}
			if c.document != "" {
				q.File = config.File{Name: "cluster.yaml", Data: []byte(c.document + "\n")}
			}
			var got effects
			s := reconfigureBy(func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
				w, err := reconfiguration.FindWanted(ctx, e, here, q)
				got = w.Effects
				return w, err
			})
			r := s.newRun(s.machine(t))
			out := r.mustSucceed(t)
			if (len(got.Later) > 0) != (c.later != "") || c.later != "" && !strings.Contains(got.Later[0], c.later) {
				t.Errorf("later: %q, not %q", got.Later, c.later)
			}
			got.Later = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			var replaced []string
			kubelet := false
			for _, did := range out.did {
				file := strings.TrimPrefix(did.Target(), change.FileTarget(""))
				if component, ok := strings.CutPrefix(file, "/etc/kubernetes/manifests/"); ok {
					replaced = append(replaced, strings.TrimSuffix(component, ".yaml"))
				}
				kubelet = kubelet || file == "/var/lib/kubelet/config.yaml"
			}
			if !slices.Equal(replaced, c.want.Restarted) || kubelet != c.want.Kubelet {
				t.Errorf("replaced %q and the kubelet: %t", replaced, kubelet)
			}
			var text strings.Builder
			for _, name := range append(listManifests(), "/var/lib/kubelet/config.yaml") {
				text.Write(r.machine.Files[name].Data)
			}
			if !strings.Contains(text.String(), c.writes) {
				t.Errorf("no file has %q", c.writes)
			}
		})
	}
}
