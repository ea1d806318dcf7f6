package etcdsnapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// Names of entries of an archive.
const (
	ManifestName = "manifest.json" // the first entry
	SnapshotName = "snapshot.db"   // the last one
	// EncryptionName is the file of the API server's --encryption-provider-config.
	EncryptionName = "encryption-provider-config.yaml"
	PKIPrefix      = "pki/"    // files of the certificates directory
	ConfigPrefix   = "config/" // configurations that the cluster stores, by the names of their ConfigMaps
)

// Limits of what is read.
const (
	manifestLimit = 1 << 20
	fileLimit     = 4 << 20
	filesLimit    = 200
	dataLimit     = 16 << 20 // of all files
	trailerLimit  = 1 << 20  // tar programs pad the end with zeros
	snapshotLimit = 64 << 30
	// workFactor is that of a passphrase: scrypt uses 256 MiB for a second. A file that demands more than
	// maxWorkFactor is refused.
	maxWorkFactor = 20
)

// Manifest says what is in an archive.
type Manifest struct {
	Version  int            `json:"version"` // of this format
	Node     string         `json:"node"`    // that made it
	Time     time.Time      `json:"time"`
	Kubeadm  string         `json:"kubeadm"` // version
	Snapshot Info           `json:"snapshot"`
	Files    []ArchivedFile `json:"files"` // without the manifest and the snapshot
}

// ArchivedFile is a file of an archive.
type ArchivedFile struct {
	Name   string `json:"name"` // in the archive, such as "pki/ca.key"
	Path   string `json:"path"` // on the node that made it; empty for an object of the cluster
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	Data []byte `json:"-"`
}

const (
	formatVersion = 1
	blockSize     = 512 // of tar
)

// Errors of archives.
var (
	ErrEncrypted    = errors.New("the archive is encrypted")
	ErrWrongKey     = errors.New("the archive cannot be decrypted with this key")
	ErrArchive      = errors.New("the archive is damaged, or not one of kubeadm")
	ErrNotArchive   = errors.New("the file is not an archive of kubeadm")
	errNoRecipients = errors.New("the file has no list of age recipients")
	errWorkFactor   = fmt.Errorf("the archive's passphrase has a scrypt work factor above %d, which needs more than a GiB of memory",
		maxWorkFactor)
	errMoreThanListed = errors.New("it has more than its manifest lists")
)

// Protection is how an archive is encrypted; the zero value leaves it in clear text.
type Protection struct{ recipients []age.Recipient }

// NewRecipients reads recipients of age, one a line.
func NewRecipients(text []byte) (Protection, error) {
	all, err := age.ParseRecipients(bytes.NewReader(text))
	if err != nil {
		return Protection{}, fmt.Errorf("%w: %s", errNoRecipients, untrusted.Error(err))
	}
	return Protection{all}, nil
}

// NewPassphrase encrypts with a passphrase.
func NewPassphrase(text string) (Protection, error) {
	r, err := age.NewScryptRecipient(text)
	if err != nil {
		return Protection{}, err
	}
	return Protection{[]age.Recipient{r}}, nil
}

// IsEncrypted reports whether the archive will be encrypted.
func (p Protection) IsEncrypted() bool { return len(p.recipients) > 0 }

// Key decrypts an archive; the zero value can only read one in clear text.
type Key struct{ identities []age.Identity }

// NewIdentities reads identities of age, one a line.
func NewIdentities(text []byte) (Key, error) {
	all, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil { // it may quote what it could not read
		return Key{}, errors.New("the file has no valid identity of age (AGE-SECRET-KEY-...)")
	}
	return Key{all}, nil
}

// NewPassphraseKey decrypts with a passphrase.
func NewPassphraseKey(text string) (Key, error) {
	i, err := age.NewScryptIdentity(text)
	if err != nil {
		return Key{}, err
	}
	return Key{[]age.Identity{passphraseIdentity{i}}}, nil
}

// passphraseIdentity refuses a header that demands too much memory.
type passphraseIdentity struct{ *age.ScryptIdentity }

// Unwrap implements age.Identity.
func (i passphraseIdentity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != "scrypt" || len(s.Args) != 2 {
			continue
		}
		if factor, err := strconv.Atoi(s.Args[1]); err == nil && factor > maxWorkFactor {
			return nil, errWorkFactor
		}
	}
	return i.ScryptIdentity.Unwrap(stanzas)
}

