package broken_test

import (
	"bytes"
	"context"
	"strings"

	"kubeadm/internal/etcdsnapshot"
)

// backups are archives that are intact, of clusters that a machine cannot rebuild.
func (m *generator) backups() {
	pack := func(name string, change func(*etcdsnapshot.Manifest, map[string]string)) {
		files := map[string]string{"pki/sa.key": m.texts["sa.key"], "pki/sa.pub": m.texts["sa.pub"],
			"config/kubeadm-config.yaml": clusterHead + "clusterName: prod\nkubernetesVersion: v1.37.1\n" +
				"controlPlaneEndpoint: cluster.example:6443\nnetworking: {podSubnet: 10.244.0.0/16}\n"}
		for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
			files["pki/"+base+".crt"], files["pki/"+base+".key"] = m.texts["ca.crt"], m.texts["ca.key"]
		}
		snapshot := m.texts["snapshot"]
		_, sum, err := etcdsnapshot.Verify(context.Background(), strings.NewReader(snapshot))
		m.keepError(err)
		a := etcdsnapshot.Manifest{Node: "cp9", Time: m.now, Snapshot: etcdsnapshot.Info{
			Size: int64(len(snapshot)), SHA256: sum, StorageVersion: "3.6.0"}}
		change(&a, files)
		for file, text := range files {
			if text != "" {
				a.Files = append(a.Files, etcdsnapshot.ArchivedFile{Name: file, Data: []byte(text)})
			}
		}
		var b bytes.Buffer
		m.keepError(etcdsnapshot.WriteArchive(context.Background(), &b, etcdsnapshot.Protection{}, a,
			strings.NewReader(snapshot)))
		m.texts["backup"+name] = b.String()
	}
	replace := func(file, from, to string) func(*etcdsnapshot.Manifest, map[string]string) {
		return func(_ *etcdsnapshot.Manifest, files map[string]string) {
			files[file] = strings.Replace(files[file], from, to, 1)
		}
	}
	without := func(file string) func(*etcdsnapshot.Manifest, map[string]string) {
		return func(_ *etcdsnapshot.Manifest, files map[string]string) { files[file] = "" }
	}
	of := func(change func(*etcdsnapshot.Info)) func(*etcdsnapshot.Manifest, map[string]string) {
		return func(a *etcdsnapshot.Manifest, _ map[string]string) { change(&a.Snapshot) }
	}
	const config = "config/kubeadm-config.yaml"
	pack("", func(*etcdsnapshot.Manifest, map[string]string) {})
	pack("-configless", without(config))
	pack("-keyless", without("pki/ca.key"))
	pack("-without-sa", without("pki/sa.key"))
	pack("-badkey", replace("pki/sa.key", "BEGIN", "BEGAN"))
	pack("-mixed", func(_ *etcdsnapshot.Manifest, files map[string]string) { files["pki/ca.key"] = m.texts["other.key"] })
	pack("-expired", func(_ *etcdsnapshot.Manifest, files map[string]string) {
		files["pki/ca.crt"], files["pki/ca.key"] = m.texts["expired.crt"], m.texts["expired.key"]
	})
	pack("-external", replace(config, "networking", "etcd: {external: {endpoints: ['https://192.0.2.9:2379']}}\nnetworking"))
	pack("-wal", replace(config, "networking", "etcd: {local: {extraArgs: [{name: wal-dir, value: /wal}]}}\nnetworking"))
	pack("-old", replace(config, "v1.37.1", "v1.20.0"))
	pack("-new", replace(config, "v1.37.1", "v1.99.0"))
	pack("-words", replace(config, "kind:", "kinds:"))
	pack("-newer-etcd", of(func(s *etcdsnapshot.Info) { s.StorageVersion = "3.9.0" }))
	pack("-encrypted", of(func(s *etcdsnapshot.Info) { s.Encryption = []string{"aescbc:key1"} }))
	pack("-other-ca", of(func(s *etcdsnapshot.Info) { s.CAHashes = []string{"sha256:00"} }))
}
