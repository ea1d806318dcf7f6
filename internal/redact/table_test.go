package redact

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/world/worldtest"
)

// planted stands in each form where a secret is.
const planted = "Pl4nt3dPl4nt3dPl4nt3d"

// secretForms are the forms in which secrets are found in logs, files and objects. Some have a value
// of their own, as their form needs one; it is what secretsOf returns.
func secretForms() []string {
	return []string{
		// HTTP
		"Authorization: Bearer @", "Authorization: Basic @", "Authorization: Token @",
		"Authorization: ApiKey @", "authorization: token @", "Authorization: @",
		`Authorization: Digest username="me", response="@"`, "Authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=@",
		"Authorization=Custom @", "Proxy-Authorization: Basic @", "HTTP_AUTHORIZATION=Token @",
		"Authorization:[Token @]", `Authorization:[]string{"Token @"}`, "-H 'Authorization: Token @'",
		"Cookie: a=@", "Cookie: a=b; session=@; c=d", "Set-Cookie: sid=@; Path=/; HttpOnly", "Cookie: @",
		"X-Auth-Token: @", "X-Api-Key: @", "X-Vault-Token: @", "PRIVATE-TOKEN: @", "X-Amz-Security-Token: @",
		"sent Bearer @ to it", "Negotiate @",
		// URLs
		"https://me:@@host.example/x", "https://@@host.example/x", "https://host.example/?sig=@", "https://host.example/?sv=1&sig=@&se=2",
		"https://host.example/?key=@", "https://host.example/?token=@", "https://host.example/?a=b&access_token=@",
		"https://host.example/?X-Amz-Credential=a&X-Amz-Signature=@", "https://host.example/?X-Goog-Signature=@",
		"https://host.example/?apikey=@", "https://host.example/?client_secret=@&x=y", "https://host.example/#access_token=@",
		"https://host.example/cb?code=@", "https://host.example/?to=https%3A%2F%2Fx%3Ftoken%3D@", `https://host.example/?a=b\u0026sig=@`,
		"https://host.example/?password=@", "postgres://me:@@db.example/x", "https://hooks.slack.com/services/T0/B0/@",
		"https://discord.com/api/webhooks/1/@", "jdbc:mysql://db/x?user=me&password=@",
		// prefixes
		"ghp_@", "gho_@", "github_pat_@", "glpat-@", "glrt-@", "hvs.@", "xoxb-1-@", "xoxp-@", "xapp-1-@",
		"AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ@.@", "sk-@", "sk-proj-@",
		"sk_live_@", "AIza@", "ya29.@", "GOCSPX-@", "npm_@", "dckr_pat_@", "hf_@", "SG.@.@", "glsa_@",
		"AGE-SECRET-KEY-1PL4NT3DPL4NT3D", "k3h9wd.x4tq8zr2m6wn1p0v", "bootstrap token k3h9wd.x4tq8zr2m6wn1p0v expired",
		// names
		"password=@", "password: @", "db_password=@", "DB_PASS=@", "client_secret: @", "aws_secret_access_key = @",
		"AccountKey=@;EndpointSuffix=x", "SharedAccessKey=@", "Password=@;User=me", "token: Bearer @", "auth: Basic @",
		"password: correct @", `password="two @"`, "api-key: @", "<password>@</password>", "-----token: @",
		"map[password:@ user:me]", "{Password:@ User:me}", ".dockerconfigjson: @", "encryption_key=@", "PresharedKey = @", "certificateKey: @",
		// blanks
		"password @", "password '@'", "auth_pass @", "requirepass @", "masterauth @", "machine h login me password @",
		"wrong passphrase @", "rootpw @",
		// arguments
		"app --password @", "app --token=@", "curl -u me:@ https://x", "curl -ume:@ https://x", "etcdctl --user root:@ get x", "crictl pull --creds me:@ x",
		"etcdctl --user=root:@ get x", "docker login -u me -p @ registry", "sshpass -p @ ssh x", "mysql -u me -p@ db",
		"redis-cli -a @ ping", "kubectl create secret generic x --from-literal=a=@", "ldapsearch -w @ -b dc=x",
		// files
		`@,alice,1001,"system:masters,dev"`, "@,alice,1001", `@,alice,u1,"dev"`,
		"me:$2y$10$@@@", "me:$apr1$x1y2z3a4$@", "root:$6$salt$@:19000:0:99999:7:::", "me:{SHA}@=",
		// children
		"password: {value: @}", `"password":{"value":"@"}`, `"credentials": {"a": {"b": "@"}}`, `"tokens": ["@"]`,
		`"passwords":[{"value":"@"}]`, `{"name":"DB_PASSWORD","value":"@"}`, `{"value":"@","name":"DB_PASSWORD"}`,
		`{"name":"Authorization","value":"Token @"}`,
		"credentials: {user: {name: me, password: @}}", `"credentials": {"users": [{"name": "me", "user": {"token": "@"}}]}`,
		// Secrets
		`{"kind":"Secret","data":{"a":"@"}}`, `{"data":{"a":"@"},"kind":"Secret"}`, `{"stringData":{"a":"@"},"kind":"Secret"}`,
		`{"kind":"SecretList","items":[{"metadata":{"name":"x"},"data":{"a":"@"}}]}`,
		`{"kind":"List","items":[{"kind":"Secret","data":{"a":"@"}},{"kind":"Secret","data":{"b":"@"}}]}`,
		"map[apiVersion:v1 data:map[a:@] kind:Secret]", "&Secret{ObjectMeta:{x},Data:map[string][]byte{a: [@],},Type:Opaque,}",
		"Secret{StringData:map[string]string{a: @,},}",
		// private keys
		`-----BEGIN RSA PRIVATE KEY-----\nMII@\n-----END RSA PRIVATE KEY-----\n`, `"-----BEGIN PRIVATE KEY-----\nMII@\n-----END PRIVATE KEY-----\n"`,
		`-----BEGIN OPENSSH PRIVATE KEY-----\r\nMII@\r\n-----END OPENSSH PRIVATE KEY-----`, `-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII@`,
		"LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk@",
		"--certificate-key 3f9a0c27e51b84d6f0a1c2e3b4d5968778695a4b3c2d1e0f1a2b3c4d5e6f7081",
	}
}

