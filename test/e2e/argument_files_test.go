//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// Files that arguments of the API server name, and the directory of its audit log.
const (
	auditPolicyFile    = "/etc/kubernetes/audit/policy.yaml"
	encryptionFile     = "/etc/kubernetes/enc/encryption.yaml"
	authenticationFile = "/etc/kubernetes/authentication/config.yaml"
	auditLog           = "/var/log/audit/audit.log"
)

const travellingConfig = `apiServer:
  extraArgs:
  - {name: audit-policy-file, value: ` + auditPolicyFile + `}
  - {name: audit-log-path, value: ` + auditLog + `}
  - {name: encryption-provider-config, value: ` + encryptionFile + `}
  extraVolumes:
  - {name: audit, hostPath: /etc/kubernetes/audit, mountPath: /etc/kubernetes/audit, readOnly: true, pathType: Directory}
  - {name: log, hostPath: /var/log/audit, mountPath: /var/log/audit, pathType: DirectoryOrCreate}
  - {name: encryption, hostPath: ` + encryptionFile + `, mountPath: ` + encryptionFile + `, readOnly: true, pathType: File}
`

// TestArgumentFilesTravel creates a cluster whose API server needs files that only the first node has. A second control
// plane node joins and gets them. A change that needs another file reaches it in the same way.
func TestArgumentFilesTravel(t *testing.T) {
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createNodes(t.Context(), 2, 0))
	cp, other := s.cp, s.controlPlanes[1]
	runShell(t, cp, "mkdir -p /etc/kubernetes/audit /etc/kubernetes/enc /etc/kubernetes/authentication")
	must(t, cp.WriteFile(auditPolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o640))
	key := strings.TrimSpace(runShell(t, cp, "head -c 32 /dev/urandom | base64"))
	must(t, cp.WriteFile(encryptionFile, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: key1, secret: `+key+`}]}
  - identity: {}
`), 0o600))
	runShell(t, cp, "chown 0:4 "+auditPolicyFile+" && touch /etc/kubernetes/audit/other")
	must(t, s.initFirst(t.Context(), nodes.Config{Cluster: travellingConfig}))
	must(t, s.joinNodes(t.Context(), other))
	must(t, awaitClusterReady(t.Context(), cp, 2))
	for _, file := range []string{auditPolicyFile, encryptionFile} {
		checkSameFile(t, file, cp, other)
	}
	if got := runShell(t, other, "ls /etc/kubernetes/audit"); strings.TrimSpace(got) != "policy.yaml" {
		t.Errorf("the joined node has the files %s", got)
	}
	joined := s.joinResults[other.Name()]
	if strings.Contains(s.initResult.Stdout+s.initResult.Stderr+joined.Stdout+joined.Stderr, key) {
		t.Error("the output shows the encryption key")
	}
	kubectl(t, cp, "create", "secret", "generic", "sealed", "--from-literal=a=b")
	for _, n := range s.controlPlanes { // with another key, or none, the API server cannot read it
		awaitAPI(t, n, "")
		if got := kubectl(t, n, "--server=https://"+n.Address()+":6443", "get", "secret", "sealed",
			"--output=jsonpath={.data.a}"); got != "Yg==" {
			t.Errorf("the API server of %s reads %q", n.Name(), got)
		}
		if got := runShell(t, n, "head -n 1 "+auditLog); !strings.Contains(got, "audit.k8s.io/v1") {
			t.Errorf("the audit log of %s has %q", n.Name(), got)
		}
	}

	checkAnonymous(t, other, true)
	writeFile(t, cp, authenticationFile, `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]
`)
	changed := strings.Replace(travellingConfig, "  extraVolumes:\n", "  - {name: authentication-config, value: "+authenticationFile+"}\n"+
		"  extraVolumes:\n  - {name: authentication, hostPath: /etc/kubernetes/authentication, mountPath: /etc/kubernetes/authentication, readOnly: true}\n", 1)
	writeFile(t, cp, "/root/changed.yaml", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"+changed)
	runShell(t, other, "echo '# edited' >> "+auditPolicyFile)
	said := runReconfigure(t, cp, "apply", "--config=/root/changed.yaml")
	if !strings.Contains(said, "kubeadm reconfigure apply --upload-certs\n    "+authenticationFile) {
		t.Errorf("the new file is not named:\n%s", said)
	}
	said = runReconfigure(t, cp, "apply", "--upload-certs")
	found := rotationKeyPattern.FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("no key is printed:\n%s", said)
	}
	checkFails(t, other, []string{authenticationFile, "does not exist"}, reconfigureCommand("node")...)
	checkAnonymous(t, other, true)
	runReconfigure(t, other, "node", "--certificate-key="+found[1])
	for _, file := range []string{auditPolicyFile, encryptionFile, authenticationFile} {
		checkSameFile(t, file, cp, other)
	}
	if got := runShell(t, other, "cat "+auditPolicyFile+".kubeadm-*"); !strings.Contains(got, "# edited") {
		t.Errorf("the copy of the edited file is %q", got)
	}
	checkAnonymous(t, other, false)
	checkAnonymous(t, cp, false)
	for _, command := range [][]string{{"token", "create", "--print-join-command", "--upload-certs"},
		{"init", "phase", "upload-certs", "--upload-certs"}} {
		kubectl(t, cp, "--namespace=kube-system", "delete", "secret", "kubeadm-files")
		runCommand(t, cp, append([]string{kubeadm}, command...)...)
		if got := kubectl(t, cp, "--namespace=kube-system", "get", "secret", "kubeadm-files",
			"--output=jsonpath={.data}"); strings.Count(got, "file-") != 3 {
			t.Errorf("%q uploads %s", command, got)
		}
	}
}

// checkSameFile checks that two nodes have a file with the same content, mode and owner.
func checkSameFile(t *testing.T, file string, a, b *nodes.Node) {
	t.Helper()
	describe := "sha256sum " + file + "; stat --format='%a %u %g' " + file
	if want, got := runShell(t, a, describe), runShell(t, b, describe); got != want {
		t.Errorf("%s of %s is\n%sthat of %s is\n%s", file, b.Name(), got, a.Name(), want)
	}
}

// checkAnonymous checks whether an API server answers requests of anonymous users.
func checkAnonymous(t *testing.T, n *nodes.Node, want bool) {
	t.Helper()
	await(t, fmt.Sprintf("the API server of %s to answer anonymous users: %t", n.Name(), want), waitLimit, func() error {
		result, err := n.Run(t.Context(), "curl", "--silent", "--show-error", "--cacert", "/etc/kubernetes/pki/ca.crt",
			"--write-out", "%{http_code}", "--output", "/dev/null", "https://"+n.Address()+":6443/version")
		if code := map[bool]string{true: "200", false: "401"}[want]; err == nil && result.Stdout != code {
			return fmt.Errorf("it answers %s, want %s", result.Stdout, code)
		}
		return err
	})
}
