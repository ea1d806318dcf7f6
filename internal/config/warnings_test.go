package config

import (
	"strings"
	"testing"
)

// Init and "config validate" give the same warnings; an empty want means none.
func TestNodeWarnings(t *testing.T) {
	const init = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: 10.1.2.3}\n---\n"
	const kubelet, proxy = "\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n", "\n---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	for text, want := range map[string]string{
		"networking: {podSubnet: 10.244.0.0/16}":                                                       "",
		"networking: {podSubnet: 10.1.0.0/16}":                                                         "advertise address 10.1.2.3 is inside podSubnet 10.1.0.0/16",
		"networking: {serviceSubnet: 10.1.0.0/16}":                                                     "advertise address 10.1.2.3 is inside serviceSubnet 10.1.0.0/16",
		"networking: {podSubnet: 'fd00:1::/56'}":                                                       "podSubnet fd00:1::/56 and serviceSubnet 10.96.0.0/12 are of different IP families",
		"networking: {serviceSubnet: '10.96.0.0/16,fd00::/112', podSubnet: 10.2.0.0/16}":               "serviceSubnet has two IP families, podSubnet has one",
		"networking: {serviceSubnet: '10.96.0.0/16,fd00::/112', podSubnet: 'fd00:1::/56,10.2.0.0/16'}": "list the IP family of the advertise address first",
		"networking: {serviceSubnet: '10.96.0.0/16,fd00::/112', podSubnet: '10.2.0.0/16,fd00:1::/56'}": "",
		"networking: {serviceSubnet: 10.96.0.0/16, podSubnet: '10.2.0.0/16,fd00:1::/56'}":              "",
		"certificatesDir: /etc/ssl":                                                                    `certificatesDir "/etc/ssl" is a directory of the operating system`,
		"etcd: {local: {dataDir: /var/lib}}":                                                           `etcd.local.dataDir "/var/lib" is a directory of the operating system`,
		"{}" + kubelet + "cgroupDriver: Systemd":                                                       `cgroupDriver "Systemd" is neither systemd nor cgroupfs`,
		"{}" + kubelet + "cgroupDriver: cgroupfs":                                                      "",
		"{}" + proxy + "mode: nftables":                                                                "",
		"clusterName: a\ncertificateValidityPeriod: 1h":                                                "",
	} {
		file := fileOf(init + clusterHead + strings.TrimPrefix(text, "{}") + "\n")
		_, run, err := Init(file, NewInitFlags(), testFacts(t))
		if err != nil {
			t.Errorf("%s\nis refused: %v", text, err)
		}
		file.ReportComponentProblems = true
		_, validated, err := Migrate(file, testFacts(t))
		if err != nil {
			t.Errorf("%s\nis refused: %v", text, err)
		}
		for _, warnings := range [][]string{run.Warnings, validated.Warnings} {
			got := strings.Join(warnings, "\n")
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s\nwarnings %q, want %q", text, got, want)
			}
		}
	}
}

func TestStaticPodChecksAreForInitOnly(t *testing.T) {
	for _, text := range []string{
		"apiServer: {extraVolumes: [{name: a, mountPath: /a}]}",
		"scheduler: {extraEnvs: [{name: 'A=B'}]}",
		"etcd: {local: {dataDir: /}}", "certificatesDir: /proc",
	} {
		file := fileOf(clusterHead + text + "\n")
		if _, _, err := Init(file, NewInitFlags(), testFacts(t)); err == nil {
			t.Errorf("%s\nis accepted by init", text)
		}
		for name, read := range map[string]func() error{
			"images list":  func() error { _, _, err := Cluster(file, NewInitFlags(), testFacts(t)); return err },
			"images pull":  func() error { _, _, err := Images(file, NewInitFlags(), testFacts(t)); return err },
			"certificates": func() error { _, _, err := Certificates(file, testFacts(t)); return err },
		} {
			if err := read(); err != nil {
				t.Errorf("%s\nis refused by %s: %v", text, name, err)
			}
		}
	}
}
