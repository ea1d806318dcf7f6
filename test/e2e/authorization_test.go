//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// authorizationDir holds the files that authorizationConfig names.
const authorizationDir = "/etc/kubernetes/authorization"

// authorizationConfig adds the authorizers ABAC and Webhook and a static token file.
const authorizationConfig = `apiServer:
  extraArgs:
  - {name: authorization-mode, value: "Node,RBAC,ABAC,Webhook"}
  - {name: authorization-policy-file, value: ` + authorizationDir + `/policy.jsonl}
  - {name: authorization-webhook-config-file, value: ` + authorizationDir + `/webhook.conf}
  - {name: authorization-webhook-version, value: v1}
  - {name: token-auth-file, value: ` + authorizationDir + `/tokens.csv}
  extraVolumes:
  - {name: authorization, hostPath: ` + authorizationDir + `, mountPath: ` + authorizationDir + `, readOnly: true, pathType: Directory}
`

// authorizationFiles are the files by name. The last user is in the group whose members may
// request a kubelet's client certificate.
func authorizationFiles() map[string]string {
	return map[string]string{
		"policy.jsonl": `{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "abel", "namespace": "kube-system", "resource": "pods", "readonly": true}}` + "\n",
		"webhook.conf": `{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "asker", "cluster": {"server": "http://127.0.0.1:8099/"}}],
"contexts": [{"name": "asker", "context": {"cluster": "asker", "user": ""}}], "current-context": "asker"}` + "\n",
		"tokens.csv": "token-of-abel,abel,1\ntoken-of-wilma,wilma,2\ntoken-of-kubelets,kubelets,3,\"system:bootstrappers:kubeadm:default-node-token\"\n",
	}
}

// webhookScript answers one SubjectAccessReview on standard input and output: it allows wilma
// everything.
const webhookScript = `#!/bin/sh
while IFS= read -r line; do
	line=$(printf %s "$line" | tr -d '\r')
	case $line in
	'') break ;;
	[Cc]ontent-[Ll]ength:*) length=${line#*: } ;;
	esac
done
case $(head -c "$length") in *'"user":"wilma"'*) allowed=true ;; *) allowed=false ;; esac
answer='{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":'$allowed'}}'
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' ${#answer} "$answer"
`

// TestAPIServerExtraFiles configures authorizers and users by files of the API server, and lets a
// kubelet join with a static token whose request an administrator approves.
func TestAPIServerExtraFiles(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.cp, initConfigFile,
		nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Cluster: authorizationConfig}))
	command := []string{kubeadm, "init", "--config", initConfigFile}
	checkFails(t, s.cp, []string{"ComponentFile", authorizationDir + "/policy.jsonl",
		"does not exist", "apiServer.extraVolumes"}, command...)
	runShell(t, s.cp, "mkdir -p "+authorizationDir)
	for name, text := range authorizationFiles() {
		if err := s.cp.WriteFile(authorizationDir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.cp.WriteFile("/usr/local/bin/asker", []byte(webhookScript), 0o755); err != nil {
		t.Fatal(err)
	}
	runShell(t, s.cp, "systemd-run --quiet --unit=asker socat TCP-LISTEN:8099,bind=127.0.0.1,reuseaddr,fork EXEC:/usr/local/bin/asker")
	runCommand(t, s.cp, command...)
	t.Run("authorizers", func(t *testing.T) { checkAuthorization(t, s.cp) })
	t.Run("kubelet", func(t *testing.T) { joinWorkerByHand(t, s) })
}

// checkAuthorization makes requests that only the policy file, only the webhook, and no authorizer
// allows.
func checkAuthorization(t *testing.T, cp *nodes.Node) {
	for _, c := range []struct {
		user, verb, what, want string
	}{
		{"abel", "list", "pods", "yes"},
		{"abel", "delete", "pods", "no"},
		{"wilma", "delete", "pods", "yes"},
		{"kubelets", "list", "pods", "no"},
	} {
		question := "may " + strings.Join([]string{c.user, c.verb, c.what}, " ")
		// The webhook may be slow; the exit code is the same for a denial and for a failed
		// request.
		await(t, "an answer to: "+question, waitLimit, func() error {
			result, err := cp.Run(t.Context(), "kubectl", "--kubeconfig=/dev/null",
				"--server=https://"+cp.Address()+":6443",
				"--certificate-authority=/etc/kubernetes/pki/ca.crt", "--token=token-of-"+c.user,
				"auth", "can-i", c.verb, c.what, "--namespace=kube-system")
			// A denial may give a reason.
			if said, _, _ := strings.Cut(strings.TrimSpace(result.Stdout), " "); said != c.want {
				return fmt.Errorf("the API server says %q (%v), want %s", said, err, c.want)
			}
			return nil
		})
	}
}

// joinWorkerByHand joins the worker without kubeadm: it copies the files, uses a static token and
// approves the certificate signing request itself.
func joinWorkerByHand(t *testing.T, s *testCluster) {
	removeAutoApproval(t, s.cp)
	for _, name := range []string{"/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml",
		"/var/lib/kubelet/instance-config.yaml"} {
		data, err := s.cp.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		runShell(t, s.worker, "mkdir -p $(dirname "+name+")")
		writeFile(t, s.worker, name, string(data))
	}
	runShell(t, s.worker, fmt.Sprintf(`export KUBECONFIG=/etc/kubernetes/bootstrap-kubelet.conf
		kubectl config set-cluster c --server=https://%s:6443 --certificate-authority=/etc/kubernetes/pki/ca.crt --embed-certs
		kubectl config set-credentials u --token=token-of-kubelets
		kubectl config set-context x --cluster=c --user=u
		kubectl config use-context x
		systemctl restart kubelet`, s.cp.Address()))
	const pending = `{{range .items}}{{if and (not .status.conditions) (eq .spec.username "kubelets")}}{{.metadata.name}} {{end}}{{end}}`
	var requests []string
	await(t, "the kubelet's request", waitLimit, func() error {
		if requests = strings.Fields(kubectl(t, s.cp, "get", "csr",
			"--output=go-template="+pending)); len(requests) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	kubectl(t, s.cp, append([]string{"certificate", "approve"}, requests...)...)
	awaitJoined(t, s, s.worker)
}