// WriteArchive writes an archive: the manifest, the files, and the snapshot, whose checksum is verified
// again. It sets the sizes and digests of the files.
func WriteArchive(ctx context.Context, to io.Writer, p Protection, m Manifest, snapshot io.Reader) (err error) {
	if p.IsEncrypted() {
		w, err := age.Encrypt(to, p.recipients...)
		if err != nil {
			return fmt.Errorf("encrypting the archive: %w", err)
		}
		if err := writeTar(ctx, w, m, snapshot); err != nil {
			return err
		}
		return w.Close()
	}
	return writeTar(ctx, to, m, snapshot)
}

func writeTar(ctx context.Context, to io.Writer, m Manifest, snapshot io.Reader) error {
	m.Version = formatVersion
	m.Files = slices.Clone(m.Files)
	for i := range m.Files {
		sum := sha256.Sum256(m.Files[i].Data)
		m.Files[i].Size, m.Files[i].SHA256 = int64(len(m.Files[i].Data)), hex.EncodeToString(sum[:])
	}
	if err := m.check(); err != nil { // what cannot be read again must not be written
		return err
	}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	head := func(name string, size int64) error {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600,
			ModTime: m.Time.Truncate(time.Second), Format: tar.FormatPAX})
	}
	for _, f := range append([]ArchivedFile{{Name: ManifestName, Data: manifest}}, m.Files...) {
		if err := head(f.Name, int64(len(f.Data))); err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	if err := head(SnapshotName, m.Snapshot.Size); err != nil {
		return err
	}
	size, sum, err := Verify(ctx, io.TeeReader(snapshot, w))
	if err == nil && (size != m.Snapshot.Size || sum != m.Snapshot.SHA256) {
		err = errors.New("the snapshot has changed")
	}
	if err != nil {
		return fmt.Errorf("adding the snapshot: %w", err)
	}
	return w.Close()
}

// Archive is an archive that is being read. Nothing of it is trusted: its entries are those that the
// manifest lists, once and in its order, with their sizes and digests.
type Archive struct {
	Manifest Manifest
	plain    io.Reader // what tar reads, without reading ahead
	tar      *tar.Reader
}

// IsArchive reports whether a file that begins like that may be an archive, and not a snapshot.
func IsArchive(head []byte) bool {
	return IsEncrypted(head) || bytes.HasPrefix(head, []byte(ManifestName+"\x00"))
}

// HeadLength is how many bytes IsArchive needs.
const HeadLength = 64

// IsEncrypted reports whether an archive that begins like that is encrypted.
func IsEncrypted(head []byte) bool {
	return bytes.HasPrefix(head, []byte("age-encryption.org/")) || isArmored(head)
}

func isArmored(head []byte) bool { return bytes.HasPrefix(head, []byte(armor.Header)) }

// OpenArchive decrypts an archive and reads its manifest.
func OpenArchive(from io.Reader, key Key) (*Archive, error) {
	r := bufio.NewReader(from)
	head, err := r.Peek(HeadLength)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var plain io.Reader = r
	switch {
	case !IsArchive(head):
		return nil, ErrNotArchive
	case isArmored(head):
		if plain, err = decrypt(armor.NewReader(r), key); err != nil {
			return nil, err
		}
	case IsEncrypted(head):
		if plain, err = decrypt(r, key); err != nil {
			return nil, err
		}
	}
	a := &Archive{plain: plain, tar: tar.NewReader(plain)}
	size, err := a.next(ManifestName, manifestLimit)
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(a.tar, data); err != nil {
		return nil, damaged(err)
	}
	if err := json.Unmarshal(data, &a.Manifest); err != nil {
		return nil, damaged(errors.New("its manifest is not valid JSON"))
	}
	if a.Manifest.Version != formatVersion {
		return nil, problem.New(fmt.Errorf("the archive has format version %d, but this kubeadm reads %d",
			a.Manifest.Version, formatVersion), "use the release of kubeadm that made the archive, or a later one")
	}
	if err := a.Manifest.check(); err != nil {
		return nil, damaged(err)
	}
	return a, nil
}

func decrypt(from io.Reader, key Key) (io.Reader, error) {
	if len(key.identities) == 0 {
		return nil, ErrEncrypted
	}
	plain, err := age.Decrypt(from, key.identities...)
	if _, isWrong := errors.AsType[*age.NoIdentityMatchError](err); isWrong {
		return nil, ErrWrongKey
	}
	switch {
	case errors.Is(err, errWorkFactor):
		return nil, err
	case err != nil:
		return nil, damaged(err)
	}
	return plain, nil
}

func damaged(err error) error { return fmt.Errorf("%w: %w", ErrArchive, untrusted.Error(err)) }

