package etcddata

import (
	"bytes"
	"strings"
	"testing"

	"kubeadm/internal/state"
)

const memberManifest = `metadata: {name: etcd}
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 1001}
  containers:
  - name: sidecar
    volumeMounts: [{name: other, mountPath: /var/lib}]
  - name: etcd
    command: [etcd, --name=cp1, --data-dir=/var/lib/etcd, "--advertise-client-urls=https://[2001:db8::1]:2379", "--initial-advertise-peer-urls=https://[2001:db8::1]:2380", "--initial-cluster=cp1=https://[2001:db8::1]:2380", --force-new-cluster=false]
    volumeMounts: [{name: etcd-data, mountPath: /var/lib/etcd}]
  volumes:
  - {name: etcd-data, hostPath: {path: /mnt/etcd}}
  - {name: other, hostPath: {path: /srv}}
`

func TestMember(t *testing.T) {
	m, err := parseMember([]byte(memberManifest))
	if err != nil {
		t.Fatal(err)
	}
	if m.MemberDir() != "/mnt/etcd/member" {
		t.Errorf("the data are in %s", m.MemberDir())
	}
	if m.IsForced() {
		t.Error("--force-new-cluster=false counts")
	}
	if uid, gid, ok := m.owner(); uid != 1000 || gid != 1001 || !ok {
		t.Errorf("etcd runs as %d:%d", uid, gid)
	}
	other := state.Member{Name: "cp2", PeerURLs: []string{"https://[2001:db8::2]:2380"}}
	if urls := m.ClientURLsLike(other); len(urls) != 1 || urls[0] != "https://[2001:db8::2]:2379" {
		t.Errorf("the client URLs of the other member are %v", urls)
	}
	if url := m.PeerURLAt("2001:db8::3"); url != "https://[2001:db8::3]:2380" {
		t.Errorf("its peer URL is %s", url)
	}
	alone, err := m.ManifestAlone()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // the same bytes each time: others would restart etcd
		if again, err := m.ManifestAlone(); err != nil || !bytes.Equal(again, alone) {
			t.Fatalf("%v\n%s\n%s", err, alone, again)
		}
	}
	if strings.Contains(string(alone), forceFlag) || !strings.Contains(string(alone), "--initial-cluster-state=existing") {
		t.Errorf("the manifest is\n%s", alone)
	}
	forced, err := m.ManifestForced()
	if err != nil || !strings.Contains(string(forced), "--force-new-cluster=true") {
		t.Errorf("%v\n%s", err, forced)
	}
}
