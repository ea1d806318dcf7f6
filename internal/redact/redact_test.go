package redact

import (
	"strings"
	"testing"
)

const (
	secret = "x4tq8zr2m6wn1p0v"
	key    = "3f9a0c27e51b84d6f0a1c2e3b4d5968778695a4b3c2d1e0f1a2b3c4d5e6f7081"
)

func TestSecretsAreHidden(t *testing.T) {
	for _, text := range []string{
		"unknown command \"k3h9wd." + secret + "\"",
		"unknown flag: --tokenk3h9wd." + secret,
		"172.31.37.150:6443--tokenk3h9wd." + secret + "--discovery-token",
		"k3h9wd." + secret + "sha256",
		"k3h9wd%2E" + secret,
		"K3H9WD." + strings.ToUpper(secret),
		"\\u00a0k3h9wd." + secret + "\\u00a0",
		"abcdef.ghijklmnopqrstuv",
		"tokenabcdef.ghijklmnopqrstuv",
		"k3h9w." + secret,
		"k3h9wd." + secret[:15],
		key, key[:63], key + "0", strings.ToUpper(key), "--certificate-key" + key,
		`"` + key + `\r"`,
	} {
		got := Message(text)
		for _, hidden := range []string{secret, secret[:15], strings.ToUpper(secret),
			"ghijklmnopqrstuv", key[:63], strings.ToUpper(key)} {
			if strings.Contains(got, hidden) {
				t.Errorf("%s is shown as %s", text, got)
			}
		}
	}
	if got, want := Message("--certificate-key "+key[:63]),
		"--certificate-key [63 hex digits hidden]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUsersOfURLsAreHidden(t *testing.T) {
	for text, want := range map[string]string{
		`parse "http://me:pw@proxy:3128": bad`: `parse "http://[hidden]@proxy:3128": bad`,
		`invalid proxy address "me:p w@proxy:3128": parse "http://me:p w@proxy:3128": net/url: invalid userinfo`: `invalid proxy address [hidden]`,
		`parse "http://me:p w\"x@proxy:3128": net/url: invalid userinfo`:                                         `parse "http://[hidden]@proxy:3128": net/url: invalid userinfo`,
		`parse "http://me:p/w@proxy:3128": invalid port ":p" after host`:                                         `parse "http://[hidden]@proxy:3128": invalid port after host`,
		`Invalid value: "me:pw@192.0.2.1:6443": must be`:                                                         `Invalid value: "[hidden]@192.0.2.1:6443": must be`,
		"registry.k8s.io/etcd:3.7.0-0@sha256:" +
			key: "registry.k8s.io/etcd:3.7.0-0@sha256:" + key,
		"http://me:p@w@proxy:3128/":               "http://[hidden]@proxy:3128/",
		"http://me:p/w?x#y@proxy:3128":            "http://[hidden]@proxy:3128",
		"http://http:/me:pw@proxy:3128":           "http://[hidden]@proxy:3128",
		"http://http//me:pw@proxy:3128":           "http://http//[hidden]@proxy:3128",
		"http://ghp_token@host/x@y":               "http://[hidden]@y",
		"https://host:5000/v2/etcd@sha256:" + key: "https://host:5000/v2/etcd@sha256:" + key,
		"https://u:p@host:5000/etcd@sha256:" + key: "https://[hidden]@host:5000/etcd@sha256:" +
			key,
		"https://[2001:db8::1]:6443/a@b":             "https://[2001:db8::1]:6443/a@b",
		"unix:///run/containerd/containerd.sock":     "unix:///run/containerd/containerd.sock",
		"context kubernetes-admin@kubernetes":        "context kubernetes-admin@kubernetes",
		"context system:node:cp1@kubernetes":         "context system:node:cp1@kubernetes",
		"see https://kubernetes.io/docs or x@y.test": "see https://kubernetes.io/docs or x@y.test",
	} {
		if got := Message(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

func TestPublicValuesAreNotHidden(t *testing.T) {
	for _, text := range []string{
		"sha256:" + key, "SHA256:" + key, "sha256%3A" + key, "sha256:" + key[:63],
		"registry.k8s.io/etcd:3.7.0-0@sha256:" + key,
		"nodeRegistration.kubeletExtraArgs: localAPIEndpoint.advertiseAddress",
		"kubelet.KubeletConfiguration", "v1beta4.ClusterConfiguration",
		"validatingwebhookconfigurations.admissionregistration.k8s.io",
		"kube-apiserver-cp1.example.internal", "10.244.0.0/16",
		"/etc/kubernetes/manifests/kube-controller-manager.yaml",
		"d41d8cd98f00b204e9800998ecf8427e", "k3h9wd", "token ID k3h9wd.",
		"jws-kubeconfig-k3h9wd: eyJhbGciOiJIUzI1NiIsImtpZCI6ImszaDl3ZCJ9..x4tq8zr2m6wn1p0vx4tq8zr2m6wn1p0v",
	} {
		if got := Message(text); got != text {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// Names and IDs of hexadecimal letters have the form of a certificate key.
func TestNamesAreNotHidden(t *testing.T) {
	letters := strings.Repeat("a", 70)
	for _, text := range []string{
		`--node-name: Invalid value: "` + letters + `": must be shorter`,
		`--node-name: Invalid value: "` + key + `": must be shorter`,
		`node "` + key + `" is not ready`, "Node " + key + " was created",
		"nodes cp1, " + key + " and cp2", "the host name is " + key,
		"signed for the names [kubernetes " + key + " localhost]",
		"system:node:" + key, "etcd-" + key, key + ".example.internal",
		"/etc/kubernetes/" + key + "/x", letters, `argument 1 "` + letters + `"`,
		`"StopContainer" containerID="containerd://` + key + `"`,
		`PodSandboxStatus of sandbox "` + key + `" failed`,
		"public key hash " + key, "crictl logs " + key, "crictl inspect " + key,
	} {
		if got := Message(text); got != text {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	for _, text := range []string{
		"node cp1: the certificate key " + key + " is wrong",
		`certificateKey: Invalid value: "` + letters + `": must have 64 digits`,
		"--node-name cp1 --certificate-key " + letters, "CERTIFICATE_KEY=" + key,
		`kubeadm config node: argument 2 "` + key + `"`, `unknown command "` + key + `"`,
		"10.0.0.1:6443--certificate-key" + key + "--control-plane",
		`--token: Invalid value: "` + key + `"`, "file " + key + " does not exist",
		"--node-name=cp1 " + key, `pod="kube-system/a" seed="` + key + `"`, `{"node":"a","x":"` + key + `"}`,
	} {
		got := Message(text)
		if strings.Contains(got, key) || strings.Contains(got, letters) {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// Errors, progress and run logs hide credentials of others too.
func TestMessagesHideCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"server said: Authorization: Token s3cr3t":                                 "server said: Authorization: [hidden]",
		"Set-Cookie: id=s3cr3t; Path=/":                                            "Set-Cookie: [hidden]",
		`Get "https://files.example/x?v=1&sig=s3cr3t&a=b": EOF`:                    `Get "https://files.example/x?v=1&sig=[hidden]&a=b": EOF`,
		"pull with ghp_s3cr3ts3cr3t failed":                                        "pull with [hidden] failed",
		"the key is AKIAIOSFODNN7EXAMPLE":                                          "the key is [hidden]",
		`-----BEGIN PRIVATE KEY-----\nMIIs3cr3t\n-----END PRIVATE KEY-----\n: bad`: `[hidden]\n: bad`,
		"me:$apr1$x1y2z3a4$s3cr3ts3cr3t":                                           "me:[hidden]",
	} {
		if got := Message(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
