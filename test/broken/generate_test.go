package broken_test

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"kubeadm/internal/pki"
	"kubeadm/internal/world/memory"
)

// The formats of secrets: the second half of a token, a certificate key, and a private key.
var (
	tokenForm          = regexp.MustCompile(`\b[a-z0-9]{6}\.([a-z0-9]{16})\b`)
	certificateKeyForm = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	privateKeyForm     = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\n([^-]+)\n-----END`)
)

func valuesOf(files map[string]string) iter.Seq[string] { return maps.Values(files) }

// addFile adds a file to the machine. A text that begins with "@" is the name of a generated text;
// within a text "@{name}" is a generated text in base64. The name "@pki" adds a directory of
// certificates.
func addFile(t *testing.T, files map[string]string, name, text string) {
	t.Helper()
	texts := loadTexts(t)
	if name == "@pki" {
		for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
			files[path.Join(text, base+".crt")] = texts["ca.crt"]
			files[path.Join(text, base+".key")] = texts["ca.key"]
		}
		return
	}
	if reference, found := strings.CutPrefix(text, "@"); found && !strings.HasPrefix(text, "@{") {
		text = findText(t, texts, reference)
	}
	text = textReference.ReplaceAllStringFunc(text, func(ref string) string {
		return base64.StdEncoding.EncodeToString([]byte(findText(t, texts, ref[2:len(ref)-1])))
	})
	files[name] = text
}

var textReference = regexp.MustCompile(`@\{[^}]+\}`)

func findText(t *testing.T, texts map[string]string, name string) string {
	t.Helper()
	text, ok := texts[name]
	if !ok {
		t.Fatalf("there is no @%s", name)
	}
	return text
}

// loadTexts returns the generated texts by name: certificates, keys, and large texts.
func loadTexts(t *testing.T) map[string]string {
	t.Helper()
	texts, err := textsOnce()
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var textsOnce = sync.OnceValues(generateTexts)

func generateTexts() (map[string]string, error) {
	now := memory.New().Now()
	m := generator{now: now, texts: map[string]string{
		"binary":         "\x00\x01\x7fELF\xff\xfe\x00",
		"deep":           strings.Repeat("a: {", 20000),
		"list":           strings.Repeat("- ", 20000) + "x",
		"laughs":         nestedAliases(),
		"bom":            "\ufeffapiVersion: kubeadm.k8s.io/v1beta4\r\nkind: ClusterConfiguration\r\nnetworkin: {}\r\n",
		"utf16":          "\xff\xfea\x00p\x00i\x00V\x00e\x00r\x00s\x00i\x00o\x00n\x00",
		"utf16-bare":     encodeUTF16("", clusterHead, binary.LittleEndian),
		"utf16-bare-big": encodeUTF16("", clusterHead, binary.BigEndian),
		"utf16-two": encodeUTF16("\xff\xfe",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n---\n"+clusterHead+
				"clusterNam: a\nnetworking: {podSubnet: everywhere}\n", binary.LittleEndian),
		"utf16-cut":  encodeUTF16("\xff\xfe", clusterHead, binary.LittleEndian) + "a",
		"utf16-half": encodeUTF16("\xfe\xff", clusterHead, binary.BigEndian) + "\xd8\x00\x00a",
		"utf32":      "\xff\xfe\x00\x00a\x00\x00\x00",
		"large":      strings.Repeat("# x\n", 5_000_000),
		"separators": strings.Repeat("--- #\n", 300_000),
		"repeated": clusterHead + "clusterName: &a " + strings.Repeat("x", 100_000) + "\nall: [" +
			strings.Repeat("*a, ", 10_000) + "]\n",
		"unknown": clusterHead + "networking: {podSubnets: a}\n" +
			numberedLines(5000, "field%d: 1\n"),
		"wrong": clusterHead + "apiServer:\n  certSANs:\n" + strings.Repeat("  - 1\n", 5000),
		"unusable": clusterHead + "apiServer:\n  certSANs:\n" +
			strings.Repeat("  - not ok\n", 5000),
		"latin1":    "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: M\xfcnchen\n",
		"empty":     "",
		"truncated": "-----BEGIN CERTIFICATE-----\nMIIB\n",
		"garbage": string(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no DER")})),
		"badkey": string(
			pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
				Bytes: []byte("no DER but a secret all the same")})),
		"encrypted": string(
			pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY",
				Bytes: bytes.Repeat([]byte("secret"), 20)})),
	}}
	m.snapshots()
	m.archives()
	ca := m.ca("ca", pki.NewValidity(now, 24*time.Hour))
	other := m.ca("other", pki.NewValidity(now, 24*time.Hour))
	m.ca("expired", pki.Validity{NotBefore: now.Add(-48 * time.Hour),
		NotAfter: now.Add(-24 * time.Hour)})
	m.ca("future", pki.Validity{NotBefore: now.Add(24 * time.Hour),
		NotAfter: now.Add(48 * time.Hour)})
	m.leaf("leaf", ca, pki.NewValidity(now, time.Hour))
	m.leaf("system:node:cp1", ca, pki.NewValidity(now, time.Hour))
	m.leaf("system:node:Node_1", ca, pki.NewValidity(now, time.Hour))
	m.leaf("foreign", other, pki.NewValidity(now, time.Hour))
	m.leaf("old", ca, pki.Validity{NotBefore: now.Add(-2 * time.Hour),
		NotAfter: now.Add(-time.Hour)})
	m.leaf("early", ca, pki.Validity{NotBefore: now.Add(time.Hour),
		NotAfter: now.Add(2 * time.Hour)})
	m.caThatCannotSign("signless", pki.NewValidity(now, 24*time.Hour))
	m.keyPair("sa")
	m.keyPair("other-sa")
	m.kubeconfigs()
	m.backups()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	m.keepError(err)
	der, err := x509.MarshalPKCS8PrivateKey(ed)
	m.keepError(err)
	m.texts["ed25519"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	m.texts["short.key"] = shortKey
	return m.texts, m.err
}

// shortKey is an RSA key of 512 bits, which Go does not generate.
const shortKey = `-----BEGIN RSA PRIVATE KEY-----
MIIBOgIBAAJBAMnZZ1jMapaamIt842qeixeDQ034oY8aipQEn5YuXJH9VD07ZyRV
p6NbNWMeIKn0i2ydet4xsn4kMsV71w4AY4MCAwEAAQJAZ6FdhOKWSrIeZWb+Hyw8
vxqeQHbJA36d7TaedG1jC3P5w08nOUajy5yhZ2zt2/9i0wZgQdzTiyrkRTsknQJw
4QIhAO96rEF/eQulVkF5fQx/JzW2HGpHo8nsFHMB8nCVpxJTAiEA18Yqi27+yxoB
5tVVxrbVOeDUBF/yu2JgV3GsvCHJpBECIFFEb/BKMemh0gOmFqmG/OddRYdLiGmd
k9LzdjJ+lpPBAiBU5dmzhvalfxQkeOgJCcMXxMhm+EGPTQPPJCDs3PZzoQIhANjZ
qcMpnPjdjZfEr+S7FOeiXtmm6yZOSglekMj/Dlao
-----END RSA PRIVATE KEY-----
`

// clusterHead is the beginning of a ClusterConfiguration.
const clusterHead = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"

// encodeUTF16 encodes a text in UTF-16, after the byte order mark, if any.
func encodeUTF16(mark, text string, order binary.AppendByteOrder) string {
	data := []byte(mark)
	for _, unit := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, unit)
	}
	return string(data)
}

// numberedLines returns n lines with their numbers.
func numberedLines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// nestedAliases is a small YAML file whose aliases expand to a huge one.
func nestedAliases() string {
	text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\na0: &a0 [lol]\n"
	for i := 1; i < 12; i++ {
		before, now := string(rune('a'+i-1)), string(rune('a'+i))
		if i == 1 {
			before = "a0"
		}
		text += now + ": &" + now + " [" + strings.Repeat("*"+before+", ", 10) + "]\n"
	}
	return text
}

// generator generates texts and keeps the first error.
type generator struct {
	now   time.Time
	texts map[string]string
	err   error
}

func (m *generator) keepError(err error) {
	if m.err == nil {
		m.err = err
	}
}

// ca generates NAME.crt and NAME.key of a CA.
func (m *generator) ca(name string, v pki.Validity) pki.CA {
	key := m.key(name)
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: name, Validity: v})
	m.keepError(err)
	m.texts[name+".crt"] = string(pki.EncodeCertificates(ca.Certificate))
	return ca
}

// leaf generates NAME.crt and NAME.key, signed by the CA.
func (m *generator) leaf(name string, ca pki.CA, v pki.Validity) {
	key := m.key(name)
	cert, err := ca.Issue(rand.Reader,
		pki.Spec{CommonName: name, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			Validity: v}, key.Public())
	m.keepError(err)
	m.texts[name+".crt"] = string(pki.EncodeCertificates(cert))
}

// caThatCannotSign generates NAME.crt and NAME.key of a CA whose key usage does not include
// certificate signing.
func (m *generator) caThatCannotSign(name string, v pki.Validity) {
	key := m.key(name)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: v.NotBefore,
		NotAfter: v.NotAfter,
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	m.keepError(err)
	m.texts[name+".crt"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// keyPair generates NAME.key and NAME.pub.
func (m *generator) keyPair(name string) {
	public, err := pki.EncodePublicKey(m.key(name).Public())
	m.keepError(err)
	m.texts[name+".pub"] = string(public)
}

// kubeconfigs generates NAME.conf for each client certificate, with the CA "ca".
func (m *generator) kubeconfigs() {
	access := pki.KubeconfigSpec{Server: "https://192.0.2.10:6443", Cluster: "kubernetes",
		User: "u", CA: []byte(m.texts["ca.crt"])}
	for name, pair := range map[string][2]string{
		"leaf": {"leaf.crt", "leaf.key"}, "foreign": {"foreign.crt", "foreign.key"},
		"old": {"old.crt", "old.key"}, "early": {"early.crt", "early.key"},
		"mixed": {"leaf.crt", "other.key"}, "keyless": {"leaf.crt", ""},
		"certless": {"", "leaf.key"}, "badcert": {"garbage", "leaf.key"},
		"badpair": {"leaf.crt", "badkey"}, "anonymous": {"", ""},
		"node":     {"system:node:cp1.crt", "system:node:cp1.key"},
		"bad-node": {"system:node:Node_1.crt", "system:node:Node_1.key"},
	} {
		text, err := access.WithCertificate([]byte(m.texts[pair[0]]),
			[]byte(m.texts[pair[1]])).Encode()
		m.keepError(err)
		m.texts[name+".conf"] = string(text)
	}
	access.CA = []byte(m.texts["other.crt"])
	text, err := access.WithCertificate([]byte(m.texts["foreign.crt"]),
		[]byte(m.texts["foreign.key"])).Encode()
	m.keepError(err)
	m.texts["other.conf"] = string(text)
}

func (m *generator) key(name string) crypto.Signer {
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	m.keepError(err)
	text, err := pki.EncodeKey(key)
	m.keepError(err)
	m.texts[name+".key"] = string(text)
	return key
}

// snapshots are snapshots of etcd: two sectors and their checksum, in the ways in which they are damaged.
func (m generator) snapshots() {
	data := strings.Repeat("database", 1024/8)
	sum := sha256.Sum256([]byte(data))
	whole := data + string(sum[:])
	maps.Copy(m.texts, map[string]string{
		"snapshot":         whole,
		"snapshot-cut":     whole[:700],
		"snapshot-half":    whole[:512],
		"snapshot-bare":    data,
		"snapshot-sum":     string(sum[:]),
		"snapshot-short":   whole[:len(whole)-1],
		"snapshot-long":    whole + "\n",
		"snapshot-flipped": "D" + whole[1:],
		"snapshot-badsum":  data + strings.Repeat("\x00", sha256.Size),
		"snapshot-zeros":   strings.Repeat("\x00", 1024+sha256.Size),
		"snapshot-shifted": whole[512:],
		"snapshot-crlf":    strings.ReplaceAll(whole, "d", "\r\n"),
		"snapshot-page":    "<!DOCTYPE html><title>404</title>",
	})
}

// archives are archives with the keys of a cluster, in the ways in which they are damaged.
func (m generator) archives() {
	entry := func(w *tar.Writer, h tar.Header, data string) {
		h.Size = int64(len(data))
		m.keepError(w.WriteHeader(&h))
		_, err := w.Write([]byte(data))
		m.keepError(err)
	}
	pack := func(manifest string, more func(*tar.Writer)) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		entry(w, tar.Header{Typeflag: tar.TypeReg, Name: "manifest.json"}, manifest)
		if more != nil {
			more(w)
		}
		m.keepError(w.Close())
		return b.String()
	}
	key := func(w *tar.Writer) { entry(w, tar.Header{Typeflag: tar.TypeReg, Name: "pki/ca.key"}, "x") }
	const ofKey = `{"version": 1, "files": [{"name": "pki/ca.key", "size": 1, "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}]}`
	maps.Copy(m.texts, map[string]string{
		"archive-cut":     pack(ofKey, key)[:700],
		"archive-flipped": pack(ofKey, func(w *tar.Writer) { entry(w, tar.Header{Typeflag: tar.TypeReg, Name: "pki/ca.key"}, "y") }),
		"archive-outside": pack(`{"version": 1, "files": [{"name": "../../etc/passwd", "size": 1}]}`, nil),
		"archive-link": pack(ofKey, func(w *tar.Writer) {
			entry(w, tar.Header{Typeflag: tar.TypeSymlink, Name: "pki/ca.key", Linkname: "/etc/passwd"}, "")
		}),
		"archive-escape":  pack(`{"version": 1, "node": "\u001b[2J"}`, nil),
		"archive-version": pack(`{"version": 9}`, nil),
		"archive-bomb":    pack(`{"version": 1, "files": [{"name": "zeros", "size": 10000000000}]}`, nil),
		"archive-words":   pack("hello", nil),
		"archive-age":     "age-encryption.org/v1\n-> scrypt",
	})
}
