package node_test

import (
	"testing"

	"kubeadm/internal/node"
)

func TestSystemDirs(t *testing.T) {
	for dir, want := range map[string]bool{
		"/": true, "/etc": true, "/etc/": true, "/usr/bin": true, "/usr/lib": true,
		"/usr/lib64": true, "/usr/libexec": true, "/usr/sbin": true,
		"/usr/local/bin": true, "/lib/systemd": true, "/lib/modules/6.1": true,
		"/etc/systemd": true, "/etc/systemd/system": true,
		"/etc/cni/net.d": true, "/opt/cni/bin": true, "/var/lib/docker": true,
		"/var/lib/containerd": true, "/var/lib/containers/storage": true,
		"/home/alice": true, "/home/alice/.ssh": true, "/root/.ssh": true, "/var/lib/../lib/": true,
		"/proc/1": true,

		"/etc/kubernetes": false, "/etc/kubernetes/pki": false, "/var/lib/kubelet": false,
		"/var/lib/etcd": false, "/home/alice/pki": false,
		"/srv/pki": false, "/root/pki": false, "/etc/ssl/kubernetes": false, "/tmp/pki": false,
		"/opt/etcd": false, "/libx": false,
		"/usr/local/etc/kubernetes": false, "/var/lib/docker-etcd": false, "/run/kubeadm": false,
	} {
		if got := node.IsSystemDir(dir); got != want {
			t.Errorf("%s: got %v", dir, got)
		}
	}
}