// secretTexts are forms of several lines.
func secretTexts() []string {
	return []string{
		"password:\n  value: @\nuser: me\n", "a:\n- password:\n    value: @\n  b: 1\n", "password: |\n  @\nuser: me\n",
		"password:\n- @\nuser: me\n", "credentials:\n  me:\n    secret_id: @\n    x: @\nb: 1\n",
		"kind: Secret\nmetadata:\n  name: x\ndata:\n  a: @\n", "apiVersion: v1\ndata:\n  a: @\nkind: Secret\n",
		"items:\n- apiVersion: v1\n  data:\n    a: @\n  kind: Secret\n- x: 1\n",
		"kind: SecretList\nitems:\n- metadata:\n    name: x\n  data:\n    a: @\n",
		"{\n  \"kind\": \"Secret\",\n  \"data\": {\n    \"a\": \"@\"\n  }\n}\n",
		"headers:\n  Authorization:\n  - Token @\n", "app\n- -u\n- me:@\n", "- --password\n- @\n",
		"-----BEGIN EC PRIVATE KEY-----\nMHc@\n-----END EC PRIVATE KEY-----\n", "-----BEGIN EC PRIVATE KEY-----\nMHc@\n",
		"@\nabc=\n-----END RSA PRIVATE KEY-----\n", "machine h\n  login me\n  password @\n", "[redis]\nrequirepass @\n",
		"vrrp {\n  authentication {\n    auth_type PASS\n    auth_pass @\n  }\n}\n",
	}
}

