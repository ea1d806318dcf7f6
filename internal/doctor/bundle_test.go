package doctor

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// bundle returns the files of a bundle by name.
func (s *testNode) bundle(t *testing.T) map[string]string {
	t.Helper()
	e, err := s.env()
	if err != nil {
		t.Fatal(err)
	}
	data, err := Bundle(t.Context(), e, s.as, s.diagnose(t))
	if err != nil {
		t.Fatal(err)
	}
	return unpackBundle(t, data)
}

// unpackBundle returns the files of a bundle by name.
func unpackBundle(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files, archive := map[string]string{}, tar.NewReader(zip)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil || header.Mode != 0o600 {
			t.Fatalf("%s has mode %o: %v", header.Name, header.Mode, err)
		}
		files[strings.TrimPrefix(header.Name, "kubeadm-bundle/")] = string(text)
	}
}

// plantSecrets plants secrets of all kinds in every source of a bundle, and returns what must not be
// found in one.
func plantSecrets(t *testing.T, s *testNode) map[string]string {
	t.Helper()
	files := s.world.Files
	keyPEM := string(files["/etc/kubernetes/pki/ca.key"].Data)
	keyBody := strings.Split(keyPEM, "\n")[1]
	const (
		token   = "k3h9wd.x4tq8zr2m6wn1p0v"
		jwt     = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.cGxhbnRlZC1zaWduYXR1cmU"
		certKey = "3f9a0c27e51b84d6f0a1c2e3b4d5968778695a4b3c2d1e0f1a2b3c4d5e6f7081"
	)
	lines := "--token=" + token + "\nAuthorization: Bearer " + jwt + "\n{\"password\": \"planted-json-pw\"}\n" +
		"DB_PASSWORD=planted-env-pw\nkey " + certKey + "\n" + keyPEM + "\nproxy http://me:planted-url-pw@proxy:3128\n" +
		"client-key-data: " + base64.StdEncoding.EncodeToString([]byte(keyPEM)) + "\n" +
		`msg="{\"user\":\"me\",\"password\":\"planted-escaped-pw\\\"planted-quoted-pw\",\"name\":\"DB_PASSWORD\",\"value\":\"planted-escaped-env\"}"` + "\n" +
		`err="config: {\\\"token\\\": \\\"planted-twice-escaped\\\"}"` + "\n" +
		`config="password: |\n  planted-escaped-block\n"` + "\n" +
		"run --password planted-flag-pw [--db-token planted-go-flag] [\"--auth\",\"planted-json-flag\"]\n" +
		"Env:[]EnvVar{EnvVar{Name:DB_PASSWORD,Value:planted-go-env,ValueFrom:nil,},}\n" +
		"DB_PWD=planted-pwd\nDB_PASS='planted''planted-pass'\nDATA_ENCRYPTION_KEY=planted,planted-encryption-key\nJWT_SIGNING_KEY: planted-signing-key\n" +
		"Authorization: Token planted-header\nGET /x?sig=planted-query glpat-planted-prefix\nauth_pass planted-blank\ncurl -u me:planted-user\n" +
		`{"kind":"SecretList","items":[{"data":{"a":"planted-listed"}}]}` + "\npassword:\n  value: planted-child\n"
	put := func(name, text string) {
		files[name] = memory.File{Data: []byte(text), Mode: 0o600, ModTime: s.world.Now()}
	}
	s.world.ServiceLogs = map[string]string{"kubelet": lines, "containerd": lines}
	s.world.CrashLog = func(component string, _ []byte) string {
		if component == "kube-scheduler" {
			return lines
		}
		return ""
	}
	put("/etc/containerd/config.toml", "[auth]\n  username = \"me\"\n  password = \"planted-toml-pw\"\n  identitytoken = 'planted-toml-token'\n")
	put("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--token="+token+" --proxy http://me:planted-url-pw@proxy:3128\"\n")
	put("/etc/cni/net.d/10-pods.conflist", `{"plugins": [{"type": "ptp", "etcd_password": "planted-cni-pw", "k8s_auth_token": "`+jwt+`"}]}`)
	put("/etc/kubernetes/manifests/broken.yaml", "kind: Pod\nspec:\n  env:\n  - name: DB_PASSWORD\n    value: planted-broken-pw\n   bad: [planted-broken-line\n")
	put("/etc/cni/net.d/20-broken.conflist", `{"plugins": [{"name": "DB_PASSWORD", "value": "planted-broken-cni"}`)
	put("/etc/cni/net.d/pods-kubeconfig", "token: "+jwt+"\n")
	put("/etc/resolv.conf", "# password: planted-host-pw\n")
	scheduler := "/etc/kubernetes/manifests/kube-scheduler.yaml"
	put(scheduler, strings.Replace(string(files[scheduler].Data), "    image:",
		"    env: [{name: DB_PASSWORD, value: planted-manifest-pw}, {name: HTTPS_PROXY, value: \"http://me:planted-url-pw@proxy\"}]\n    image:", 1))
	add(`{apiVersion: v1, kind: ConfigMap, metadata: {name: planted, namespace: kube-system,
  annotations: {kubectl.kubernetes.io/last-applied-configuration: planted-annotation}},
  data: {config: "password: planted-map-pw\ntoken: `+token+`\n", api_key: planted-map-key,
    block: "user: me\nmore:\n- password: |\n    planted-block-pw\n  env: [{name: X_PWD, value: planted-block-env}]\n",
    damaged: "{{ if x }}\nlist:\n- password: |\n    planted-damaged-block\n\n    planted-damaged-end\n- name: X_TOKEN\n  value: planted-damaged-env\n",
    json: "{\"env\": [{\"value\": \"planted-json-env\", \"name\": \"DB_PASSWORD\"}], \"kept\": \"a name\"}"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: planted, namespace: kube-system}, stringData: {a: planted-secret}}
---
{apiVersion: v1, kind: Event, metadata: {name: planted, namespace: kube-system}, message: "Bearer `+jwt+`"}
---
{apiVersion: v1, kind: Pod, metadata: {name: planted, namespace: kube-system}, spec: {containers: [{name: c,
  args: ["--password=planted-arg-pw", --password, planted-item-pw, --client-cert-auth, --kept-flag=1],
  command: [sh, -c, "exec app --password planted-shell-pw"],
  env: [{name: API_KEY, value: planted-pod-key}, {name: DB_PASS, value: planted-pod-pass}]}]}}`)(t, s)
	secrets := map[string]string{"token": "x4tq8zr2m6wn1p0v", "JWT": "cGxhbnRlZC1zaWduYXR1cmU",
		"certificate key": certKey, "private key": keyBody,
		"encoded private key": base64.StdEncoding.EncodeToString([]byte(keyPEM))[:60]}
	for _, name := range []string{"json-pw", "env-pw", "url-pw", "toml-pw", "toml-token", "cni-pw", "host-pw",
		"manifest-pw", "annotation", "map-pw", "map-key", "secret", "arg-pw", "pod-key",
		"escaped-pw", "quoted-pw", "escaped-env", "twice-escaped", "escaped-block", "flag-pw", "go-flag",
		"json-flag", "go-env", "pwd", "pass", "encryption-key", "signing-key", "broken-pw", "broken-line",
		"broken-cni", "block-pw", "block-env", "damaged-block", "damaged-end", "damaged-env", "json-env",
		"item-pw", "shell-pw", "pod-pass", "header", "query", "prefix", "blank", "user", "listed", "child"} {
		secrets[name] = "planted-" + name
	}
	for name, f := range files { // the machine's own
		if strings.HasSuffix(name, ".key") {
			secrets[name] = strings.Split(string(f.Data), "\n")[1]
		}
	}
	return secrets
}