// check refuses a manifest that this program could not use safely.
func (m Manifest) check() error {
	if len(m.Files) > filesLimit {
		return fmt.Errorf("its manifest lists %d files, at most %d are allowed", len(m.Files), filesLimit)
	}
	total := int64(0)
	seen := map[string]bool{ManifestName: true, SnapshotName: true}
	for _, f := range m.Files {
		switch {
		case !fs.ValidPath(f.Name) || strings.ContainsAny(f.Name, "\\\x00"):
			return fmt.Errorf("it has the file %s, which is outside of it", untrusted.Quote(f.Name))
		case seen[f.Name]:
			return fmt.Errorf("it lists %s twice", untrusted.Quote(f.Name))
		case f.Size < 0 || f.Size > fileLimit:
			return fmt.Errorf("%s has %d bytes, at most %d are allowed", untrusted.Quote(f.Name), f.Size, fileLimit)
		}
		seen[f.Name] = true
		total += f.Size
	}
	switch {
	case total > dataLimit:
		return fmt.Errorf("its files have %d bytes, at most %d are allowed", total, dataLimit)
	case m.Snapshot.Size < 0 || m.Snapshot.Size > snapshotLimit:
		return fmt.Errorf("its snapshot has %d bytes, at most %d are allowed", m.Snapshot.Size, int64(snapshotLimit))
	}
	for _, text := range m.texts() {
		if untrusted.Line(text) != text {
			return fmt.Errorf("its manifest has the text %s, which is too long or cannot be printed", untrusted.Quote(text))
		}
	}
	return nil
}

// texts are all that are shown.
func (m Manifest) texts() []string {
	all := []string{m.Node, m.Kubeadm, m.Snapshot.SHA256, m.Snapshot.StorageVersion, m.Snapshot.EtcdVersion,
		m.Snapshot.KubernetesVersion}
	all = slices.Concat(all, m.Snapshot.Members, m.Snapshot.CAHashes, m.Snapshot.Encryption)
	for _, f := range m.Files {
		all = append(all, f.Name, f.Path, f.SHA256)
	}
	return all
}

// next goes to the next entry, which must be a regular file of that name.
func (a *Archive) next(name string, limit int64) (size int64, err error) {
	h, err := a.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return 0, damaged(fmt.Errorf("it has no %s", name))
	case err != nil:
		return 0, damaged(err)
	case h.Name != name:
		return 0, damaged(fmt.Errorf("it has %s where %s should be", untrusted.Quote(h.Name), name))
	case h.Typeflag != tar.TypeReg:
		return 0, damaged(fmt.Errorf("%s is not a regular file", name))
	case h.Size > limit:
		return 0, damaged(fmt.Errorf("%s has %d bytes, at most %d are allowed", name, h.Size, limit))
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse") { // a few bytes that stand for many
			return 0, damaged(fmt.Errorf("%s is a sparse file", name))
		}
	}
	return h.Size, nil
}

// Read reads the rest of the archive: the files with their data, and the snapshot, which is written to
// the writer. It returns an error if a digest does not match; what was written then must not be used.
func (a *Archive) Read(ctx context.Context, snapshot io.Writer) ([]ArchivedFile, error) {
	files := slices.Clone(a.Manifest.Files)
	for i, f := range files {
		size, err := a.next(f.Name, f.Size)
		if err != nil {
			return nil, err
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(a.tar, data); err != nil {
			return nil, damaged(err)
		}
		if sum := sha256.Sum256(data); size != f.Size || hex.EncodeToString(sum[:]) != f.SHA256 {
			return nil, damaged(fmt.Errorf("%s does not match its digest", untrusted.Quote(f.Name)))
		}
		files[i].Data = data
	}
	want := a.Manifest.Snapshot
	if _, err := a.next(SnapshotName, want.Size); err != nil {
		return nil, err
	}
	size, sum, err := Verify(ctx, io.TeeReader(a.tar, snapshot))
	switch {
	case err != nil:
		return nil, cmp.Or(context.Cause(ctx), damaged(err))
	case size != want.Size || sum != want.SHA256:
		return nil, damaged(errors.New("its snapshot does not match its digest"))
	}
	return files, a.checkEnd()
}

// checkEnd reads what follows the snapshot to its end, where age authenticates it: the rest of its last
// block, and two blocks of zeros or more.
func (a *Archive) checkEnd() error {
	rest, err := io.ReadAll(io.LimitReader(a.plain, trailerLimit+1))
	switch {
	case err != nil:
		return damaged(err)
	case len(rest) > trailerLimit || len(bytes.Trim(rest, "\x00")) > 0:
		return damaged(errMoreThanListed)
	case int64(len(rest)) < 2*blockSize+(-a.Manifest.Snapshot.Size)&(blockSize-1):
		return damaged(io.ErrUnexpectedEOF)
	}
	return nil
}