// publicLines are lines of logs, files and objects that anyone may read.
func publicLines() []string {
	const digest = "3f9a0c27e51b84d6f0a1c2e3b4d5968778695a4b3c2d1e0f1a2b3c4d5e6f7081"
	return []string{
		// names
		"node cp1.example.internal is ready", `node "worker-7f9c4d" not found`, "Node/ip-10-0-0-1.eu-central-1.compute.internal",
		"system:node:cp1", "kube-system/kube-proxy-x7k2p", "kube-controller-manager-cp1", "coredns-668d6bf9bc-4xk2p",
		"context kubernetes-admin@kubernetes", "user system:serviceaccount:kube-system:generic-garbage-collector",
		"task-runner-controller-manager-7f9c", "disk-by-id-nvme-eui.0025385b9150", "sk-controller",
		// digests, hashes and IDs
		"registry.k8s.io/etcd:3.6.8-0@sha256:" + digest, "sha256:" + digest, "discovery-token-ca-cert-hash sha256:" + digest,
		"uid: 6b1b7e1c-4f5a-4c56-9f39-0d3a1f3f6c11", `podUID="6b1b7e1c-4f5a-4c56-9f39-0d3a1f3f6c11"`,
		"member 8e9e05c52164694d is healthy", "added member 91bc3c398fb3c146 [https://10.0.0.2:2380]", "raft.node: 8e9e05c52164694d elected leader 8e9e05c52164694d at term 3",
		`containerID="containerd://` + digest + `"`, `RemoveContainer for "` + digest + `" of container "x"`, "resourceVersion: \"184467\"",
		"SHA256 Fingerprint=AA:BB:CC:DD:EE:FF:00:11:22:33", "cri-containerd-" + digest + ".scope", "config hash 5d41402abc4b2a76b9719d911017c592",
		// settings
		"--authorization-mode=Node,RBAC", "authorization:\n  mode: Webhook\n  webhook:\n    cacheAuthorizedTTL: 5m0s", `"authorization":{"mode":"Webhook"}`,
		"--client-cert-auth=true", "--tls-private-key-file=/etc/kubernetes/pki/apiserver.key", "--service-account-key-file=/etc/kubernetes/pki/sa.pub",
		"--enable-bootstrap-token-auth=true", "--enable-admission-plugins=NodeRestriction,PodSecurity", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--experimental-initial-corrupt-check=true", "--key-file=/etc/kubernetes/pki/etcd/server.key", "tokenCleaner is running",
		"secret:\n  defaultMode: 420\n  secretName: cilium-clustermesh", `"secret":{"secretName":"x","defaultMode":420}`, "imagePullSecrets:\n- name: regcred",
		"serviceAccountToken:\n  expirationSeconds: 3607\n  path: token", "password:\n  secretKeyRef:\n    name: db\nuser: me",
		"docker run -u 1000:1000 x", "runAsUser: 65534", "0-3,5,7", "cpu,memory,pods", "Node,RBAC,Webhook",
		// logs
		`I1125 10:00:00.123456       1 server.go:212] "Started kubelet"`,
		`E1125 10:00:00.1 812 reflector.go:204] "Failed to watch" err="failed to list *v1.Secret: Unauthorized" type="*v1.Secret"`,
		`E1125 10:00:00.1 812 reflector.go:166] failed to list *v1.Secret: secrets is forbidden: User "system:node:cp1" cannot list resource "secrets"`,
		`MountVolume.SetUp failed for volume "certs" : secret "etcd-certs" not found`, `object "kube-system"/"x" not registered`,
		"password authentication is disabled", "wrong password for user me", "the token has expired", "invalid bearer token", "bearer token is missing",
		"basic authentication failed", "Basic Authentication is off", "authorization failed: unknown", "cookie: nil",
		"unable to create token: context deadline exceeded", "login failed: password: incorrect", "x509: certificate signed by unknown authority",
		`Get "https://10.0.0.1:6443/api/v1/nodes?fieldSelector=metadata.name%3Dcp1&limit=500&resourceVersion=0": dial tcp 10.0.0.1:6443: connect: connection refused`,
		"GET /api/v1/watch?timeoutSeconds=577&watch=true&labelSelector=k8s-app%3Dcoredns 200", "unix:///run/containerd/containerd.sock",
		`{"level":"info","ts":"2026-11-25T10:00:00.000Z","caller":"etcdserver/server.go:1","msg":"published local member","member-id":"8e9e05c52164694d","cluster-id":"cdf818194e3a8c32"}`,
		`pod="kube-system/etcd-cp1" podUID="0c2b4f2cbd5b8e9a6ac8f4b0f3b3a3b1"`, "kind: ConfigMap\ndata:\n  a: b", `{"kind":"ConfigMap","data":{"a":"b"}}`,
		`Data:map[string]string{a: b,}`, "time=2026-11-25T10:00:00Z level=info msg=\"connecting to shim\" address=unix:///run/x", "OCI runtime create failed: no space left on device",
		"awk '{print $1$2}'", "path: /registry/secrets/kube-system/bootstrap-token-k3h9wd", "storing secret bootstrap-token-k3h9wd", "token ID k3h9wd",
		"2001:db8::1 fe80::1 10.244.0.0/16", "monkey: banana", "turkey=1", "keyboard: us",
	}
}

