package pki

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// FuzzCertificateKey: a key that is accepted prints as it was given, opens what it sealed and nothing
// else; one that is refused is not repeated.
func FuzzCertificateKey(f *testing.F) {
	key := strings.Repeat("0f", certificateKeySize)
	f.Add(key, []byte("plain"), []byte("neither sealed nor of the right length"))
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
		sealed, err := k.Seal(zeros{}, plain)
		if err != nil {
			t.Fatal(err)
		}
		if opened, err := k.Open(sealed); err != nil || !bytes.Equal(opened, plain) {
			t.Errorf("what was sealed as %q opens as %q, %v", plain, opened, err)
		}
		if opened, err := k.Open(stray); err == nil && !resealed(k, stray, opened) {
			t.Errorf("%q opens as %q", stray, opened)
		}
		at := len(stray) % len(sealed)
		sealed[at] ^= 1
		if _, err := k.Open(sealed); err == nil {
			t.Errorf("byte %d was altered without notice", at)
		}
	})
}

// resealed tells whether data is what the key makes of the plain text under the same nonce.
func resealed(k CertificateKey, data, plain []byte) bool {
	again, err := k.Seal(bytes.NewReader(data[:12]), plain)
	return err == nil && bytes.Equal(again, data)
}

// FuzzPin: a hash that is accepted prints as it was given.
func FuzzPin(f *testing.F) {
	for _, text := range []string{"sha256:" + strings.Repeat("0a", 32), "SHA256:" + strings.Repeat("0A", 32), "md5:00", "sha256:", strings.Repeat("0a", 32), "sha256:sha256:" + strings.Repeat("0a", 32)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePin(text)
		if err == nil && p.String() != strings.ToLower(text) {
			t.Errorf("%q prints as %q", text, p)
		}
		if err != nil && !strings.Contains(err.Error(), "64 hex digits") {
			t.Errorf("the error does not say what is wanted: %v", err)
		}
	})
}

// FuzzKubeconfig: what is read, printed and read again is the same, and no question about it panics.
func FuzzKubeconfig(f *testing.F) {
	access := Access{Server: "https://10.0.0.1:6443", Cluster: "c", User: "u"}
	for _, k := range []*Kubeconfig{access.WithToken("t"), access.WithCertificate([]byte("cert"), []byte("key")), {}} {
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
				t.Errorf("the error does not say of what: %v", err)
			}
			return
		}
		first, err := k.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be printed: %v", err)
		}
		again, err := ParseKubeconfig(first)
		if err != nil {
			t.Fatalf("what was printed cannot be read: %v\n%s", err, first)
		}
		second, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("printed once and twice: %v\n%s\n%s", err, first, second)
		}
		questions(t, k)
	})
}

// questions are asked of every kubeconfig; where there is an answer, it is a part of the kubeconfig.
func questions(t *testing.T, k *Kubeconfig) {
	t.Helper()
	cluster, err := k.CurrentCluster()
	if err == nil && !reflect.DeepEqual(cluster, k.Clusters[k.Contexts[k.CurrentContext].Cluster]) {
		t.Errorf("the current cluster is %v", cluster)
	}
	_, _ = k.CurrentUser()
	_, _ = k.Endpoint()
	_, _ = k.Trusted()
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
