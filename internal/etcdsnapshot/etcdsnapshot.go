// Package etcdsnapshot knows what a snapshot of etcd is: a file in the format of `etcdctl snapshot
// save`, the database followed by its SHA-256. A Verifier checks that a file is complete and
// unchanged, and an Info is what its database says about the cluster. It accesses no files.
package etcdsnapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/problem"
)

// Info is what a snapshot contains. Texts come from the cluster and are safe to print. Only what was read
// from the database itself is known; what the manifest of an archive says was once.
type Info struct {
	Size   int64  `json:"size"`   // of the file, in bytes
	SHA256 string `json:"sha256"` // of the database, hexadecimal; it has been verified

	Revision int64 `json:"revision"` // the newest one
	Keys     int   `json:"keys"`     // that exist at that revision
	// StorageVersion is the version of the database's format, such as "3.6.0". It is empty before etcd
	// 3.6. etcd reads no database of a newer minor version.
	StorageVersion string   `json:"storageVersion,omitempty"`
	EtcdVersion    string   `json:"etcdVersion,omitempty"` // of the cluster, such as "3.7.0"
	Members        []string `json:"members,omitempty"`     // names, or peer URLs of members without one

	// PeerURLs are those of the members, by the names in Members.
	PeerURLs map[string][]string `json:"-"`

	// Of the Kubernetes cluster; empty if the database has no such object, or an encrypted one.
	KubernetesVersion string   `json:"kubernetesVersion,omitempty"`
	CAHashes          []string `json:"caHashes,omitempty"` // public keys of the cluster's CAs, as in --discovery-token-ca-cert-hash

	// Encryption has the keys with which values are encrypted at rest, each as PROVIDER:NAME, in the
	// order of their names. Without the file of --encryption-provider-config these values are lost.
	Encryption []string `json:"encryption,omitempty"`
}

// The ways in which a file is not a snapshot.
var (
	ErrEmpty      = errors.New("the file is empty")
	ErrIncomplete = errors.New("the file is incomplete, or not a snapshot of etcd")
	ErrNoChecksum = errors.New("the file has no checksum at its end")
	ErrChecksum   = errors.New("the file does not match its checksum")
	ErrDatabase   = errors.New("the database is damaged")
)

// sector divides the size of a database, to which the checksum is appended.
const sector = 512

// Verifier is a writer that checks a snapshot which is written to it in parts. It keeps 32 bytes.
type Verifier struct {
	hash    hash.Hash
	tail    []byte // the last bytes, possibly the checksum
	written int64
}

// NewVerifier returns a Verifier of one snapshot.
func NewVerifier() *Verifier { return &Verifier{hash: sha256.New()} }

// Write adds the next part of the snapshot.
func (v *Verifier) Write(p []byte) (int, error) {
	v.written += int64(len(p))
	// All but the last 32 bytes of what there is now are data.
	if data := len(p) - sha256.Size; data >= 0 {
		_, _ = v.hash.Write(v.tail) // a hash never fails
		_, _ = v.hash.Write(p[:data])
		v.tail = append(v.tail[:0], p[data:]...)
		return len(p), nil
	}
	v.tail = append(v.tail, p...)
	if data := len(v.tail) - sha256.Size; data > 0 {
		_, _ = v.hash.Write(v.tail[:data])
		v.tail = append(v.tail[:0], v.tail[data:]...)
	}
	return len(p), nil
}

// Size is the number of bytes that were written.
func (v *Verifier) Size() int64 { return v.written }

// Sum returns the SHA-256 of the database, or what is wrong unless a complete snapshot was written.
func (v *Verifier) Sum() (string, error) {
	switch sum := v.hash.Sum(nil); {
	case v.written == 0:
		return "", ErrEmpty
	case v.written%sector == 0:
		return "", fmt.Errorf("%w (%d bytes)", ErrNoChecksum, v.written)
	case v.written%sector != sha256.Size || v.written < sector:
		return "", fmt.Errorf("%w (%d bytes)", ErrIncomplete, v.written)
	case !bytes.Equal(v.tail, sum):
		return "", ErrChecksum
	default:
		return hex.EncodeToString(sum), nil
	}
}