func TestWhatIsPublicIsLeft(t *testing.T) {
	for _, line := range publicLines() {
		for name, text := range map[string]string{"plain": line, "log": "Nov 25 10:00:00 cp1 app[812]: " + line + "\n"} {
			if strings.Contains(line, "\n") && name == "log" {
				continue
			}
			if got := Text(text); got != text {
				t.Errorf("%s: %s\n is shown as %s", name, text, got)
			}
		}
	}
	if len(publicLines()) < 30 {
		t.Error("there are too few lines")
	}
}

func TestNoFormOfASecretIsLeft(t *testing.T) {
	inLog := func(text string) string {
		return "Nov 25 10:00:00 cp1 app[812]: I1125 10:00:00.1 1 app.go:7] it said " + text + "\nNov 25 10:00:01 cp1 app[812]: next line\n"
	}
	document := func(value any) string {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	file := func(text string) string {
		data, err := Document([]byte(text))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	sources := map[string]func(string) string{
		"plain":   Text,
		"log":     func(s string) string { return Text(inLog(s)) },
		"journal": func(s string) string { return Text(document(map[string]string{"MESSAGE": s, "_PID": "7"})) },
		"JSON in a log": func(s string) string {
			return Text(inLog(document(map[string]string{"msg": document(map[string]string{"err": s})})))
		},
		"quoted":        func(s string) string { return Text(`err=` + document(s) + ` pod="kube-system/x"`) },
		"field of YAML": func(s string) string { return file("spec:\n  text: " + document(s) + "\n") },
		"field of JSON": func(s string) string { return file(document(map[string]any{"spec": map[string]string{"text": s}})) },
		"ConfigMap": func(s string) string {
			return file(document(map[string]any{"data": map[string]string{"config": "a: 1\nb: " + document(s) + "\n"}}))
		},
		"argument": func(s string) string {
			return file(document(map[string]any{"args": []string{"sh", "-c", "app --x " + s}}))
		},
		"flag": func(s string) string { return Text("/usr/bin/app --header=" + document(s) + " --v=2") },
	}
	count := 0
	for _, form := range secretForms() {
		// in a URL "@" ends the password
		text := strings.NewReplacer("@@host", planted+"@host", "@@db", planted+"@db", "@", planted).Replace(form)
		secrets := []string{planted, strings.ToUpper(planted), "IOSFODNN7EXAMPLE", "PL4NT3D", "x4tq8zr2m6wn1p0v", "3f9a0c27e51b84d6"}
		count++
		for name, clean := range sources {
			got := clean(text)
			for _, secret := range secrets {
				if strings.Contains(got, secret) {
					t.Errorf("%s: %s\n is shown as %s", name, text, got)
					break
				}
			}
			if name == "log" && !strings.HasSuffix(got, "\nNov 25 10:00:01 cp1 app[812]: next line\n") && !strings.Contains(text, "BEGIN ENC") {
				t.Errorf("%s loses the next line: %s", text, got)
			}
		}
	}
	prefix := "Nov 25 10:00:00 cp1 app[812]: "
	for _, form := range secretTexts() {
		text := strings.ReplaceAll(form, "@", planted)
		count++
		for name, got := range map[string]string{"plain": Text(text), "after a line": Text("a: 1\n" + text),
			"journal":       Text(document(map[string]string{"MESSAGE": text, "_PID": "7"})),
			"quoted":        Text(`err=` + document(text) + ` pod="kube-system/x"`),
			"JSON in JSON":  Text(document(map[string]string{"msg": document(map[string]string{"err": text})})),
			"with prefixes": Text(prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"),
			"ConfigMap":     file(document(map[string]any{"data": map[string]string{"config": text}})),
		} {
			if strings.Contains(got, planted) {
				t.Errorf("%s: %s\n is shown as %s", name, text, got)
			}
			if strings.Contains(text, "user: me") && !strings.Contains(got, "user: me") {
				t.Errorf("%s loses the user: %s\n is shown as %s", name, text, got)
			}
		}
	}
	t.Logf("%d forms", count)
	if count < 87 {
		t.Errorf("there are only %d forms", count)
	}
}

// A Pod writes its log as it likes. What it costs to read a log grows with its size only: a text of eight
// times the size takes eight times as long, and would take 64 times as long if each of its words were
// compared with all that follow. What is measured is the time that this thread has run, which a busy
// machine does not change.
func TestCostOfALogGrowsWithItsSize(t *testing.T) {
	const size, factor, limit, attempts = 8 << 10, 8, 24, 5
	const tick = 16 * time.Millisecond // of the clock of Windows, on which a short time may be none
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	timeOf := func(part string, size int) time.Duration {
		text := strings.Repeat(part, size/len(part))
		begin := worldtest.ThreadTime(t)
		Text(text)
		return worldtest.ThreadTime(t) - begin
	}
	for _, part := range hostileParts() {
		var short, long time.Duration
		for i := range attempts {
			if short = max(short, timeOf(part, size)); short == 0 {
				short = tick
			}
			if took := timeOf(part, factor*size); i == 0 || took < long {
				long = took
			}
			if long < limit*short {
				break
			}
		}
		if long >= limit*short {
			t.Errorf("%q takes %s, and %d times of it take %s", part, short, factor, long)
		}
	}
}

// hostileParts are parts of logs that begin something again and again and do not end it.
func hostileParts() []string {
	return []string{`password: "x `, `"kind":"Secret" `, "password: {", `{"kind":"Secret","data":{`, "'{[", "password:\n", "Cookie: ",
		"-----BEGIN PRIVATE KEY----- ", "kind: Secret\n", "a,b1,", "\"\\n", "--password ",
		"3f9a0c27e51b84d6f0a1c2e3b4d5968778695a4b3c2d1e0f1a2b3c4d5e6f7081 ", "docker login ",
		"Authorization: RBAC ", "password [a ", "1password: is ", "password=is.", "--password,", "password: {1Name: ",
		"mysql x --from-literal=a=b ", `\"http://x `, "http://@sha", "kind: Secret\n\r\n", "password: {" + strings.Repeat(`\`, 50) + "\n"}
}

// Objects without an end are looked at up to a limit. What follows then is hidden.
func TestObjectsWithoutEnd(t *testing.T) {
	for _, c := range []struct {
		part string
		most int // how often it may be left
	}{
		{"password: {\n", maxUnclosed + 1}, {"password: {a: {", maxDepth + 1}, {`"kind":"Secret"` + "\n", 2 * maxUnclosed},
	} {
		text := strings.Repeat(c.part, 2*maxUnclosed) + "password: {x: {a: " + planted + "}}, data: " + planted
		got := Text(text)
		if count := strings.Count(got, c.part); count > c.most || strings.Contains(got, planted) {
			t.Errorf("%q is left %d times, and the end is %q", c.part, count, got[max(0, len(got)-80):])
		}
	}
}