func TestBundleHasNoSecrets(t *testing.T) {
	s := newHealthyNode(t)
	secrets := plantSecrets(t, s)
	files := s.bundle(t)
	for _, want := range []string{"doctor.json", "versions.yaml", "logs/kubelet.log", "logs/containerd.log",
		"files/etc/kubernetes/manifests/kube-scheduler.yaml", "files/var/lib/kubelet/config.yaml",
		"files/etc/containerd/config.toml", "files/etc/cni/net.d/10-pods.conflist", "certificates.yaml",
		"kubeconfigs.yaml", "cluster/nodes.yaml", "cluster/pods.yaml", "cluster/control-plane-nodes.yaml", "cluster/control-plane-pods.yaml", "cluster/configmaps.yaml",
		"cluster/events.yaml", "cluster/etcd-members.yaml", "host/containers.yaml", "host/etc/resolv.conf"} {
		if files[want] == "" {
			t.Errorf("there is no %s", want)
		}
	}
	logs := 0
	for name, text := range files {
		if strings.HasPrefix(name, "logs/kube-scheduler") {
			logs++
		}
		for kind, secret := range secrets {
			if strings.Contains(text, secret) {
				i := strings.Index(text, secret)
				t.Errorf("%s has the secret %s: …%s…", name, kind, text[max(0, i-60):min(len(text), i+len(secret)+10)])
			}
		}
	}
	if logs == 0 {
		t.Error("there is no log of kube-scheduler")
	}
	if !strings.Contains(files["files/etc/kubernetes/manifests/kube-scheduler.yaml"], "--leader-elect=true") ||
		!strings.Contains(files["cluster/pods.yaml"], "registry.k8s.io/kube-apiserver:v1.37.1") ||
		!strings.Contains(files["cluster/pods.yaml"], "--kept-flag=1") ||
		!strings.Contains(files["cluster/configmaps.yaml"], `"kept": "a name"`) {
		t.Error("it hides what is no secret")
	}
	for _, want := range []string{"/etc/kubernetes/manifests/broken.yaml: left out", "near line 5\n",
		"/etc/cni/net.d/20-broken.conflist: left out"} {
		if !strings.Contains(files["errors.txt"], want) {
			t.Errorf("errors.txt has no %q:\n%s", want, files["errors.txt"])
		}
	}
}