// Verify reads a snapshot to its end and returns its size and the SHA-256 of its database.
func Verify(ctx context.Context, r io.Reader) (size int64, sum string, err error) {
	v := NewVerifier()
	buffer := make([]byte, 64<<10)
	for {
		if err := context.Cause(ctx); err != nil {
			return 0, "", err
		}
		n, err := r.Read(buffer)
		_, _ = v.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, "", err
		}
	}
	sum, err = v.Sum()
	return v.written, sum, err
}

// CheckReadableBy returns an error unless etcd of that version reads the database.
func (i Info) CheckReadableBy(etcd string) error {
	if i.StorageVersion == "" { // of etcd 3.5, which all later ones read
		return nil
	}
	stored, err := version.ParseGeneric(i.StorageVersion)
	if err != nil {
		return fmt.Errorf("the storage version of the snapshot, %q, is not a version", i.StorageVersion)
	}
	reader, err := version.ParseGeneric(strings.TrimPrefix(etcd, "v"))
	if err != nil {
		return fmt.Errorf("the version of etcd, %q, is not a version", etcd)
	}
	if stored.Major() != reader.Major() || stored.Minor() > reader.Minor() {
		return problem.New(fmt.Errorf("etcd %s cannot read the snapshot, which has storage version %s", etcd,
			i.StorageVersion), fmt.Sprintf("use etcd %d.%d or later", stored.Major(), stored.Minor()))
	}
	return nil
}

// IsOfCluster reports whether the snapshot is one of the cluster with these CAs, as far as that is
// known: isKnown is false if the snapshot does not say.
func (i Info) IsOfCluster(caHashes []string) (same, isKnown bool) {
	return slices.ContainsFunc(i.CAHashes, func(hash string) bool { return slices.Contains(caHashes, hash) }),
		len(i.CAHashes) > 0
}

// nameForm is the time in the name of a file.
const nameForm = "20060102T150405Z"

const namePrefix = "etcd-"

// The ends of the names of files.
const (
	SnapshotSuffix  = ".db"
	ArchiveSuffix   = ".tar" // of a snapshot with the keys of the cluster
	EncryptedSuffix = ".age" // follows ArchiveSuffix
)

// FileName says of a file of this program which node has made it and when.
type FileName struct {
	Cluster string // ClusterID
	Node    string
	Time    time.Time
	Suffix  string
}

func (n FileName) String() string {
	return namePrefix + n.Cluster + "-" + n.Node + "-" + n.Time.UTC().Format(nameForm) + n.Suffix
}

// IsSnapshot reports whether it is the name of a snapshot, and not of an archive.
func (n FileName) IsSnapshot() bool { return n.Suffix == SnapshotSuffix }

const clusterIDLength = 8

// ClusterID tells clusters apart in the names of files: the first digits of the hash of the CA's public key.
func ClusterID(caHash string) string {
	_, digits, _ := strings.Cut(caHash, ":")
	return digits[:min(len(digits), clusterIDLength)]
}

// ParseFileName is the inverse of String. ok is false for a name that is not one of FileName.
func ParseFileName(name string) (n FileName, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return n, false
	}
	for _, suffix := range []string{SnapshotSuffix, ArchiveSuffix, ArchiveSuffix + EncryptedSuffix} {
		if base, found := strings.CutSuffix(rest, suffix); found {
			rest, n.Suffix = base, suffix
			break
		}
	}
	last := strings.LastIndex(rest, "-")
	if n.Suffix == "" || last < clusterIDLength+2 || rest[clusterIDLength] != '-' ||
		strings.Trim(rest[:clusterIDLength], "0123456789abcdef") != "" {
		return n, false
	}
	n.Cluster, n.Node = rest[:clusterIDLength], rest[clusterIDLength+1:last]
	at, err := time.Parse(nameForm, rest[last+1:])
	n.Time = at
	return n, err == nil
}
