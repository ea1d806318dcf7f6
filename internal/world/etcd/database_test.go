package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/pki"
)

// database writes a database as etcd does.
type database struct {
	t        *testing.T
	file     string
	revision int64
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{t: t, file: filepath.Join(t.TempDir(), "db"), revision: 1}
	for bucket, entries := range map[string]map[string]string{
		keyBucket: nil, metaBucket: {storageVersionKey: "3.7.0"}, clusterBucket: {clusterVersionKey: "3.7.0"},
		memberBucket: {"8e9e05c52164694d": `{"id":1,"peerURLs":["https://192.0.2.10:2380"],"name":"cp1"}`,
			"9e9e05c52164694d": `{"id":2,"peerURLs":["https://192.0.2.11:2380"]}`, "bad": "{"},
	} {
		d.update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			for key, value := range entries {
				err = errors.Join(err, b.Put([]byte(key), []byte(value)))
			}
			return err
		})
	}
	return d
}

func (d *database) update(do func(*bolt.Tx) error) {
	d.t.Helper()
	db, err := bolt.Open(d.file, 0o600, &bolt.Options{NoSync: true, Timeout: time.Second})
	if err == nil {
		err = errors.Join(db.Update(do), db.Close())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// put adds a revision of a key; a nil value deletes it.
func (d *database) put(key string, value []byte) {
	d.t.Helper()
	d.revision++
	id := append(binary.BigEndian.AppendUint64(nil, uint64(d.revision)), "_\x00\x00\x00\x00\x00\x00\x00\x00"...)
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: value}
	if value == nil {
		id = append(id, 't')
	} else {
		kv.CreateRevision, kv.ModRevision, kv.Version = 1, d.revision, 1
	}
	data, err := proto.Marshal(kv)
	if err != nil {
		d.t.Fatal(err)
	}
	d.update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(keyBucket)).Put(id, data) })
}

func (d *database) putConfigMap(key string, data map[string]string) {
	d.t.Helper()
	raw, err := (&corev1.ConfigMap{Data: data}).Marshal()
	if err != nil {
		d.t.Fatal(err)
	}
	value, err := (&runtime.Unknown{Raw: raw}).Marshal()
	if err != nil {
		d.t.Fatal(err)
	}
	d.put(key, append([]byte("k8s\x00"), value...))
}

func TestReadDatabase(t *testing.T) {
	d := newDatabase(t)
	ca, pem := newTestCA(t)
	d.putConfigMap(rootCAKey, map[string]string{"ca.crt": string(pem)})
	d.putConfigMap(kubeadmConfigKey, map[string]string{"ClusterConfiguration": "kubernetesVersion: v1.36.3\n"})
	d.put("/registry/secrets/a/b", []byte("k8s:enc:aescbc:v1:old:xxxx"))
	d.put("/registry/secrets/a/c", []byte("k8s:enc:aescbc:v1:key1:xxxx"))
	d.put("/registry/secrets/a/b", []byte("k8s:enc:secretbox:v1:key2:xxxx"))
	d.put("/registry/secrets/a/d", []byte("k8s:enc:kms:v2:gone:xxxx"))
	d.put("/registry/secrets/a/d", nil)
	d.put("/registry/configmaps/a/plain", []byte("k8s\x00 says k8s:enc:aescbc:v1:text: in its text"))
	got, err := (&Cluster{}).ReadDatabase(t.Context(), d.file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Revision != 9 || got.Keys != 5 || got.StorageVersion != "3.7.0" || got.EtcdVersion != "3.7.0" ||
		got.KubernetesVersion != "v1.36.3" ||
		!slices.Equal(got.Members, []string{"cp1", "https://192.0.2.11:2380"}) ||
		!slices.Equal(got.CAHashes, []string{ca}) ||
		!slices.Equal(got.Encryption, []string{"aescbc:key1", "secretbox:key2"}) {
		t.Errorf("got %+v", got)
	}
}

// A file that another program has locked is an error after a while, and no reason to wait without end.
func TestReadLockedDatabase(t *testing.T) {
	d := newDatabase(t)
	other, err := bolt.Open(d.file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := (&Cluster{}).ReadDatabase(t.Context(), d.file); err == nil || errors.Is(err, etcdsnapshot.ErrDatabase) {
		t.Errorf("got %v", err)
	}
}

func newTestCA(t *testing.T) (hash string, pem []byte) {
	t.Helper()
	key, err := pki.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 1000)), pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(bytes.NewReader(bytes.Repeat([]byte{7}, 1000)), key,
		pki.Spec{CommonName: "kubernetes", Validity: pki.NewValidity(time.Now(), time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return pki.PinOf(ca.Certificate).String(), pki.EncodeCertificates(ca.Certificate)
}

// Each byte of the headers of pages and of many entries is damaged: the result is an error or a
// description, and never a crash. A snapshot is verified before its database is read, so that these
// are files made on purpose.
func TestReadDamagedDatabase(t *testing.T) {
	d := newDatabase(t)
	for i := range 60 {
		d.put(fmt.Sprintf("/registry/secrets/a/%d", i), []byte("k8s:enc:aescbc:v1:key1:"+strings.Repeat("x", 300)))
	}
	whole, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "damaged")
	read := func(data []byte) error {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := (&Cluster{}).ReadDatabase(t.Context(), file)
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 4096, 8192, len(whole) / 2} {
		if err := read(whole[:size]); !errors.Is(err, etcdsnapshot.ErrDatabase) {
			t.Errorf("%d of %d bytes: %v", size, len(whole), err)
		}
	}
	failed := 0
	for page := 0; page < len(whole); page += 4096 {
		for offset := range 64 {
			damaged := slices.Clone(whole)
			damaged[page+offset] ^= 0xff
			if read(damaged) != nil {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no damage was found")
	}
	t.Logf("%d of %d damages are errors", failed, len(whole)/4096*64)
}
