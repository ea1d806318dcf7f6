package etcd

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world/portable"
)

// Buckets of etcd's database and keys in them (server/storage/schema in etcd's repository).
const (
	keyBucket     = "key"
	metaBucket    = "meta"
	clusterBucket = "cluster"
	memberBucket  = "members"

	storageVersionKey = "storageVersion"
	clusterVersionKey = "clusterVersion"

	// a key of the bucket of keys: 8 bytes of revision, "_", 8 bytes of its part; a "t" after it marks a
	// deletion
	revisionLength  = 17
	tombstoneLength = 18
)

// ReadDatabase reads what the database of a snapshot says. It opens the file again for each part of it:
// what is read of an open database stays in the memory of the process.
func (k *Cluster) ReadDatabase(ctx context.Context, path string) (info etcdsnapshot.Info, err error) {
	r := keyReader{states: map[uint64]keyState{}, identity: map[string][]byte{}}
	var written int // the last transaction that has written
	for part := 0; part == 0 || r.next != nil; part++ {
		if err := viewDatabase(path, func(tx *bolt.Tx) error {
			keys := tx.Bucket([]byte(keyBucket))
			if keys == nil {
				return fmt.Errorf("%w: it has no bucket %q", etcdsnapshot.ErrDatabase, keyBucket)
			}
			if part > 0 {
				if tx.ID() != written {
					return errors.New("the database was changed while it was read")
				}
				return r.readPart(ctx, keys)
			}
			written = tx.ID()
			if info.StorageVersion, err = readVersion(tx, metaBucket, storageVersionKey); err != nil {
				return err
			}
			if info.EtcdVersion, err = readVersion(tx, clusterBucket, clusterVersionKey); err != nil {
				return err
			}
			info.Members, info.PeerURLs = readMembers(tx)
			return r.readPart(ctx, keys)
		}); err != nil {
			return info, err
		}
	}
	return info, r.describe(&info)
}

// readRevision returns the newest revision in a database, 0 if there is none.
func readRevision(path string) (revision int64, err error) {
	err = viewDatabase(path, func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte(keyBucket))
		if keys == nil {
			return fmt.Errorf("%w: it has no bucket %q", etcdsnapshot.ErrDatabase, keyBucket)
		}
		switch last, _ := keys.Cursor().Last(); {
		case len(last) >= revisionLength:
			revision = int64(binary.BigEndian.Uint64(last))
		case last != nil:
			return fmt.Errorf("%w: its last entry is not a revision of a key", etcdsnapshot.ErrDatabase)
		}
		return nil
	})
	return revision, err
}

// foreignLockTimeout is how long another program may hold a lock on the file.
const foreignLockTimeout = 5 * time.Second

// viewDatabase opens a database that is not trusted. etcd's own function for that ends the process if
// the database is damaged, as it panics in a goroutine. This one reads in the calling goroutine and
// turns panics and page faults into an error.
func viewDatabase(path string, view func(*bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("%w: %s", etcdsnapshot.ErrDatabase, untrusted.Line(fmt.Sprint(found)))
		}
	}()
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: foreignLockTimeout})
	if portable.IsSystemError(err) || errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("opening the database: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", etcdsnapshot.ErrDatabase, err)
	}
	defer func() { _ = db.Close() }()
	return db.View(view)
}

func readVersion(tx *bolt.Tx, bucket, key string) (string, error) {
	b := tx.Bucket([]byte(bucket))
	if b == nil {
		return "", nil
	}
	value := b.Get([]byte(key))
	if len(value) > 64 {
		return "", fmt.Errorf("%w: %s has %d bytes", etcdsnapshot.ErrDatabase, key, len(value))
	}
	return untrusted.Line(string(value)), nil
}

// maxMembers limits how many members are read; etcd clusters have at most seven or so.
const maxMembers = 100

// readMembers returns the names of the members, and their peer URLs by name.
func readMembers(tx *bolt.Tx) (names []string, urls map[string][]string) {
	b := tx.Bucket([]byte(memberBucket))
	if b == nil {
		return nil, nil
	}
	urls = map[string][]string{}
	c := b.Cursor()
	for key, value := c.First(); key != nil && len(names) < maxMembers; key, value = c.Next() {
		var member struct {
			Name     string   `json:"name"`
			PeerURLs []string `json:"peerURLs"`
		}
		if json.Unmarshal(value, &member) != nil {
			continue // the names only inform
		}
		if member.Name == "" {
			member.Name = strings.Join(member.PeerURLs, ",")
		}
		name := untrusted.Line(member.Name)
		names, urls[name] = append(names, name), member.PeerURLs
	}
	slices.Sort(names)
	return names, urls
}

// Keys of objects that say which cluster this is. etcd's keys begin with /registry by default
// (--etcd-prefix).
const (
	rootCAKey        = "/registry/configmaps/kube-system/kube-root-ca.crt"
	kubeadmConfigKey = "/registry/configmaps/kube-system/kubeadm-config"
)

// encryptedPrefix begins values that are encrypted at rest: k8s:enc:PROVIDER:VERSION:NAME: and the data.
const encryptedPrefix = "k8s:enc:"

// keyState is what the newest revision of one key is.
type keyState struct {
	isDeleted bool
	encrypted string // PROVIDER:NAME; empty if the value is not encrypted
}

// keyReader reads all revisions of all keys, oldest first.
type keyReader struct {
	next     []byte // the revision with which the next part begins; nil after the last one
	count    int
	revision int64
	states   map[uint64]keyState
	identity map[string][]byte // the newest values of the keys that identify the cluster
}

