package laws

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/pki"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// describeMachine describes a machine and its cluster such that two runs compare equal, though
// each generates its own keys and tokens.
func describeMachine(t testing.TB, m *fake.World, key string) string {
	t.Helper()
	s := describer{machine: m}
	s.key, _ = pki.ParseCertificateKey(key)
	s.ca = s.read("/etc/kubernetes/pki/ca.crt")
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		f := m.Files[name]
		fmt.Fprintf(&b, "file %s %v\n%s", withoutGeneratedNames(name), f.Mode,
			indentLines(s.file(name, f.Data)))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Services)) {
		fmt.Fprintf(&b, "service %s active=%v\n", name, m.Services[name].Active)
	}
	var pods []string // in which order they were started does not matter
	for _, p := range m.Pods {
		p.ID = ""
		pods = append(pods, fmt.Sprint(p))
	}
	slices.Sort(pods)
	fmt.Fprintf(&b, "mounts %v\nimages %v\npods %v\nmembers %v\n", m.MountList, m.ImageList, pods,
		m.MemberList)
	fmt.Fprintf(&b, "links %v\nrules %q\nvirtual servers %v\n", m.LinkList, m.Rules,
		m.VirtualServerList)
	return b.String() + s.objects()
}

// describer describes the files and objects of a machine.
type describer struct {
	machine *fake.World
	key     pki.CertificateKey
	ca      []byte
}

func (s describer) read(name string) []byte { return s.machine.Files[name].Data }

func (s describer) file(name string, data []byte) string {
	if path.Base(name) == memory.RestoredFile {
		return fmt.Sprintf("a token of %d characters", len(data))
	}
	switch path.Ext(name) {
	case ".crt":
		return s.certificates(data, s.read(strings.TrimSuffix(name, ".crt")+".key"))
	case ".key":
		return fmt.Sprintf("a key: %v", isKey(data))
	case ".pub":
		return "the public key: " +
			compareKeys(publicKeyOf(data),
				publicKeyOf(s.read(strings.TrimSuffix(name, ".pub")+".key")))
	case ".conf":
		return s.kubeconfig(data)
	}
	return s.text(string(data))
}

func isKey(key []byte) bool { _, err := pki.ParseKey(key); return err == nil }

func publicKeyOf(data []byte) crypto.PublicKey {
	if key, err := pki.ParseKey(data); err == nil {
		return key.Public()
	}
	public, _ := pki.ParsePublicKey(data)
	return public
}

func compareKeys(a, b crypto.PublicKey) string {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return map[bool]string{true: "matches", false: "does not match"}[ok && comparable.Equal(b)]
}

func (s describer) certificates(data, key []byte) string {
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, c := range certs {
		all = append(all, fmt.Sprintf("%s, by %s (%s), %v %v, CA %v, for %x %v, its key %s",
			c.Subject, c.Issuer, s.signature(c), c.DNSNames, c.IPAddresses, c.IsCA, c.KeyUsage,
			c.ExtKeyUsage, compareKeys(c.PublicKey, publicKeyOf(key))))
	}
	return strings.Join(all, "\n")
}

// signature describes whether the issuer's certificate on the machine signed the certificate.
func (s describer) signature(c *x509.Certificate) string {
	for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		cas, err := pki.ParseCertificates(s.read("/etc/kubernetes/pki/" + base + ".crt"))
		if err == nil && bytes.Equal(cas[0].RawSubject, c.RawIssuer) {
			return fmt.Sprintf("error %v", c.CheckSignatureFrom(cas[0]))
		}
	}
	return "which is not here"
}

func (s describer) kubeconfig(data []byte) string {
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return err.Error()
	}
	cluster, err := config.CurrentCluster()
	if err != nil {
		return err.Error()
	}
	user, err := config.CurrentUser()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s at %s, CA of this machine: %v\ncertificate %s, file %q, token %v",
		config.CurrentContext, cluster.Server,
		bytes.Equal(cluster.CertificateAuthorityData, s.ca),
		s.certificates(user.ClientCertificateData, user.ClientKeyData), user.ClientCertificate,
		user.Token != "")
}

// text returns a text without what differs in each run.
func (s describer) text(of string) string {
	if len(s.ca) > 0 {
		of = strings.ReplaceAll(of, base64.StdEncoding.EncodeToString(s.ca), "<CA>")
	}
	return withoutGeneratedNames(of)
}

// changeIDPattern matches the ID of a change of the configuration, which is quoted if it looks like a
// number.
var changeIDPattern = regexp.MustCompile(`(\bid: )(?:\\?"[0-9a-f]+\\?"|[^"\\\n]+)`)

