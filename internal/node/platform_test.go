package node

import (
	"net/url"
	"testing"
)

func TestSystemDirectoriesOfWindows(t *testing.T) {
	for dir, want := range map[string]bool{
		`C:\`: true, `C:\Windows`: true, "c:/windows/System32": true, "C:/Users/Jane": true, "/Users": true,
		"D:/Program Files": true, "C:/etc": true, "C:/var/lib": true,
		`C:\Windows.`: true, `C:\windows \System32`: true, `C:\Windows::$INDEX_ALLOCATION`: true, `\\?\C:\Windows`: true,
		`\\.\C:\Users\Jane`: true, `\\localhost\C$\Windows`: true, `\\server\share`: true, `\\server\share\pki`: false,
		"C:/etc/kubernetes/pki": false, "C:/Users/Jane/pki": false, "D:/windows-pki": false,
	} {
		if got := Windows("C:").IsSystemDir(dir); got != want {
			t.Errorf("%s: %t", dir, got)
		}
	}
	if (Platform{}).IsSystemDir("/Windows") {
		t.Error("on Linux /Windows is a directory like others")
	}
}

func TestPathsOfPlatforms(t *testing.T) {
	windows := Windows("D:")
	for _, c := range []struct {
		platform   Platform
		file, want string
		isAbs      bool
	}{
		{Platform{}, "/etc/kubernetes/", "/etc/kubernetes/", true},
		{Platform{}, `C:\etc`, `C:\etc`, false},
		{Platform{}, "", "", false},
		{windows, "/etc/kubernetes", "D:/etc/kubernetes", true},
		{windows, `C:\etc\kubernetes`, "C:/etc/kubernetes", true},
		{windows, "C:/etc", "C:/etc", true},
		{windows, `c:\etc`, "C:/etc", true},
		{windows, `\\server\share`, "//server/share", true},
		{windows, `C:file`, "C:file", false},
		{windows, `a\b`, "a/b", false},
		{windows, "https://host/file", "https://host/file", false},
		{windows, "", "", false},
	} {
		if got := c.platform.Clean(c.file); got != c.want {
			t.Errorf("%q: %q, want %q", c.file, got, c.want)
		}
		if got := c.platform.IsAbs(c.file); got != c.isAbs {
			t.Errorf("%q is absolute: %t", c.file, got)
		}
	}
	if got := windows.Paths().KubeletFlags(); got != "D:/var/lib/kubelet/kubeadm-flags.env" {
		t.Errorf("the kubelet's flags are in %s", got)
	}
	if (Platform{}).Paths() != DefaultPaths() {
		t.Error("the paths of Linux are not the default ones")
	}
}

func TestEndpointsOfPlatforms(t *testing.T) {
	for endpoint, on := range map[string]Platform{
		"unix:///run/containerd/containerd.sock": {},
		"npipe:////./pipe/containerd-containerd": Windows("C:"),
		"tcp://127.0.0.1:2375":                   Windows("C:"),
	} {
		u, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Platform{{}, Windows("C:")} {
			if p.IsCRISocket(u) != (p == on) {
				t.Errorf("%s on %v: %t", endpoint, p, p.IsCRISocket(u))
			}
		}
	}
}

func TestCommandsOfPlatforms(t *testing.T) {
	for verb, want := range map[string]string{"start": "Start-Service kubelet",
		"status": "Get-Service kubelet", "enable": "Set-Service kubelet -StartupType Automatic"} {
		if got := Windows("C:").ServiceCommand(verb, "kubelet"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := (Platform{}).ServiceCommand(verb, "kubelet"); got != "systemctl "+verb+" kubelet" {
			t.Errorf("on Linux: %s", got)
		}
	}
}
