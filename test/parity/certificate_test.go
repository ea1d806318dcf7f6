package parity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// keyPair is a certificate and its private key, in PEM.
type keyPair struct{ cert, key string }

// newSelfSigned returns a self-signed certificate of kube-apiserver that is valid for a year, unless
// alter changes it. A renewal does not look at the signature of what it replaces.
func newSelfSigned(alter func(*x509.Certificate)) keyPair {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(42),
		Subject:   pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-400 * 24 * time.Hour),
		NotAfter:  time.Now().Add(365 * 24 * time.Hour), DNSNames: []string{"kubernetes"},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	alter(c)
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		panic(err)
	}
	return keyPair{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))}
}

// newSelfSignedCA returns a CA that is valid until then.
func newSelfSignedCA(until time.Time) keyPair {
	return newSelfSigned(func(c *x509.Certificate) {
		c.Subject, c.DNSNames = pkix.Name{CommonName: "kubernetes"}, nil
		c.IsCA, c.ExtKeyUsage, c.NotAfter = true, nil, until
		c.KeyUsage |= x509.KeyUsageCertSign
	})
}

// files are the pair's files below the directory of certificates.
func (k keyPair) files(base string) map[string]string {
	base = "/etc/kubernetes/pki/" + base
	return map[string]string{base + ".crt": k.cert, base + ".key": k.key}
}

// unusualCertificates are certificates that kubeadm does not generate, and a renewal has to treat.
func unusualCertificates() map[string]keyPair {
	all := map[string]keyPair{}
	for name, alter := range map[string]func(*x509.Certificate){
		"expired": func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) },
		"not yet valid": func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(30 * time.Minute)
		},
		"further names": func(c *x509.Certificate) {
			c.DNSNames = []string{"z.example.org", "a.example.org", "z.example.org"}
			c.IPAddresses = []net.IP{net.ParseIP("192.0.2.9"), net.ParseIP("fd00::1"),
				net.ParseIP("192.0.2.9")}
		},
		"no names": func(c *x509.Certificate) { c.DNSNames = nil },
		"names of other kinds": func(c *x509.Certificate) {
			c.EmailAddresses = []string{"a@example.org"}
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/a"}}
		},
		"a full subject": func(c *x509.Certificate) {
			c.Subject = pkix.Name{CommonName: "kube-apiserver", SerialNumber: "1",
				Organization: []string{"b", "a"}, OrganizationalUnit: []string{"u"},
				Country: []string{"DE"}, Locality: []string{"l"}}
		},
		"other usages": func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth,
				x509.ExtKeyUsageServerAuth}
			c.KeyUsage = x509.KeyUsageDigitalSignature
		},
		"no common name": func(c *x509.Certificate) { c.Subject = pkix.Name{} },
		"no usages":      func(c *x509.Certificate) { c.ExtKeyUsage, c.KeyUsage = nil, 0 },
		"one of a CA": func(c *x509.Certificate) {
			c.IsCA, c.KeyUsage = true, c.KeyUsage|x509.KeyUsageCertSign
		},
	} {
		all[name] = newSelfSigned(alter)
	}
	return all
}

// kubeconfigFile returns a kubeconfig with the fields of its cluster, user and context.
func kubeconfigFile(cluster, user, current string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: kubernetes, cluster: {server: "https://10.0.0.10:6443"%s}}, {name: other, cluster: {server: "https://192.0.2.1"}}]
users: [{name: admin, user: {%s}}, {name: other, user: {token: secret}}]
contexts: [{name: mine, context: {cluster: kubernetes, user: admin, namespace: dev}}, {name: other, context: {cluster: other, user: other}}]
current-context: %s
preferences: {}
`, cluster, user, current)
}

// unusualKubeconfigs are variants of admin.conf.
func unusualKubeconfigs() map[string]string {
	pair := newSelfSigned(func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: "jane", Organization: []string{"devs", "ops"}}
		c.DNSNames, c.ExtKeyUsage = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	ca := ", certificate-authority-data: " + encode(newSelfSignedCA(time.Now()).cert)
	embedded := "client-certificate-data: " + encode(pair.cert) + ", client-key-data: " +
		encode(pair.key)
	garbled := "client-certificate-data: " + encode("x") + ", client-key-data: " + encode(pair.key)
	return map[string]string{
		"of another user": kubeconfigFile(ca, embedded, "mine"),
		"without a CA":    kubeconfigFile("", embedded, "mine"),
		"with a CA in a file": kubeconfigFile(
			", certificate-authority: /etc/kubernetes/pki/ca.crt",
			embedded,
			"mine",
		),
		"with certificates in files": kubeconfigFile(
			ca,
			"client-certificate: /etc/kubernetes/pki/apiserver-kubelet-client.crt, client-key: /etc/kubernetes/pki/apiserver-kubelet-client.key",
			"mine",
		),
		"with a token":               kubeconfigFile(ca, "token: secret", "mine"),
		"of another context":         kubeconfigFile(ca, embedded, "other"),
		"of no such context":         kubeconfigFile(ca, embedded, "nowhere"),
		"without a current context":  kubeconfigFile(ca, embedded, `""`),
		"with a garbled certificate": kubeconfigFile(ca, garbled, "mine"),
		"of another kind":            "apiVersion: v1\nkind: Secret\n",
		"with broken YAML":           "{",
		"that is empty":              "",
	}
}