// partSize is how many bytes of keys and values a part has.
const partSize = 32 << 20

func (r *keyReader) readPart(ctx context.Context, b *bolt.Bucket) error {
	c := b.Cursor()
	revision, value := c.First()
	if r.next != nil {
		revision, value = c.Seek(r.next)
	}
	r.next = nil
	for size := 0; revision != nil; revision, value = c.Next() {
		if size > partSize {
			r.next = bytes.Clone(revision)
			return nil
		}
		size += len(revision) + len(value)
		if r.count++; r.count%10_000 == 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		if err := r.add(revision, value); err != nil {
			return err
		}
	}
	return nil
}

// add adds a revision of a key.
func (r *keyReader) add(revision, value []byte) error {
	if len(value) == 0 && len(revision) == revisionLength { // of a restore that has raised the revision
		r.revision = max(r.revision, int64(binary.BigEndian.Uint64(revision)))
		return nil
	}
	key, ok := rawKey(value)
	if !ok || len(revision) != revisionLength && len(revision) != tombstoneLength {
		return fmt.Errorf("%w: entry %d is not a revision of a key", etcdsnapshot.ErrDatabase, r.count)
	}
	r.revision = max(r.revision, int64(binary.BigEndian.Uint64(revision)))
	id := hashKey(key)
	if len(revision) == tombstoneLength {
		r.states[id] = keyState{isDeleted: true}
		delete(r.identity, string(key))
		return nil
	}
	name, err := encryptionKey(value)
	if err != nil {
		return err
	}
	r.states[id] = keyState{encrypted: name}
	if string(key) == rootCAKey || string(key) == kubeadmConfigKey {
		r.identity[string(key)] = bytes.Clone(value)
	}
	return nil
}

// describe writes what was read.
func (r *keyReader) describe(info *etcdsnapshot.Info) error {
	info.Revision = r.revision
	used := map[string]bool{}
	for _, s := range r.states {
		if !s.isDeleted {
			info.Keys++
		}
		if s.encrypted != "" && !used[s.encrypted] {
			used[s.encrypted] = true
			info.Encryption = append(info.Encryption, s.encrypted)
		}
	}
	slices.Sort(info.Encryption)
	return identify(r.identity, info)
}

// hashKey tells the keys of one database apart without keeping them: FNV-1a.
func hashKey(key []byte) uint64 {
	hash := uint64(14695981039346656037)
	for _, c := range key {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	return hash
}

// rawKey returns the key of an encoded mvccpb.KeyValue, whose first field it is.
func rawKey(value []byte) ([]byte, bool) {
	const keyTag = 1<<3 | 2 // field 1, bytes
	if len(value) < 2 || value[0] != keyTag {
		return nil, false
	}
	length, n := binary.Uvarint(value[1:])
	if n <= 0 || length > uint64(len(value)-1-n) {
		return nil, false
	}
	return value[1+n : 1+n+int(length)], true
}

// encryptionKey returns the provider and the name of the key with which a value is encrypted, or
// nothing. Only a value that may be encrypted is decoded.
func encryptionKey(encoded []byte) (string, error) {
	const head = 2048 // a key of etcd has a few hundred bytes, and the value follows it
	if !bytes.Contains(encoded[:min(len(encoded), head)], []byte(encryptedPrefix)) {
		return "", nil
	}
	value, err := decodeValue(encoded)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(string(value[:min(len(value), 512)]), encryptedPrefix)
	parts := strings.SplitN(rest, ":", 4)
	if !ok || len(parts) < 4 {
		return "", nil
	}
	return untrusted.Line(parts[0] + ":" + parts[2]), nil
}

func decodeValue(encoded []byte) ([]byte, error) {
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(encoded, &kv); err != nil {
		return nil, fmt.Errorf("%w: %w", etcdsnapshot.ErrDatabase, err)
	}
	return kv.GetValue(), nil
}

// identify reads which cluster it is from the objects that say so. What cannot be read stays unknown.
func identify(objects map[string][]byte, info *etcdsnapshot.Info) error {
	for key, encoded := range objects {
		value, err := decodeValue(encoded)
		if err != nil {
			return err
		}
		data := readConfigMap(value)
		switch key {
		case rootCAKey:
			info.CAHashes = caHashes([]byte(data["ca.crt"]))
		case kubeadmConfigKey:
			info.KubernetesVersion = kubernetesVersion(data["ClusterConfiguration"])
		}
	}
	return nil
}

// CheckDatabase is the part of ReadDatabase that takes no time: the database can be opened, and its
// newest key is a revision. Its checksum has been verified by then: on a file system that cannot map or
// lock files, that must do.
func (k *Cluster) CheckDatabase(path string) error {
	err := viewDatabase(path, func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte(keyBucket))
		if keys == nil {
			return fmt.Errorf("%w: it has no bucket %q", etcdsnapshot.ErrDatabase, keyBucket)
		}
		last, value := keys.Cursor().Last()
		_, ok := rawKey(value)
		ok = ok || len(value) == 0 // of a restore that has raised the revision
		if last != nil && (!ok || len(last) < revisionLength) {
			return fmt.Errorf("%w: its last entry is not a revision of a key", etcdsnapshot.ErrDatabase)
		}
		return nil
	})
	if portable.IsSystemError(err) {
		return nil
	}
	return err
}
