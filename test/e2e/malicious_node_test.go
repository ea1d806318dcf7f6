//go:build e2e

package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestMaliciousNodeGetsNoServingCertificate has a worker's own credential write what it wants into the status of its
// Node, and request certificates for the API server and for others. Each is refused, and the honest kubelets get theirs.
func TestMaliciousNodeGetsNoServingCertificate(t *testing.T) {
	parallel(t)
	c := newCluster(t)
	all, err := c.AddAll(t.Context(), "cp1", "worker1", "worker2")
	if err != nil {
		t.Fatal(err)
	}
	cp, evil, other := all[0], all[1], all[2]
	first, err := cp.Init(t.Context(), nodes.InitConfig(nodes.Config{Address: cp.Address(),
		Kubelet: "serverTLSBootstrap: true", Cluster: "apiServer: {certSANs: [api.example.com]}"}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	join, _, err := nodes.JoinCommands(first.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	for _, worker := range []*nodes.Node{evil, other} {
		if _, err := worker.Join(t.Context(), join, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "requests of three kubelets", waitLimit, func() error {
		pending := listServingRequests(t, cp)
		for _, name := range []string{"cp1", "worker1", "worker2"} {
			if !strings.Contains(pending, "system:node:"+name+" ") {
				return fmt.Errorf("Node %s has no request", name)
			}
		}
		return nil
	})
	runCommand(t, evil, "systemctl", "stop", "kubelet") // it would write the true addresses again

	forged := map[string]string{"service": "kubernetes.default.svc", "control-plane": "cp1", "cluster-ip": "10.96.0.1",
		"api-server": cp.Address(), "wildcard": "*.example.com", "san": "api.example.com", "worker": "worker2",
		"anything": "vault.corp.example", "anywhere": "203.0.113.9"}
	claimAddresses(t, evil, slices.Collect(maps.Values(forged)))
	for name, claimed := range forged {
		requestAsNode(t, evil, "forged-"+name, claimed)
	}
	result := checkFails(t, cp, []string{"9 of ", " pending requests are not approved",
		`"kubernetes.default.svc", a name of a Service`, `"cp1", the name of Node cp1`,
		`"10.96.0.1", an address of the Services`, `"` + cp.Address() + `", an address of `,
		`"*.example.com", a wildcard`, `"api.example.com", in apiServer.certSANs`, `"worker2", the name of Node worker2`,
		`"vault.corp.example", which is not the name of the Node`, `"203.0.113.9", which is in none of `,
	}, kubeadm, "certs", "approve-kubelet-serving")
	checkRequests(t, cp, result.Stdout)
	for _, n := range all {
		if want := "of system:node:" + n.Name() + " for " + n.Name() + ", " + n.Address(); !strings.Contains(result.Stdout, want) {
			t.Errorf("it does not say %q before it approves:\n%s", want, result.Stdout)
		}
	}

	// The address of a node that is approved already.
	claimAddresses(t, evil, []string{other.Address()})
	requestAsNode(t, evil, "forged-address", other.Address())
	result = checkFails(t, cp, []string{"10 of 10 pending requests are not approved",
		`"` + other.Address() + `", an address of Node worker2`}, kubeadm, "certs", "approve-kubelet-serving")
	checkRequests(t, cp, result.Stdout)
}

// claimAddresses makes the credential of the node's kubelet add names or addresses to the status of its Node.
func claimAddresses(t *testing.T, n *nodes.Node, claimed []string) {
	t.Helper()
	addresses := []map[string]string{{"type": "Hostname", "address": n.Name()},
		{"type": "InternalIP", "address": n.Address()}}
	for _, one := range claimed {
		kind := "ExternalDNS"
		if net.ParseIP(one) != nil {
			kind = "ExternalIP"
		}
		addresses = append(addresses, map[string]string{"type": kind, "address": one})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"addresses": addresses}})
	if err != nil {
		t.Fatal(err)
	}
	callAsNode(t, n, "PATCH", "application/merge-patch+json", "api/v1/nodes/"+n.Name()+"/status", string(patch))
}

// callAsNode sends a request to the API server with the credential of the node's kubelet.
func callAsNode(t *testing.T, n *nodes.Node, method, format, path, body string) {
	t.Helper()
	writeFile(t, n, "/root/body", body)
	const credential = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	runCommand(t, n, "curl", "--silent", "--show-error", "--fail-with-body", "--cacert", "/etc/kubernetes/pki/ca.crt",
		"--cert", credential, "--key", credential, "--request", method, "--header", "Content-Type: "+format,
		"--data-binary", "@/root/body", "https://"+net.JoinHostPort(n.Cluster().Node("cp1").Address(), "6443")+"/"+path)
}

// requestAsNode requests a serving certificate for one name or address with the credential of the node's kubelet.
func requestAsNode(t *testing.T, n *nodes.Node, name, claimed string) {
	t.Helper()
	asked := &x509.CertificateRequest{DNSNames: []string{claimed},
		Subject: pkix.Name{CommonName: "system:node:" + n.Name(), Organization: []string{"system:nodes"}}}
	if ip := net.ParseIP(claimed); ip != nil {
		asked.DNSNames, asked.IPAddresses = nil, []net.IP{ip}
	}
	callAsNode(t, n, "POST", "application/yaml", "apis/certificates.k8s.io/v1/certificatesigningrequests",
		newServingRequest(t, name, asked))
}

// checkRequests checks that all requests but the forged ones are approved.
func checkRequests(t *testing.T, cp *nodes.Node, said string) {
	t.Helper()
	for line := range strings.Lines(listServingRequests(t, cp)) {
		if strings.HasPrefix(line, "forged-") != strings.Contains(line, "Pending") {
			t.Errorf("%sthe output was\n%s", line, said)
		}
	}
}