// The machine of a user without a cluster has a bundle too.
func TestBundleOfNewMachine(t *testing.T) {
	if files := newVacantMachine().bundle(t); files["doctor.json"] == "" {
		t.Errorf("got %v", files)
	}
}

// clusterBundle returns the files of a bundle without a diagnosis.
func (s *testNode) clusterBundle(t *testing.T) map[string]string {
	t.Helper()
	e, err := s.env()
	if err != nil {
		t.Fatal(err)
	}
	data, err := Bundle(t.Context(), e, state.Identity{Kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}, Diagnosis{})
	if err != nil {
		t.Fatal(err)
	}
	return unpackBundle(t, data)
}

// addMany adds Nodes whose annotations are longer than a file may be.
func (s *testNode) addMany(t *testing.T, annotation string) {
	t.Helper()
	for i := range 3000 {
		add(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: many%04d, annotations: {filler: %s}}, "+
			"status: {images: [{names: [unneeded]}], volumesInUse: [vol], volumesAttached: [{name: vol, devicePath: x}]}}",
			i, annotation))(t, s)
	}
}

// Of a list that is longer than a file may be, the first objects are there, each whole.
func TestBundleOfLargeClusterIsCutBetweenObjects(t *testing.T) {
	for name, filler := range map[string]string{"plain": strings.Repeat("x", 1<<10),
		"longer when shown": `"` + strings.Repeat("\u200b", 1<<9) + `"`} {
		t.Run(name, func(t *testing.T) {
			s := newHealthyNode(t)
			s.addMany(t, filler)
			files := s.clusterBundle(t)
			text := files["cluster/nodes.yaml"]
			var found []corev1.Node
			if err := yaml.Unmarshal([]byte(text), &found); err != nil {
				t.Fatal(err)
			}
			if len(found) < 500 || len(text) > fileLimit || !strings.HasSuffix(text, leftOut) || strings.Contains(text, "unneeded") {
				t.Errorf("there are %d Nodes in %d bytes, which end with %q", len(found), len(text), text[max(0, len(text)-100):])
			}
			if last := found[len(found)-1]; len(last.Status.VolumesInUse) != 1 || len(last.Status.VolumesAttached) != 1 {
				t.Errorf("the last one has no volumes: %+v", last.Status)
			}
			if planes := files["cluster/control-plane-nodes.yaml"]; !strings.Contains(planes, "name: cp1\n") || strings.Contains(planes, "many") {
				t.Errorf("the Nodes of the control plane are %q", planes)
			}
			if pods := files["cluster/control-plane-pods.yaml"]; !strings.Contains(pods, "name: etcd-cp1\n") || strings.Contains(pods, "coredns") {
				t.Errorf("the Pods of the control plane are %q", pods)
			}
		})
	}
}

// One long object is left out, and those after it are not.
func TestBundleLeavesOutOneLongObject(t *testing.T) {
	s := newHealthyNode(t)
	add("{apiVersion: v1, kind: ConfigMap, metadata: {name: a-long, namespace: kube-system}, data: {a: "+
		strings.Repeat("x", 2*objectLimit)+"}}\n---\n"+
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: b-short, namespace: kube-system}}")(t, s)
	text := s.clusterBundle(t)["cluster/configmaps.yaml"]
	if !strings.Contains(text, "# a-long is left out: 262") || !strings.Contains(text, "name: b-short\n") || strings.Contains(text, leftOut) {
		t.Errorf("got %q", text)
	}
}

// failingLists fails each list of Nodes after its first object.
type failingLists struct{ *fake.World }

func (w failingLists) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	keep, calls := q.Keep, 0
	if q.GVK != state.NodeKind || keep == nil {
		return w.World.List(ctx, q)
	}
	q.Keep = func(u *unstructured.Unstructured) bool {
		calls++
		return calls == 1 && keep(u)
	}
	_, err := w.World.List(ctx, q)
	return nil, cmp.Or(err, io.ErrUnexpectedEOF)
}

// A list that fails midway says that it is not whole.
func TestBundleNamesIncompleteLists(t *testing.T) {
	s := newHealthyNode(t)
	s.seen = failingLists{s.world}
	files := s.clusterBundle(t)
	if text := files["cluster/nodes.yaml"]; !strings.Contains(text, "name: cp1\n") || !strings.HasSuffix(text, incomplete) {
		t.Errorf("got %q", text)
	}
	if !strings.Contains(files["errors.txt"], "cluster/nodes.yaml: unexpected EOF") {
		t.Errorf("the errors are %q", files["errors.txt"])
	}
}
