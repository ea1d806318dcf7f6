package broken_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
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

// The forms of secrets: the second half of a token that is no example of ours, a certificate key, and a private key.
var (
	tokenForm          = regexp.MustCompile(`\b[a-z0-9]{6}\.([a-z0-9]{16})\b`)
	certificateKeyForm = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	privateKeyForm     = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\n([^-]+)\n-----END`)
)

func valuesOf(files map[string]string) iter.Seq[string] { return maps.Values(files) }

// lay puts a file on the machine. Texts that begin with "@" stand for what is made by made; a kubeconfig or other
// text may hold such a thing in base64 as "@{name}". A key "@pki" lays a whole folder of certificates.
func lay(t *testing.T, files map[string]string, name, text string) {
	t.Helper()
	things := made(t)
	if name == "@pki" {
		for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
			files[path.Join(text, base+".crt")] = things["ca.crt"]
			files[path.Join(text, base+".key")] = things["ca.key"]
		}
		return
	}
	if thing, found := strings.CutPrefix(text, "@"); found && !strings.HasPrefix(text, "@{") {
		text = thingOf(t, things, thing)
	}
	text = embedded.ReplaceAllStringFunc(text, func(ref string) string {
		return base64.StdEncoding.EncodeToString([]byte(thingOf(t, things, ref[2:len(ref)-1])))
	})
	files[name] = text
}

var embedded = regexp.MustCompile(`@\{[^}]+\}`)

func thingOf(t *testing.T, things map[string]string, name string) string {
	t.Helper()
	text, ok := things[name]
	if !ok {
		t.Fatalf("there is no @%s", name)
	}
	return text
}

// made are texts that are no use to write down: certificates, keys, and what is large.
func made(t *testing.T) map[string]string {
	t.Helper()
	things, err := thingsOnce()
	if err != nil {
		t.Fatal(err)
	}
	return things
}

var thingsOnce = sync.OnceValues(makeThings)

func makeThings() (map[string]string, error) {
	now := memory.New().Now()
	m := maker{now: now, things: map[string]string{
		"binary":         "\x00\x01\x7fELF\xff\xfe\x00",
		"deep":           strings.Repeat("a: {", 20000),
		"list":           strings.Repeat("- ", 20000) + "x",
		"laughs":         laughs(),
		"bom":            "\ufeffapiVersion: kubeadm.k8s.io/v1beta4\r\nkind: ClusterConfiguration\r\nnetworkin: {}\r\n",
		"utf16":          "\xff\xfea\x00p\x00i\x00V\x00e\x00r\x00s\x00i\x00o\x00n\x00",
		"utf16-bare":     inUTF16("", head, binary.LittleEndian),
		"utf16-bare-big": inUTF16("", head, binary.BigEndian),
		"utf16-two": inUTF16("\xff\xfe", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n---\n"+head+
			"clusterNam: a\nnetworking: {podSubnet: everywhere}\n", binary.LittleEndian),
		"utf16-cut":  inUTF16("\xff\xfe", head, binary.LittleEndian) + "a",
		"utf16-half": inUTF16("\xfe\xff", head, binary.BigEndian) + "\xd8\x00\x00a",
		"utf32":      "\xff\xfe\x00\x00a\x00\x00\x00",
		"large":      strings.Repeat("# x\n", 5_000_000),
		"separators": strings.Repeat("--- #\n", 300_000),
		"repeated":   head + "clusterName: &a " + strings.Repeat("x", 100_000) + "\nall: [" + strings.Repeat("*a, ", 10_000) + "]\n",
		"unknown":    head + "networking: {podSubnets: a}\n" + many(5000, "field%d: 1\n"),
		"wrong":      head + "apiServer:\n  certSANs:\n" + strings.Repeat("  - 1\n", 5000),
		"unusable":   head + "apiServer:\n  certSANs:\n" + strings.Repeat("  - not ok\n", 5000),
		"latin1":     "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: M\xfcnchen\n",
		"empty":      "",
		"truncated":  "-----BEGIN CERTIFICATE-----\nMIIB\n",
		"garbage":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no DER")})),
		"badkey":     string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("no DER but a secret all the same")})),
		"encrypted":  string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: bytes.Repeat([]byte("secret"), 20)})),
	}}
	ca := m.ca("ca", pki.Lasting(now, 24*time.Hour))
	other := m.ca("other", pki.Lasting(now, 24*time.Hour))
	m.ca("expired", pki.Validity{NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour)})
	m.ca("future", pki.Validity{NotBefore: now.Add(24 * time.Hour), NotAfter: now.Add(48 * time.Hour)})
	m.leaf("leaf", ca, pki.Lasting(now, time.Hour))
	m.leaf("foreign", other, pki.Lasting(now, time.Hour))
	m.leaf("old", ca, pki.Validity{NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)})
	m.leaf("early", ca, pki.Validity{NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)})
	m.signless("signless", pki.Lasting(now, 24*time.Hour))
	m.pair("sa")
	m.pair("other-sa")
	m.kubeconfigs()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	m.note(err)
	der, err := x509.MarshalPKCS8PrivateKey(ed)
	m.note(err)
	m.things["ed25519"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return m.things, m.err
}

// head is the head of a ClusterConfiguration.
const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"

// inUTF16 is a text in UTF-16 with the byte order mark, if any.
func inUTF16(mark, text string, order binary.AppendByteOrder) string {
	data := []byte(mark)
	for _, unit := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, unit)
	}
	return string(data)
}

// many are numbered lines.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// laughs is a small file that would be a huge one with its aliases written out.
func laughs() string {
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

// maker collects what it makes, and the first error.
type maker struct {
	now    time.Time
	things map[string]string
	err    error
}

func (m *maker) note(err error) {
	if m.err == nil {
		m.err = err
	}
}

// ca makes NAME.crt and NAME.key.
func (m *maker) ca(name string, v pki.Validity) pki.CA {
	key := m.key(name)
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: name, Validity: v})
	m.note(err)
	m.things[name+".crt"] = string(pki.EncodeCertificates(ca.Certificate))
	return ca
}

// leaf makes NAME.crt and NAME.key, signed by the CA.
func (m *maker) leaf(name string, ca pki.CA, v pki.Validity) {
	key := m.key(name)
	cert, err := ca.Issue(rand.Reader, pki.Spec{CommonName: name, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Validity: v}, key.Public())
	m.note(err)
	m.things[name+".crt"] = string(pki.EncodeCertificates(cert))
}

// signless makes NAME.crt and NAME.key: a CA whose key usage does not allow to sign certificates.
func (m *maker) signless(name string, v pki.Validity) {
	key := m.key(name)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: v.NotBefore, NotAfter: v.NotAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	m.note(err)
	m.things[name+".crt"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// pair makes NAME.key and NAME.pub.
func (m *maker) pair(name string) {
	public, err := pki.EncodePublicKey(m.key(name).Public())
	m.note(err)
	m.things[name+".pub"] = string(public)
}

// kubeconfigs makes NAME.conf of each client certificate, with the CA "ca".
func (m *maker) kubeconfigs() {
	access := pki.Access{Server: "https://192.0.2.10:6443", Cluster: "kubernetes", User: "u", CA: []byte(m.things["ca.crt"])}
	for name, pair := range map[string][2]string{
		"leaf": {"leaf.crt", "leaf.key"}, "foreign": {"foreign.crt", "foreign.key"}, "old": {"old.crt", "old.key"}, "early": {"early.crt", "early.key"},
		"mixed": {"leaf.crt", "other.key"}, "keyless": {"leaf.crt", ""}, "certless": {"", "leaf.key"}, "badcert": {"garbage", "leaf.key"},
		"badpair": {"leaf.crt", "badkey"}, "anonymous": {"", ""},
	} {
		text, err := access.WithCertificate([]byte(m.things[pair[0]]), []byte(m.things[pair[1]])).Encode()
		m.note(err)
		m.things[name+".conf"] = string(text)
	}
	access.CA = []byte(m.things["other.crt"])
	text, err := access.WithCertificate([]byte(m.things["foreign.crt"]), []byte(m.things["foreign.key"])).Encode()
	m.note(err)
	m.things["other.conf"] = string(text)
}

func (m *maker) key(name string) crypto.Signer {
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	m.note(err)
	text, err := pki.EncodeKey(key)
	m.note(err)
	m.things[name+".key"] = string(text)
	return key
}
