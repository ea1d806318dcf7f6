//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// TestECDSAKeys checks every key that init generates with another algorithm than the default,
// renews all certificates and restarts the components.
func TestECDSAKeys(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	config := nodes.InitConfig(nodes.Config{Address: s.cp.Address(),
		Cluster: "encryptionAlgorithm: " + string(pki.ECDSAP384)})
	var err error
	s.initResult, err = s.cp.Init(t.Context(), config, io.Discard)
	must(t, err)
	s.workerJoin, _, err = nodes.JoinCommands(s.initResult.Stdout)
	must(t, err)
	s.joinResult, err = s.worker.Join(t.Context(), s.workerJoin, io.Discard)
	must(t, err)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	checkKeys(t, s.cp, pki.ECDSAP384)
	for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		certs, err := pki.ParseCertificates([]byte(readFile(t, s.cp, certsDir+base+".crt")))
		must(t, err)
		if certs[0].SignatureAlgorithm != x509.ECDSAWithSHA384 {
			t.Errorf("%s is signed by %s", base, certs[0].SignatureAlgorithm)
		}
	}
	testRenewal(t, s)
	checkUpgradeToSameVersion(t, s.cp)
	checkKeys(t, s.cp, pki.ECDSAP384)
	checkWorkload(t, s)
}

// checkKeys checks the algorithm of all private keys of a control plane.
func checkKeys(t *testing.T, cp *nodes.Node, want pki.Algorithm) {
	t.Helper()
	files := strings.Fields(runShell(t, cp, "find /etc/kubernetes/pki -name '*.key'"))
	if len(files) != 11 {
		t.Errorf("want 11 keys, got %q", files)
	}
	for _, file := range files {
		checkKey(t, cp.Name()+":"+file, []byte(readFile(t, cp, file)), want)
	}
	for _, c := range pki.Renewables() {
		if c.File == "" {
			continue
		}
		config, err := pki.ParseKubeconfig([]byte(readFile(t, cp, kubernetesDir+c.File)))
		must(t, err)
		user, err := config.CurrentUser()
		must(t, err)
		checkKey(t, c.File, user.ClientKeyData, want)
	}
}

func checkKey(t *testing.T, name string, text []byte, want pki.Algorithm) {
	t.Helper()
	key, err := pki.ParseKey(text)
	must(t, err)
	if got, _ := pki.AlgorithmOf(key.Public()); got != want {
		t.Errorf("%s is a %s key, want %s", name, got, want)
	}
}

// readRenewableCertificates reads all certificates of a control plane that can be renewed, by
// name.
func readRenewableCertificates(t *testing.T, cp *nodes.Node) map[string]*x509.Certificate {
	t.Helper()
	all := make(map[string]*x509.Certificate)
	for _, c := range pki.Renewables() {
		file := kubernetesDir + c.File
		if c.File == "" {
			file = certsDir + c.Base + ".crt"
		}
		cert, err := c.Certificate([]byte(readFile(t, cp, file)))
		must(t, err)
		all[c.Name] = cert
	}
	return all
}

// testRenewal renews all certificates; their subjects and the files' owners and modes stay the
// same. Only the components that do not read the new ones by themselves are restarted, and no
// request fails.
func testRenewal(t *testing.T, s *testCluster) {
	before, modes := readRenewableCertificates(t, s.cp),
		runShell(t, s.cp, "stat -c '%n %U:%G %a' $(find /etc/kubernetes -type f | sort)")
	processes, client := readProcesses(t, s.cp), startLoad(t, s.cp, s.worker)
	used := runCommand(t, s.cp, kubeadm, "certs", "renew", "all", "--restart")
	client.endWithoutFailure(t, s.cp)
	for component, id := range readProcesses(t, s.cp) {
		if reads := component == "etcd" || component == "kube-apiserver"; reads !=
			(id == processes[component]) {
			t.Errorf("%s: process %s became %s", component, processes[component], id)
		}
	}
	if now := runShell(t, s.cp,
		"stat -c '%n %U:%G %a' $(find /etc/kubernetes -type f | sort)"); now != modes {
		t.Errorf("the files were\n%s\nand are\n%s", modes, now)
	}
	checkKeys(t, s.cp, pki.ECDSAP384)
	renewed := readRenewableCertificates(t, s.cp)
	for name, old := range before {
		if renewed[name].SerialNumber.Cmp(old.SerialNumber) == 0 {
			t.Errorf("%s was not renewed", name)
		}
		if renewed[name].Subject.String() != old.Subject.String() {
			t.Errorf("the subject of %s was %s and is %s", name, old.Subject, renewed[name].Subject)
		}
	}
	for name, owner := range map[string]string{
		"admin.conf":               "CN=kubernetes-admin,O=kubeadm:cluster-admins",
		"super-admin.conf":         "CN=kubernetes-super-admin,O=system:masters",
		"apiserver-kubelet-client": "CN=kube-apiserver-kubelet-client",
	} {
		if got := renewed[name].Subject.String(); got != owner {
			t.Errorf("the subject of %s is %s, want %s", name, got, owner)
		}
	}
	runCommand(t, s.cp, kubeadm, "certs", "check-expiration")
	for port, name := range map[string]string{"6443": "apiserver", "2379": "etcd-server",
		"2380": "etcd-peer"} {
		if err := checkServingCertificate(t.Context(), s.cp, port, renewed[name]); err != nil {
			t.Error(err)
		}
	}
	for name, file := range map[string]string{"apiserver": "pki/apiserver.crt",
		"etcd-server": "pki/etcd/server.crt", "etcd-peer": "pki/etcd/peer.crt",
		"controller-manager.conf": "controller-manager.conf", "scheduler.conf": "scheduler.conf"} {
		if want := fmt.Sprintf(" is now using %s%s: serial number %x, expires ", kubernetesDir, file,
			renewed[name].SerialNumber); !strings.Contains(used, want) {
			t.Errorf("it does not say %q:\n%s", want, used)
		}
	}
}

// readProcesses returns the process IDs of the components of a control plane.
func readProcesses(t *testing.T, cp *nodes.Node) map[string]string {
	t.Helper()
	ids := make(map[string]string)
	// The kernel truncates names to 15 bytes.
	for line := range strings.Lines(runShell(t, cp,
		"pgrep --list-name --exact 'etcd|kube-apiserver|kube-controller|kube-scheduler'")) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		ids[name] = id
	}
	if len(ids) != 4 {
		t.Fatalf("not all components run: %v", ids)
	}
	return ids
}

// checkServingCertificate returns an error unless the server at a port of the node presents that
// certificate.
func checkServingCertificate(ctx context.Context, n *nodes.Node, port string,
	want *x509.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := n.Cluster().Dial(ctx, "tcp", net.JoinHostPort(n.Address(), port))
	if err != nil {
		return err
	}
	defer conn.Close()
	// etcd requests a client certificate only after it has presented its own.
	shown := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	if err := shown.HandshakeContext(ctx); err != nil {
		return err
	}
	if got := shown.ConnectionState().PeerCertificates[0]; !got.Equal(want) {
		return fmt.Errorf("port %s presents the certificate with serial number %s, want %s", port,
			got.SerialNumber, want.SerialNumber)
	}
	return nil
}
