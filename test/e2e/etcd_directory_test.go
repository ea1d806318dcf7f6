//go:build e2e

package e2e

import (
	"io"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestRestoreEtcdInAnyDirectory restores etcd where its data directory is a mount of its own with a
// lost+found, or a link, or belongs to a user of its own.
func TestRestoreEtcdInAnyDirectory(t *testing.T) {
	inFullRun(t, "two minutes")
	for name, c := range map[string]struct{ prepare, cluster string }{
		"mount": {"mkdir -p /var/lib/etcd && mount -t tmpfs -o mode=0700 etcd /var/lib/etcd && mkdir /var/lib/etcd/lost+found",
			"etcd: {local: {dataDir: /var/lib/etcd}}"},
		"link without root": {"mkdir -p -m 0700 /srv/etcd-data && ln -s /srv/etcd-data /var/lib/etcd-link",
			"etcd: {local: {dataDir: /var/lib/etcd-link}}\nfeatureGates: {RootlessControlPlane: true}"},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			cp := addNode(t, newCluster(t), "cp1")
			runShell(t, cp, c.prepare)
			_, err := cp.Init(t.Context(), nodes.InitConfig(nodes.Config{Address: cp.Address(), Cluster: c.cluster}),
				io.Discard, "-v=1")
			must(t, err)
			createWitness(t, cp)
			runCommand(t, cp, kubeadm, "etcd", "snapshot", "save", snapshotFile)
			kubectl(t, cp, "create", "configmap", "later")
			t.Logf("%s", runCommand(t, cp, kubeadm, "etcd", "restore", snapshotFile, "--yes", "-v=1"))
			awaitWitness(t, cp)
			if found := kubectl(t, cp, "get", "configmap", "later", "--ignore-not-found"); found != "" {
				t.Errorf("what was written later is there: %s", found)
			}
			dir := "/var/lib/etcd/"
			if strings.Contains(name, "link") {
				dir = "/var/lib/etcd-link/"
				if target := runShell(t, cp, "readlink /var/lib/etcd-link"); strings.TrimSpace(target) != "/srv/etcd-data" {
					t.Errorf("the link leads to %q", target)
				}
			}
			if listed := runShell(t, cp, "ls "+dir); !strings.Contains(listed, "kubeadm-kept-") {
				t.Errorf("the previous data are not kept: %s", listed)
			}
			owners := strings.Fields(runShell(t, cp, "find "+dir+"member -printf '%U\\n' | sort -u"))
			if len(owners) != 1 || (owners[0] == "0") != (name == "mount") {
				t.Errorf("the data belong to the users %q", owners)
			}
		})
	}
}
