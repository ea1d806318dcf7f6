package reset_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/world/memory"
)

// A reset removes a dangling link, with which the next init would fail, and the unfinished files
// of a killed run. It keeps files of the user with similar names.
func TestCleanupRemovesOnlyOwnFiles(t *testing.T) {
	const dir = "/etc/kubernetes/"
	pending := change.TemporaryName("admin.conf", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	s := newScene(alone, member(1))
	s.Files["/etc/kubernetes"] = memory.File{Mode: fs.ModeDir | 0o755}
	s.Files[dir+"admin.conf"] = memory.File{Data: []byte("/nowhere/admin.conf"),
		Mode: fs.ModeSymlink | 0o777}
	s.Files[dir+"kubelet.conf"] = memory.File{Data: []byte("/root/kubelet.conf"),
		Mode: fs.ModeSymlink | 0o777}
	s.Files["/root/kubelet.conf"] = memory.File{Mode: 0o600}
	s.Files[dir+pending] = memory.File{Mode: 0o600}
	users := []string{".admin.conf1", ".admin.conf20260901120000123456", ".admin.conf.bak1",
		".admin.conf.kubeadm-20260901", "." + pending}
	for _, name := range users {
		s.Files[dir+name] = memory.File{Mode: 0o600}
	}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"admin.conf", "kubelet.conf", pending} {
		if _, there := s.Files[dir+name]; there {
			t.Errorf("%s is still there", name)
		}
	}
	for _, path := range append(slices.Clone(users), "../../root/kubelet.conf") {
		if _, err := s.Lstat(t.Context(), dir+path); err != nil {
			t.Errorf("%s is gone: %v", path, err)
		}
	}
}

func TestLinkToSystemDirectoryIsNotEmptied(t *testing.T) {
	s := newScene(alone, member(1))
	s.Files["/etc/kubernetes/pki"] = memory.File{Data: []byte("/etc"), Mode: fs.ModeSymlink | 0o777}
	s.Files["/etc/hosts"] = memory.File{Mode: 0o644}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	if _, there := s.Files["/etc/hosts"]; !there ||
		!s.said("a directory of the operating system: nothing was removed there") {
		t.Errorf("a file of /etc is there: %v; said was %q", there, s.lines)
	}
}

// The closing text lists files that arguments named, as they stay, but not those that are removed, are not there or
// belong to the operating system.
func TestClosingTextListsArgumentFiles(t *testing.T) {
	const enc, policy = "/etc/kubernetes/enc/encryption.yaml", "/srv/audit/policy.yaml"
	s := newScene(alone, member(1))
	s.Files["/etc/kubernetes/manifests/kube-apiserver.yaml"] = memory.File{Mode: 0o600, Data: []byte(`
apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver}
spec:
  containers:
  - name: kube-apiserver
    command: [kube-apiserver, --encryption-provider-config=` + enc + `, --audit-policy-file=/audit/policy.yaml,
      --audit-webhook-config-file=/audit/webhook.yaml, --client-ca-file=/etc/kubernetes/pki/ca.crt,
      --oidc-ca-file=/etc/ssl/certs/ca.crt, --audit-log-path=/in-container/audit.log]
    volumeMounts:
    - {name: enc, mountPath: ` + enc + `}
    - {name: audit, mountPath: /audit}
    - {name: pki, mountPath: /etc/kubernetes/pki}
    - {name: ca, mountPath: /etc/ssl/certs}
  volumes:
  - {name: enc, hostPath: {path: ` + enc + `}}
  - {name: audit, hostPath: {path: /srv/audit}}
  - {name: pki, hostPath: {path: /etc/kubernetes/pki}}
  - {name: ca, hostPath: {path: /etc/ssl/certs}}
`)}
	s.Files["/etc/kubernetes/manifests/kube-scheduler.yaml"] = memory.File{Mode: 0o600, Data: []byte("damaged")}
	for _, file := range []string{enc, policy, "/etc/kubernetes/pki/ca.crt", "/etc/ssl/certs/ca.crt", "/in-container/audit.log"} {
		if err := s.PutFile(file, memory.File{Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
	}
	if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	text := reset.ClosingText(s.e)
	if !strings.Contains(text, "may contain secrets:\n    "+enc+"\n    "+policy+"\nFor more") {
		t.Errorf("the closing text is %s", text)
	}
	if _, there := s.Files[enc]; !there {
		t.Errorf("%s is removed", enc)
	}
}

// A kubelet may keep its volumes in another directory, beside files of others.
func TestCleanupOfAnotherKubeletRoot(t *testing.T) {
	for name, c := range map[string]struct {
		env     string
		removed bool
	}{
		"kubeadm's file":            {`KUBELET_KUBEADM_ARGS="--v=2 --root-dir=/srv/kubelet"`, true},
		"a comment":                 {"# --root-dir=/srv/kubelet\nKUBELET_KUBEADM_ARGS=--v=2\n", false},
		"not dedicated":             {`KUBELET_KUBEADM_ARGS="--root-dir=/srv/kubelet --root-dir=/var/lib"`, false},
		"kubeadm's directory":       {`KUBELET_KUBEADM_ARGS="--root-dir=/var/lib/kubelet"`, false},
		"a directory in kubeadm's":  {`KUBELET_KUBEADM_ARGS="--root-dir=/var/lib/kubelet/root"`, false},
		"no absolute path, unknown": {`KUBELET_KUBEADM_ARGS="--root-dir=srv/kubelet"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(alone, member(1))
			s.Files["/var/lib/kubelet"] = memory.File{Mode: fs.ModeDir | 0o755}
			s.Files["/var/lib/kubelet/kubeadm-flags.env"] = memory.File{Data: []byte(c.env), Mode: 0o644}
			for _, dir := range []string{"/srv/kubelet", "/srv/kubelet/pods", "/srv/kubelet/pods/1"} {
				s.Files[dir] = memory.File{Mode: fs.ModeDir | 0o750}
			}
			for _, file := range []string{"/srv/kubelet/pods/1/etc-hosts", "/srv/kubelet/cpu_manager_state", "/srv/kubelet/mine"} {
				s.Files[file] = memory.File{Mode: 0o600}
			}
			if err := reset.Cleanup.Run(t.Context(), s.e); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"/srv/kubelet/pods/1/etc-hosts", "/srv/kubelet/cpu_manager_state"} {
				if _, there := s.Files[file]; there == c.removed {
					t.Errorf("%s is there: %t", file, there)
				}
			}
			if _, there := s.Files["/srv/kubelet/mine"]; !there {
				t.Error("a file of others is gone")
			}
		})
	}
}
