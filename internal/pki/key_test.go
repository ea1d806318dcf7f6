package pki

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"testing"
)

type comparable interface{ Equal(crypto.PrivateKey) bool }

func TestKeysSurviveTheirFile(t *testing.T) {
	for a, block := range map[Algorithm]string{
		RSA2048: "RSA PRIVATE KEY", ECDSAP256: "EC PRIVATE KEY", ECDSAP384: "EC PRIVATE KEY",
	} {
		key, err := NewKey(rand.Reader, a)
		wantError(t, err)
		data := keyPEM(t, key)
		if p, _ := pem.Decode(data); p.Type != block {
			t.Errorf("%s: block %q, want %q", a, p.Type, block)
		}
		again, err := ParseKey(data)
		wantError(t, err)
		if !key.(comparable).Equal(again) {
			t.Errorf("%s: another key came back", a)
		}
		public, err := EncodePublicKey(key.Public())
		wantError(t, err)
		if p, _ := pem.Decode(public); p.Type != "PUBLIC KEY" {
			t.Errorf("%s: public block %q", a, p.Type)
		}
		half, err := ParsePublicKey(public)
		wantError(t, err)
		if !key.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(half) {
			t.Errorf("%s: another public key came back", a)
		}
	}
}

func TestKeysAreReadFromPKCS8AndFromMixedFiles(t *testing.T) {
	key := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	wantError(t, err)
	ca := newCA(t, "any", day)
	mixed := append(EncodeCertificates(ca.Certificate), encodePEM(pemPKCS8Key, der)...)
	got, err := ParseKey(mixed)
	wantError(t, err)
	if !key.(comparable).Equal(got) {
		t.Error("another key came back")
	}
}

func TestWhatIsNoKeyIsRefused(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(nil)
	wantError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(edwards)
	wantError(t, err)
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "a damaged key": encodePEM(pemRSAKey, []byte{1, 2}),
		"an Ed25519 key": encodePEM(pemPKCS8Key, der),
	} {
		if _, err := ParseKey(data); err == nil {
			t.Errorf("%s was read as a key", name)
		}
		if _, err := ParsePublicKey(data); err == nil {
			t.Errorf("%s was read as a public key", name)
		}
	}
	_, err = EncodeKey(edwards)
	wantError(t, err, "ed25519")
}

// Others may sign what kubeadm only presents or carries along: a client certificate, the files of an external etcd.
func TestEd25519ServesAsClientKey(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	wantError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	wantError(t, err)
	ca := newCA(t, "any", day)
	cert, err := ca.Issue(rand.Reader, Spec{CommonName: "u", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Validity: day}, public)
	wantError(t, err)
	certText, keyText := EncodeCertificates(cert), encodePEM(pemPKCS8Key, der)
	k := Access{Server: "https://192.0.2.1:6443", Cluster: "c", User: "u"}.WithCertificate(certText, keyText)
	if certs, err := k.ClientPair(nil); err != nil || len(certs) != 1 {
		t.Errorf("as the user of a kubeconfig: %v", err)
	}
	other := Access{Server: "https://192.0.2.1:6443", Cluster: "c", User: "u"}.WithCertificate(EncodeCertificates(ca.Certificate), keyText)
	_, err = other.ClientPair(nil)
	wantError(t, err, "that of another certificate")
	files := map[string][]byte{SealedExternalEtcdCertificate: certText, SealedExternalEtcdKey: keyText}
	_, err = ParseShared(files)
	wantError(t, err)
	files[SealedExternalEtcdCertificate] = EncodeCertificates(ca.Certificate)
	_, err = ParseShared(files)
	wantError(t, err, "external-etcd.key is not the key")
	_, err = ParseShared(map[string][]byte{ServiceAccountKey: keyText})
	wantError(t, err, "sa.key: private key is of type ed25519.PrivateKey")
}

func TestAlgorithmsAreSpelledExactly(t *testing.T) {
	for _, a := range Algorithms() {
		got, err := ParseAlgorithm(string(a))
		wantError(t, err)
		if got != a {
			t.Errorf("%s was read as %s", a, got)
		}
	}
	_, err := ParseAlgorithm("rsa-2048")
	wantError(t, err, "rsa-2048", "RSA-2048", "ECDSA-P384")
	_, err = NewKey(rand.Reader, "RSA-1024")
	wantError(t, err, "RSA-1024")
}

func TestNoTwoKeysFromTheSameStreamAreAlike(t *testing.T) {
	a, err := NewKey(zeros{}, ECDSAP256)
	wantError(t, err)
	b, err := NewKey(zeros{}, ECDSAP256)
	wantError(t, err)
	if a.(comparable).Equal(b) {
		t.Error("the reader decided the key: NewKey's promise no longer holds")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestStockGivesEachKeyOnce(t *testing.T) {
	const ahead, wanted = 5, 8
	stock := NewStock(rand.Reader, ECDSAP256, ahead)
	seen := sync.Map{}
	var group sync.WaitGroup
	for range wanted {
		group.Go(func() {
			key, err := stock.Key()
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := seen.LoadOrStore(string(keyPEM(t, key)), true); twice {
				t.Error("a key was given away twice")
			}
		})
	}
	group.Wait()
}

func TestStockReportsWhatItCannotMake(t *testing.T) {
	_, err := NewStock(rand.Reader, "RSA-1", 1).Key()
	wantError(t, err, "RSA-1")
	_, err = NewStock(rand.Reader, "RSA-1", 0).Key()
	wantError(t, err, "RSA-1")
}

func BenchmarkKeysOneByOne(b *testing.B) {
	for b.Loop() {
		for range 4 {
			if _, err := NewKey(rand.Reader, RSA2048); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkKeysSideBySide(b *testing.B) {
	for b.Loop() {
		stock := NewStock(rand.Reader, RSA2048, 4)
		for range 4 {
			if _, err := stock.Key(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