// reconfigurationPattern matches the times of a change of the configuration, and its ID in an
// annotation.
var reconfigurationPattern = regexp.MustCompile(
	`(\bstarted: \\?"|\bstored: \\?"|kubeadm\.kubernetes\.io/reconfiguration": ")[^"\\\n]+`)

// eventPattern matches the ID of a change of the configuration in the name and the message of an Event, and the times of
// an Event. How many Events there are, of which node and with which reason, is the same in each run.
var eventPattern = regexp.MustCompile(
	`(\.kubeadm-reconfigured-|\bApplied configuration change |"(?:first|last)Timestamp": ")(?:[0-9a-f]{12}\b|[-0-9:TZ]+)`)

var tokenPattern = regexp.MustCompile(`bootstrap-token-[a-z0-9]{6}\b`)

// signaturePattern matches the signatures of cluster-info.
var signaturePattern = regexp.MustCompile(`jws-kubeconfig-[a-z0-9]{6}"?: "?[\w-]+\.\.[\w-]+`)

// backupTimePattern matches the time in the name of a backup directory.
var backupTimePattern = regexp.MustCompile(`(kubeadm-(?:(?:backup|kubelet)-[a-z]+|kept|restored)-)\d{4}(-\d\d){5}`)

// kubeletTimePattern matches the name of a file with a client certificate of the kubelet. A killed
// run may leave one that is not used.
var kubeletTimePattern = regexp.MustCompile(`(kubelet-client-)\d{4}(-\d\d){5}`)

// withoutGeneratedNames replaces the names of tokens, the signatures with them and the times of
// backups and of client certificates of the kubelet.
func withoutGeneratedNames(text string) string {
	for _, r := range []struct {
		names       []string // of which a match has one: most texts have none
		pattern     *regexp.Regexp
		replacement string
	}{
		{[]string{"kubeadm-", "kept-", "restored-"}, backupTimePattern, "$1*"},
		{[]string{"kubelet-client-"}, kubeletTimePattern, "$1*"},
		{[]string{"id: "}, changeIDPattern, "$1*"},
		{[]string{"started: ", "stored: ", "/reconfiguration"}, reconfigurationPattern, "$1*"},
		{[]string{".kubeadm-reconfigured-", "Timestamp"}, eventPattern, "$1*"},
		{[]string{"bootstrap-token-"}, tokenPattern, "bootstrap-token-*"},
		{[]string{"jws-kubeconfig-"}, signaturePattern, "jws-kubeconfig-*"},
	} {
		if slices.ContainsFunc(r.names, func(n string) bool { return strings.Contains(text, n) }) {
			text = r.pattern.ReplaceAllString(text, r.replacement)
		}
	}
	return text
}

func (s describer) objects() string {
	var all []string
	for k, o := range s.machine.Objects {
		all = append(all, s.object(k, o.DeepCopy()))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

func (s describer) object(k memory.Key, o *unstructured.Unstructured) string {
	if data, ok, _ := unstructured.NestedStringMap(o.Object, "data"); ok &&
		k.Kind.Kind == "Secret" {
		for name, value := range data {
			data[name] = s.secret(o, name, value)
		}
		_ = unstructured.SetNestedStringMap(o.Object, data, "data")
	}
	text, err := json.MarshalIndent(o.Object, "", " ")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("object %v\n%s", withoutGeneratedNames(fmt.Sprint(k)),
		indentLines(s.text(strings.ReplaceAll(string(text), `\n`, "\n"))))
}

// secret describes a value of a Secret by what is the same in each run.
func (s describer) secret(o *unstructured.Unstructured, name, value string) string {
	plain, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return err.Error()
	}
	switch {
	case o.GetName() == "kubeadm-certs":
		file := "/etc/kubernetes/pki/" + strings.Replace(name, "etcd-", "etcd/", 1)
		opened, err := s.key.Decrypt(plain)
		return fmt.Sprintf("the file: %v", err == nil && bytes.Equal(opened, s.read(file)))
	case o.GetName() == "kubeadm-files":
		opened, err := s.key.Decrypt(plain)
		return fmt.Sprintf("a file: %v, %s", err == nil, opened)
	case name == "token-id":
		return fmt.Sprintf("as in the name: %v", o.GetName() == "bootstrap-token-"+string(plain))
	case name == "token-secret", name == "expiration":
		return fmt.Sprintf("%d bytes", len(plain))
	}
	return string(plain)
}

func indentLines(text string) string {
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}

// diffLines returns the lines that differ; it is empty if both texts are equal.
func diffLines(a, b string) string {
	if a == b {
		return ""
	}
	return cmp.Diff(strings.Split(a, "\n"), strings.Split(b, "\n"))
}
