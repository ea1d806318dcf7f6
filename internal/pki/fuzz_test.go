package pki

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// FuzzCertificateKey checks that a valid key survives parsing and printing and decrypts only what
// it encrypted, and that the error for an invalid key does not repeat it.
func FuzzCertificateKey(f *testing.F) {
	key := strings.Repeat("0f", certificateKeySize)
	f.Add(key, []byte("plain"), []byte("neither encrypted nor of the right length"))
	f.Add(strings.ToUpper(key), []byte{}, bytes.Repeat([]byte{0}, 28))
	f.Add(key[1:], []byte("x"), []byte{})
	f.Add("sha256:"+key, []byte("x"), []byte("y"))
	f.Add(key+"\n", []byte("x"), []byte("y"))
	f.Fuzz(func(t *testing.T, text string, plain, stray []byte) {
		k, err := ParseCertificateKey(text)
		if err != nil {
			if len(text) > 8 && strings.Contains(err.Error(), text) {
				t.Errorf("the error repeats %q: %v", text, err)
			}
			return
		}
		if k.Hex() != strings.ToLower(text) {
			t.Errorf("%q prints as %q", text, k.Hex())
		}
		encrypted, err := k.Encrypt(zeros{}, plain)
		if err != nil {
			t.Fatal(err)
		}
		if decrypted, err := k.Decrypt(encrypted); err != nil || !bytes.Equal(decrypted, plain) {
			t.Errorf("%q was encrypted and decrypted to %q, %v", plain, decrypted, err)
		}
		if decrypted, err := k.Decrypt(stray); err == nil && !isEncrypted(k, stray, decrypted) {
			t.Errorf("%q was decrypted to %q", stray, decrypted)
		}
		at := len(stray) % len(encrypted)
		encrypted[at] ^= 1
		if _, err := k.Decrypt(encrypted); err == nil {
			t.Errorf("byte %d was altered without notice", at)
		}
	})
}

// isEncrypted reports whether data is the plain text encrypted with the key and the nonce in data.
func isEncrypted(k CertificateKey, data, plain []byte) bool {
	again, err := k.Encrypt(bytes.NewReader(data[:12]), plain)
	return err == nil && bytes.Equal(again, data)
}

// FuzzPin checks that a valid hash survives parsing and printing.
func FuzzPin(f *testing.F) {
	for _, text := range []string{"sha256:" + strings.Repeat("0a", 32),
		"SHA256:" + strings.Repeat("0A", 32), "md5:00", "sha256:", strings.Repeat("0a", 32),
		"sha256:sha256:" + strings.Repeat("0a", 32)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePin(text)
		if err == nil && p.String() != strings.ToLower(text) {
			t.Errorf("%q prints as %q", text, p)
		}
		if err != nil && !strings.Contains(err.Error(), "64 hex digits") {
			t.Errorf("the error does not show the expected form: %v", err)
		}
	})
}

// FuzzKubeconfig checks that a kubeconfig survives parsing and encoding, and that no method
// panics.
func FuzzKubeconfig(f *testing.F) {
	access := KubeconfigSpec{Server: "https://10.0.0.1:6443", Cluster: "c", User: "u"}
	for _, k := range []*Kubeconfig{access.WithToken("t"),
		access.WithCertificate([]byte("cert"), []byte("key")), {}} {
		data, err := k.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{apiVersion: v1, kind: Config, clusters: [{name: '', cluster: {server: 'https://a'}}], users: [{name: u}], contexts: null}"))
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: null}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := ParseKubeconfig(data)
		if err != nil {
			if !strings.Contains(err.Error(), "kubeconfig") {
				t.Errorf("the error does not mention the kubeconfig: %v", err)
			}
			return
		}
		first, err := k.Encode()
		if err != nil {
			t.Fatalf("cannot encode: %v", err)
		}
		again, err := ParseKubeconfig(first)
		if err != nil {
			t.Fatalf("cannot parse again: %v\n%s", err, first)
		}
		second, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("encoded once and twice: %v\n%s\n%s", err, first, second)
		}
		callMethods(t, k)
	})
}

// callMethods calls the methods of a kubeconfig and checks that their results are parts of it.
func callMethods(t *testing.T, k *Kubeconfig) {
	t.Helper()
	cluster, err := k.CurrentCluster()
	if err == nil && !reflect.DeepEqual(cluster, k.Clusters[k.Contexts[k.CurrentContext].Cluster]) {
		t.Errorf("the current cluster is %v", cluster)
	}
	_, _ = k.CurrentUser()
	_, _ = k.Endpoint()
	_, _ = k.EmbeddedCAs()
	_, _ = k.ClientCertificate()
	_, _ = k.ClusterInfo()
	_ = k.HasCredentials()
	found, err := k.DiscoveryCluster()
	if err != nil || k.RenameCluster("renamed") != nil {
		return
	}
	if len(k.Clusters) != 1 || k.Clusters["renamed"] != found {
		t.Errorf("after renaming the clusters are %v", k.Clusters)
	}
}
