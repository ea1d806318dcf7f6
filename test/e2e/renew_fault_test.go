//go:build e2e

package e2e

import (
	"testing"

	"kubeadm/test/nodes"
)

// TestRenewalOnFaultyMachine renews the certificates of a machine whose disk is read-only or full,
// whose keys are of other certificates, and three times at once. Each certificate is the old or the
// new one, with its key.
func TestRenewalOnFaultyMachine(t *testing.T) {
	n := sharedCluster(t).cp
	renewAll := []string{kubeadm, "certs", "renew", "all"}
	succeeds := func(t *testing.T) {
		runCommand(t, n, renewAll...)
		checkKeyPairs(t, n)
	}
	t.Run("read-only directory", func(t *testing.T) {
		runShell(t, n, `mount --bind /etc/kubernetes/pki /etc/kubernetes/pki
			mount -o remount,bind,ro /etc/kubernetes/pki`)
		t.Log(checkFails(t, n, []string{"read-only file system", certsDir + "apiserver.",
			"remount,rw /etc/kubernetes/pki\n"}, renewAll...).Stderr)
		runShell(t, n, "umount /etc/kubernetes/pki")
		checkKeyPairs(t, n)
		succeeds(t)
	})
	t.Run("full disk in the middle", func(t *testing.T) {
		// the certificates of etcd come after others; there is space for one file, not for two
		runShell(t, n, `cp -a /etc/kubernetes/pki/etcd /root/etcd-pki
			mount -t tmpfs -o size=64k tmpfs /etc/kubernetes/pki/etcd
			cp -a /root/etcd-pki/. /etc/kubernetes/pki/etcd
			cat /dev/zero > /etc/kubernetes/pki/etcd/fill || true
			truncate --size=-4096 /etc/kubernetes/pki/etcd/fill`)
		t.Log(checkFails(t, n, []string{"no space left on device", certsDir + "etcd/"},
			renewAll...).Stderr)
		checkKeyPairs(t, n)
		runShell(t, n, "rm /etc/kubernetes/pki/etcd/fill")
		succeeds(t)
		runShell(t, n, "umount /etc/kubernetes/pki/etcd; rm -r /root/etcd-pki")
		checkKeyPairs(t, n)
	})
	t.Run("key of another certificate", func(t *testing.T) {
		runShell(t, n, "cd /etc/kubernetes/pki; cp front-proxy-client.key apiserver-kubelet-client.key")
		succeeds(t)
	})
	t.Run("key of another CA", func(t *testing.T) {
		runShell(t, n, "cd /etc/kubernetes/pki; cp -p ca.key /root/ca.key; cat front-proxy-ca.key > ca.key")
		before := listFiles(t, n)
		t.Log(checkFails(t, n, []string{certsDir + "ca.key", certsDir + "ca.crt"},
			renewAll...).Stderr)
		if changed := changedFiles(before, listFiles(t, n)); len(changed) > 0 {
			t.Errorf("files were rewritten:%s", indentLines(changed))
		}
		runShell(t, n, "mv /root/ca.key /etc/kubernetes/pki/ca.key")
		succeeds(t)
	})
	t.Run("three at once", func(t *testing.T) { renewConcurrently(t, n, renewAll) })
	kubectl(t, n, "get", "nodes")
}

// renewConcurrently starts a command three times at once: at least one succeeds, the others say that
// another one is running.
func renewConcurrently(t *testing.T, n *nodes.Node, command []string) {
	var all []*nodes.Process
	for range 3 {
		p, err := n.Start(t.Context(), command...)
		must(t, err)
		all = append(all, p)
	}
	succeeded := 0
	for _, p := range all {
		result, err := p.Wait()
		switch result.Code {
		case 0:
			succeeded++
		case 1:
			checkError(t, result, []string{"another kubeadm is running"})
		default:
			t.Errorf("exit code %d: %v", result.Code, err)
		}
	}
	t.Logf("%d of %d succeeded", succeeded, len(all))
	if succeeded == 0 {
		t.Error("none has succeeded")
	}
	checkKeyPairs(t, n)
}
