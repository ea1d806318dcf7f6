package etcdsnapshot

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
)

func newSnapshot() (data []byte, info Info) {
	body := bytes.Repeat([]byte("database"), 1024/8)
	sum := sha256.Sum256(body)
	data = append(body, sum[:]...)
	return data, Info{Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Revision: 7}
}

func newArchive(t *testing.T, p Protection) []byte {
	t.Helper()
	data, info := newSnapshot()
	var b bytes.Buffer
	err := WriteArchive(t.Context(), &b, p, Manifest{Node: "cp1", Time: time.Unix(1_800_000_000, 0).UTC(),
		Kubeadm: "v1.37.1", Snapshot: info, Files: []ArchivedFile{
			{Name: PKIPrefix + "ca.key", Path: "/etc/kubernetes/pki/ca.key", Data: []byte("secret key")},
			{Name: ConfigPrefix + "kubeadm-config.yaml", Data: []byte("kind: ClusterConfiguration\n")}}},
		bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchive(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	recipients, err := NewRecipients([]byte("# the safe\n" + identity.Recipient().String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewIdentities([]byte(identity.String()))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		protection Protection
		key        Key
	}{"clear text": {}, "recipients": {recipients, key}} {
		data := newArchive(t, c.protection)
		if !IsArchive(data[:HeadLength]) || bytes.Contains(data, []byte("secret key")) != (name == "clear text") {
			t.Errorf("%s: the archive is not recognized, or not encrypted", name)
		}
		a, err := OpenArchive(bytes.NewReader(data), c.key)
		if err != nil {
			t.Fatal(err)
		}
		var snapshot bytes.Buffer
		files, err := a.Read(t.Context(), &snapshot)
		want, _ := newSnapshot()
		if err != nil || len(files) != 2 || string(files[0].Data) != "secret key" || a.Manifest.Node != "cp1" ||
			a.Manifest.Snapshot.Revision != 7 || !bytes.Equal(snapshot.Bytes(), want) {
			t.Errorf("%s: %+v, %v", name, files, err)
		}
		if c.protection.IsEncrypted() {
			if _, err := OpenArchive(bytes.NewReader(data), Key{}); !errors.Is(err, ErrEncrypted) {
				t.Errorf("without a key: %v", err)
			}
			other, _ := age.GenerateX25519Identity()
			wrong, _ := NewIdentities([]byte(other.String()))
			if _, err := OpenArchive(bytes.NewReader(data), wrong); !errors.Is(err, ErrWrongKey) {
				t.Errorf("with another key: %v", err)
			}
		}
	}
}

func TestArchivePassphrase(t *testing.T) {
	p, err := NewPassphrase("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	p.recipients[0].(*age.ScryptRecipient).SetWorkFactor(10)
	data := newArchive(t, p)
	for text, want := range map[string]error{"correct horse": nil, "battery staple": ErrWrongKey} {
		key, err := NewPassphraseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenArchive(bytes.NewReader(data), key); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := NewPassphrase(""); err == nil {
		t.Error("an empty passphrase is accepted")
	}
	if _, err := NewIdentities([]byte("AGE-SECRET-KEY-1QQ")); err == nil || strings.Contains(err.Error(), "1QQ") {
		t.Errorf("a broken identity: %v", err)
	}
}

// An archive that is damaged at any byte is an error, unless all files and the snapshot are the same: the
// damage is in unused bytes, or in what the manifest tells. Each prefix of an archive is an error, and
// what follows one.
func TestDamagedArchive(t *testing.T) {
	type content struct {
		files    []ArchivedFile
		snapshot string
	}
	read := func(data []byte, key Key) (content, error) {
		a, err := OpenArchive(bytes.NewReader(data), key)
		if err != nil {
			return content{}, err
		}
		var b bytes.Buffer
		files, err := a.Read(t.Context(), &b)
		for i := range files {
			files[i].Path = "" // not verified
		}
		return content{files, b.String()}, err
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		p   Protection
		key Key
	}{"clear text": {}, "encrypted": {Protection{[]age.Recipient{identity.Recipient()}}, Key{[]age.Identity{identity}}}} {
		whole := newArchive(t, c.p)
		want, err := read(whole, c.key)
		if err != nil {
			t.Fatal(err)
		}
		for size := 0; size < len(whole); size += 37 {
			if _, err := read(whole[:size], c.key); err == nil {
				t.Errorf("%s: the first %d of %d bytes are accepted", name, size, len(whole))
			}
		}
		if _, err := read(append(slices.Clone(whole), "more"...), c.key); err == nil {
			t.Errorf("%s: text after the end is accepted", name)
		}
		for i := 0; i < len(whole); i += 5 {
			damaged := slices.Clone(whole)
			damaged[i] ^= 0x41
			got, err := read(damaged, c.key)
			if err == nil && (c.p.IsEncrypted() || got.snapshot != want.snapshot ||
				!reflect.DeepEqual(got.files, want.files)) {
				t.Errorf("%s: damage at byte %d is accepted: %+v", name, i, got.files)
			}
		}
	}
	padded := slices.Concat(newArchive(t, Protection{}), make([]byte, 9<<10)) // as GNU tar does
	if _, err := read(padded, Key{}); err != nil {
		t.Errorf("with more padding: %v", err)
	}
}

// What could not be read again is not written.
func TestArchiveOfLargeFiles(t *testing.T) {
	data, info := newSnapshot()
	large := func(name string) ArchivedFile { return ArchivedFile{Name: name, Data: make([]byte, fileLimit)} }
	for want, files := range map[string][]ArchivedFile{
		"at most 4194304 are allowed":  {{Name: "a", Data: make([]byte, fileLimit+1)}},
		"at most 16777216 are allowed": {large("a"), large("b"), large("c"), large("d"), {Name: "e", Data: []byte("x")}},
		"cannot be printed":            {{Name: "a", Path: "/etc/\x1b[2J"}},
	} {
		var b bytes.Buffer
		err := WriteArchive(t.Context(), &b, Protection{}, Manifest{Snapshot: info, Files: files}, bytes.NewReader(data))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A passphrase that demands gigabytes of memory is refused for what it is.
func TestArchiveWorkFactor(t *testing.T) {
	p, err := NewPassphrase("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	p.recipients[0].(*age.ScryptRecipient).SetWorkFactor(10)
	data := bytes.Replace(newArchive(t, p), []byte(" 10\n"), []byte(" 21\n"), 1)
	key, err := NewPassphraseKey("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenArchive(bytes.NewReader(data), key); err == nil || errors.Is(err, ErrArchive) ||
		!strings.Contains(err.Error(), "work factor above 20") {
		t.Errorf("got %v", err)
	}
}

// hostile writes an archive of any entries.
func hostile(t *testing.T, m Manifest, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	manifest, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	write := func(h tar.Header, data []byte) {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		h.Size = int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	write(tar.Header{Name: ManifestName}, manifest)
	for _, h := range entries {
		data := []byte("x")
		if h.Typeflag != 0 {
			data = nil
		}
		write(h, data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileArchives(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	file := func(name string) ArchivedFile {
		return ArchivedFile{Name: name, Size: 1, SHA256: hex.EncodeToString(sum[:])}
	}
	many := make([]ArchivedFile, filesLimit+1)
	for i := range many {
		many[i] = file("f" + strings.Repeat("x", i))
	}
	_, info := newSnapshot()
	for name, c := range map[string]struct {
		manifest Manifest
		entries  []tar.Header
		want     string
	}{
		"another version": {Manifest{Version: 2}, nil, "format version 2"},
		"parent directory": {Manifest{Version: 1, Files: []ArchivedFile{file("../etc/passwd")}}, nil,
			`"../etc/passwd", which is outside of it`},
		"absolute path":    {Manifest{Version: 1, Files: []ArchivedFile{file("/etc/passwd")}}, nil, "outside of it"},
		"hidden parent":    {Manifest{Version: 1, Files: []ArchivedFile{file("pki/../../x")}}, nil, "outside of it"},
		"backslash":        {Manifest{Version: 1, Files: []ArchivedFile{file(`pki\..\x`)}}, nil, "outside of it"},
		"empty name":       {Manifest{Version: 1, Files: []ArchivedFile{file("")}}, nil, "outside of it"},
		"twice":            {Manifest{Version: 1, Files: []ArchivedFile{file("a"), file("a")}}, nil, `"a" twice`},
		"manifest as file": {Manifest{Version: 1, Files: []ArchivedFile{file(ManifestName)}}, nil, "twice"},
		"many files":       {Manifest{Version: 1, Files: many}, nil, "at most 200 are allowed"},
		"large file": {Manifest{Version: 1, Files: []ArchivedFile{{Name: "a", Size: fileLimit + 1}}}, nil,
			"at most 4194304 are allowed"},
		"negative size": {Manifest{Version: 1, Files: []ArchivedFile{{Name: "a", Size: -1}}}, nil, "-1 bytes"},
		"many large files": {Manifest{Version: 1, Files: []ArchivedFile{{Name: "a", Size: fileLimit}, {Name: "b", Size: fileLimit},
			{Name: "c", Size: fileLimit}, {Name: "d", Size: fileLimit}, {Name: "e", Size: 1}}}, nil,
			"at most 16777216 are allowed"},
		"escape sequence": {Manifest{Version: 1, Node: "\x1b[2J"}, nil, `has the text "\x1b[2J"`},
		"large snapshot":  {Manifest{Version: 1, Snapshot: Info{Size: snapshotLimit + 1}}, nil, "its snapshot has"},
		"symbolic link": {Manifest{Version: 1, Files: []ArchivedFile{file("a")}},
			[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, "a is not a regular file"},
		"hard link": {Manifest{Version: 1, Files: []ArchivedFile{file("a")}},
			[]tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}}, "a is not a regular file"},
		"device": {Manifest{Version: 1, Files: []ArchivedFile{file("a")}},
			[]tar.Header{{Name: "a", Typeflag: tar.TypeChar}}, "a is not a regular file"},
		"directory": {Manifest{Version: 1, Files: []ArchivedFile{file("a")}},
			[]tar.Header{{Name: "a", Typeflag: tar.TypeDir}}, "a"},
		"other entry": {Manifest{Version: 1, Files: []ArchivedFile{file("a")}}, []tar.Header{{Name: "../b"}},
			`"../b" where a should be`},
		"missing file":     {Manifest{Version: 1, Files: []ArchivedFile{file("a")}}, nil, "it has no a"},
		"missing snapshot": {Manifest{Version: 1, Snapshot: info}, nil, "it has no snapshot.db"},
		"other snapshot": {Manifest{Version: 1, Snapshot: info}, []tar.Header{{Name: SnapshotName}},
			"the file is incomplete"},
		"other digest": {Manifest{Version: 1, Files: []ArchivedFile{{Name: "a", Size: 1, SHA256: "00"}}},
			[]tar.Header{{Name: "a"}}, `"a" does not match its digest`},
		"longer than listed": {Manifest{Version: 1, Files: []ArchivedFile{{Name: "a"}}}, []tar.Header{{Name: "a"}},
			"a has 1 bytes, at most 0 are allowed"},
	} {
		a, err := OpenArchive(bytes.NewReader(hostile(t, c.manifest, c.entries...)), Key{})
		if err == nil {
			_, err = a.Read(t.Context(), io.Discard)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %s", name, err, c.want)
		}
	}
	for name, data := range map[string][]byte{"compressed": {0x1f, 0x8b, 8, 0}, "empty": nil, "text": []byte("hello"),
		"age alone": []byte("age-encryption.org/v1\n")} {
		if _, err := OpenArchive(bytes.NewReader(data), Key{}); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
