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

func TestInitOnWindows(t *testing.T) {
	_, _, err := Init(File{}, NewInitFlags(), windowsFacts(t))
	if err == nil || !strings.Contains(err.Error(), "control planes run on Linux") {
		t.Errorf("got %v", err)
	}
}

func TestResetOnWindows(t *testing.T) {
	r, _, err := Reset(File{}, NewResetFlags(), windowsFacts(t))
	if err != nil || r.Paths.Certificates != "C:/etc/kubernetes/pki" ||
		r.CRISocket != "npipe:////./pipe/containerd-containerd" {
		t.Errorf("%+v, %v", r.Local, err)
	}
}
