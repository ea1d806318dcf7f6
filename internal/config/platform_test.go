package config

import (
	"strings"
	"testing"

	"kubeadm/internal/node"
)

func windowsFacts(t *testing.T) Facts {
	facts := testFacts(t)
	facts.Platform, facts.Runtimes = node.Windows("C:"), nil
	return facts
}

func TestJoinOnWindows(t *testing.T) {
	const discovery = "discovery: {file: {kubeConfigPath: 'C:\\k\\discovery.conf'}}\n"
	local, _, err := Join(fileOf(joinHead+discovery+`patches: {directory: \patches}`+"\n"),
		NewJoinFlags(), windowsFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		local.CRISocket:                 "npipe:////./pipe/containerd-containerd",
		local.CACertPath:                "C:/etc/kubernetes/pki/ca.crt",
		local.Discovery.File:            "C:/k/discovery.conf",
		local.Patches:                   "C:/patches",
		local.Paths.KubeletKubeconfig(): "C:/etc/kubernetes/kubelet.conf",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for text, want := range map[string]string{
		"caCertPath: 'D:\\pki\\ca.crt'":                                  "",
		"caCertPath: ca.crt":                                             "must be an absolute path",
		"nodeRegistration: {criSocket: 'tcp://127.0.0.1:2375'}":          "",
		"nodeRegistration: {criSocket: 'unix:///run/containerd.sock'}":   "named pipe or TCP port",
		"controlPlane: {localAPIEndpoint: {advertiseAddress: 10.0.0.1}}": "control planes run on Linux",
	} {
		_, _, err := Join(fileOf(joinHead+discovery+text+"\n"), NewJoinFlags(), windowsFacts(t))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestControlPlanesRunOnLinux(t *testing.T) {
	err := CheckControlPlane(windowsFacts(t))
	if err == nil || !strings.Contains(err.Error(), "control planes run on Linux") {
		t.Errorf("got %v", err)
	}
	if err := CheckControlPlane(testFacts(t)); err != nil {
		t.Error(err)
	}
	n, _, err := Init(File{}, NewInitFlags(), windowsFacts(t)) // as for "kubeconfig user"
	if err != nil || n.CACertPath != "C:/etc/kubernetes/pki/ca.crt" {
		t.Errorf("the CA of a cluster is %q: %v", n.CACertPath, err)
	}
}

func TestCertificatesOnWindows(t *testing.T) {
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: 10.0.0.1:6443\ncertificatesDir: "
	for dir, want := range map[string]string{`C:\k\pki`: "C:/k/pki", "D:/pki": "D:/pki", "/k/pki": "C:/k/pki",
		"pki": "", "C:pki": ""} {
		file := fileOf(head + "'" + dir + "'\n")
		user, _, err := Init(file, NewInitFlags(), windowsFacts(t)) // as for "kubeconfig user"
		certs, _, otherErr := Certificates(file, windowsFacts(t))
		if want == "" {
			if err == nil || otherErr == nil || !strings.Contains(err.Error(), "must be an absolute path") {
				t.Errorf("%s: %v, %v", dir, err, otherErr)
			}
			continue
		}
		if err != nil || otherErr != nil {
			t.Errorf("%s: %v, %v", dir, err, otherErr)
		} else if user.Paths.Certificates != want || certs.Paths.Certificates != want {
			t.Errorf("%s: certificates are in %s and %s", dir, user.Paths.Certificates, certs.Paths.Certificates)
		}
	}
}

func TestResetOnWindows(t *testing.T) {
	for dir, want := range map[string]string{"": "", `D:\pki`: "", "pki": "must be an absolute path",
		`C:\Windows\pki`: "must be a directory that contains only certificates"} {
		flags := NewResetFlags()
		if dir != "" {
			flags.CertificatesDir = dir
		}
		r, _, err := Reset(File{}, flags, windowsFacts(t))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
		if err == nil && r.CRISocket != "npipe:////./pipe/containerd-containerd" {
			t.Errorf("the container runtime is at %s", r.CRISocket)
		}
		switch got := r.Paths.Certificates; {
		case dir == "" && got != "C:/etc/kubernetes/pki", dir == `D:\pki` && got != "D:/pki":
			t.Errorf("%q: certificates are in %s", dir, got)
		}
	}
}

func TestExamplesForWindows(t *testing.T) {
	join := encoded(t, ExampleJoin("win1", node.Windows("C:"))[0])
	reset := encoded(t, ExampleReset(node.Windows("C:"))[0])
	for _, want := range []string{"criSocket: npipe:////./pipe/containerd-containerd", "caCertPath: C:/etc/kubernetes/pki/ca.crt"} {
		if !strings.Contains(join, want) {
			t.Errorf("%q is not in\n%s", want, join)
		}
	}
	if !strings.Contains(reset, "criSocket: npipe:") {
		t.Error(reset)
	}
}

func TestPatchesOfUpgradedWindows(t *testing.T) {
	for dir, isValid := range map[string]bool{`'C:\patches'`: true, "/patches": true, "patches": false} {
		_, _, err := UpgradeNode(fileOf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n"+
			"node: {patches: {directory: "+dir+"}}\n"), UpgradeFlags{})
		if (err == nil) != isValid {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
