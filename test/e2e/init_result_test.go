//go:build e2e

package e2e

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"kubeadm/test/nodes"
)

// decrypt decrypts a value of Secret kubeadm-certs: AES-256-GCM, the nonce before the ciphertext.
func decrypt(key string, encrypted []byte) ([]byte, error) {
	raw, err := hex.DecodeString(key)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	if len(encrypted) < gcm.NonceSize() {
		return nil, fmt.Errorf("%d bytes are too few", len(encrypted))
	}
	return gcm.Open(nil, encrypted[:gcm.NonceSize()], encrypted[gcm.NonceSize():], nil)
}

func TestUploadedCertificates(t *testing.T) {
	s := sharedCluster(t)
	checkUploadedCertificates(t, s.cp, certificateKeyIn(t, s.initResult.Stdout))
}

// TestTokenCreateUploadsCertificates creates a token and uploads the certificates with one
// command: with a new key, and then with the first key again, which other tests use.
func TestTokenCreateUploadsCertificates(t *testing.T) {
	s := sharedCluster(t)
	first := certificateKeyIn(t, s.initResult.Stdout)
	create := func(flags ...string) (command []string) {
		t.Helper()
		result := createToken(t, s.cp, kubeadm,
			append([]string{"--ttl=10m", "--print-join-command", "--upload-certs"}, flags...)...)
		if strings.Count(result.Stdout, "\n") != 1 ||
			!strings.Contains(result.Stdout, " --control-plane ") {
			t.Fatalf("it prints\n%s", result.Stdout)
		}
		return strings.Fields(result.Stdout)
	}
	command := create()
	key := flagValue(t, command, "--certificate-key")
	checkUploadedCertificates(t, s.cp, key)
	if list := runCommand(t, s.cp, kubeadm, "token", "list"); !strings.Contains(list,
		flagValue(t, command, "--token")) {
		t.Errorf("its token is not in the list:\n%s", list)
	}
	again := create("--certificate-key", first)
	if got := flagValue(t, again, "--certificate-key"); got != first || key == first {
		t.Errorf("uploaded with key %s, then with the given key %s: it printed %s", key, first, got)
	}
	checkUploadedCertificates(t, s.cp, first)
}

// checkUploadedCertificates checks the Secret with the certificates that control planes share: the
// key decrypts it, and its owner is a token that is good for nothing else.
func checkUploadedCertificates(t *testing.T, cp *nodes.Node, key string) {
	t.Helper()
	secret := readObject[corev1.Secret](t, cp, "--namespace=kube-system", "secret", "kubeadm-certs")
	for name, file := range map[string]string{
		"ca.crt": "ca.crt", "ca.key": "ca.key", "front-proxy-ca.crt": "front-proxy-ca.crt",
		"front-proxy-ca.key": "front-proxy-ca.key",
		"sa.pub":             "sa.pub", "sa.key": "sa.key", "etcd-ca.crt": "etcd/ca.crt",
		"etcd-ca.key": "etcd/ca.key",
	} {
		want, err := cp.ReadFile("/etc/kubernetes/pki/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decrypt(key, secret.Data[name]); err != nil || string(got) != string(want) {
			t.Errorf("%s of Secret kubeadm-certs does not hold %s: %v", name, file, err)
		}
	}
	if len(secret.Data) != 8 {
		t.Errorf("Secret kubeadm-certs holds %d values, want 8", len(secret.Data))
	}
	owners := secret.OwnerReferences
	if len(owners) != 1 || owners[0].Kind != "Secret" || owners[0].Controller == nil ||
		!*owners[0].Controller {
		t.Fatalf("the owners of Secret kubeadm-certs are %+v", owners)
	}
	owner := readObject[corev1.Secret](t, cp, "--namespace=kube-system", "secret", owners[0].Name)
	if owner.UID != owners[0].UID || owner.Data["usage-bootstrap-authentication"] != nil ||
		owner.Data["usage-bootstrap-signing"] != nil {
		t.Errorf("the owner of Secret kubeadm-certs is not a token without usages: %v", owner)
	}
	expires, err := time.Parse(time.RFC3339, string(owner.Data["expiration"]))
	// A resumed run keeps the expiration that the killed run had set.
	if lasts := expires.Sub(owner.CreationTimestamp.Time); err != nil || lasts > 2*time.Hour ||
		lasts < time.Hour {
		t.Errorf("the certificates were uploaded at %s and expire at %s", owner.CreationTimestamp,
			owner.Data["expiration"])
	}
	awaitAllowed(t, cp, "token", "get", "secrets/kubeadm-certs", "--namespace=kube-system")
}

func TestControlPlaneLabelsAndTaint(t *testing.T) {
	s := sharedCluster(t)
	checkControlPlaneNode(t, s.cp)
	// The controller manager taints a node that is not Ready, and removes the taint with a delay.
	await(t, "a worker without labels and taints", waitLimit, func() error {
		worker := readObject[corev1.Node](t, s.cp, "node", "worker1")
		if _, ok := worker.Labels[controlPlaneLabel]; ok || len(worker.Spec.Taints) != 0 {
			return fmt.Errorf("it has labels %v and taints %v", worker.Labels, worker.Spec.Taints)
		}
		return nil
	})
}

// checkControlPlaneNode checks the labels and the taint of a control plane's Node.
func checkControlPlaneNode(t *testing.T, cp *nodes.Node) {
	t.Helper()
	n := readObject[corev1.Node](t, cp, "node", cp.Name())
	for _, label := range []string{controlPlaneLabel,
		"node.kubernetes.io/exclude-from-external-load-balancers"} {
		if value, ok := n.Labels[label]; !ok || value != "" {
			t.Errorf("the control plane lacks the label %s: %v", label, n.Labels)
		}
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == controlPlaneLabel && taint.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Errorf("the control plane has the taints %v", n.Spec.Taints)
	}
}

func TestCoreDNS(t *testing.T) {
	s := sharedCluster(t)
	if err := s.cp.AwaitDNS(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := readObject[appsv1.Deployment](t, s.cp, "--namespace=kube-system", "deployment", "coredns")
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas != 2 || pod.ServiceAccountName != "coredns" ||
		pod.PriorityClassName != "system-cluster-critical" ||
		d.Spec.Selector.MatchLabels["k8s-app"] != "kube-dns" {
		t.Errorf("Deployment coredns is %+v", d)
	}
	if service := readObject[corev1.Service](t, s.cp, "--namespace=kube-system", "service",
		"kube-dns"); service.Spec.ClusterIP != "10.96.0.10" {
		t.Errorf("Service kube-dns has the address %s", service.Spec.ClusterIP)
	}
	readObject[corev1.ServiceAccount](t, s.cp, "--namespace=kube-system", "serviceaccount",
		"coredns")
	m := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap", "coredns")
	if !strings.Contains(m.Data["Corefile"], "kubernetes cluster.local in-addr.arpa ip6.arpa") {
		t.Errorf("the Corefile is:\n%s", m.Data["Corefile"])
	}
	if b := readObject[rbacv1.ClusterRoleBinding](t, s.cp, "clusterrolebinding",
		"system:coredns"); len(b.Subjects) != 1 || b.Subjects[0].Name != "coredns" {
		t.Errorf("system:coredns binds %v", b.Subjects)
	}
}

func TestKubeProxy(t *testing.T) {
	s := sharedCluster(t)
	await(t, "kube-proxy on every node", waitLimit, func() error {
		d := readObject[appsv1.DaemonSet](t, s.cp, "--namespace=kube-system", "daemonset",
			"kube-proxy")
		listed := readObject[corev1.NodeList](t, s.cp, "nodes")
		if d.Status.NumberReady < 2 || int(d.Status.DesiredNumberScheduled) != len(listed.Items) ||
			d.Spec.Template.Spec.ServiceAccountName != "kube-proxy" {
			return fmt.Errorf("of %d nodes, the DaemonSet is %+v", len(listed.Items), d)
		}
		return nil
	})
	readObject[corev1.ServiceAccount](t, s.cp, "--namespace=kube-system", "serviceaccount",
		"kube-proxy")
	m := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap", "kube-proxy")
	if !strings.Contains(m.Data["config.conf"], "clusterCIDR: "+nodes.PodSubnet) ||
		!strings.Contains(m.Data["kubeconfig.conf"], s.cp.Address()) {
		t.Errorf("kube-proxy is configured by %v", m.Data)
	}
	if b := readObject[rbacv1.ClusterRoleBinding](t, s.cp, "clusterrolebinding",
		"kubeadm:node-proxier"); b.RoleRef.Name != "system:node-proxier" {
		t.Errorf("kubeadm:node-proxier binds to %s", b.RoleRef.Name)
	}
	awaitAllowed(t, s.cp, "token", "get", "configmaps/kube-proxy", "--namespace=kube-system")
}

func TestPodCIDROfEachNode(t *testing.T) {
	s := sharedCluster(t)
	all := netip.MustParsePrefix(nodes.PodSubnet)
	var seen []netip.Prefix
	for _, n := range readObject[corev1.NodeList](t, s.cp, "nodes").Items {
		cidr, err := netip.ParsePrefix(n.Spec.PodCIDR)
		if err != nil || cidr.Bits() != 24 || !all.Contains(cidr.Addr()) {
			t.Errorf("node %s has the Pod CIDR %q", n.Name, n.Spec.PodCIDR)
		}
		if slices.ContainsFunc(seen, cidr.Overlaps) {
			t.Errorf("the Pod CIDR %s of node %s overlaps with another node's", cidr, n.Name)
		}
		seen = append(seen, cidr)
	}
}

func TestAdminGroups(t *testing.T) {
	s := sharedCluster(t)
	if b := readObject[rbacv1.ClusterRoleBinding](t, s.cp, "clusterrolebinding",
		"kubeadm:cluster-admins"); b.RoleRef.Name != "cluster-admin" ||
		len(b.Subjects) != 1 || b.Subjects[0].Name != "kubeadm:cluster-admins" {
		t.Errorf("kubeadm:cluster-admins binds %v to %s", b.Subjects, b.RoleRef.Name)
	}
	for file, group := range map[string]string{"admin.conf": "kubeadm:cluster-admins",
		"super-admin.conf": "system:masters"} {
		script := "kubectl config view --raw --kubeconfig /etc/kubernetes/" + file +
			" -o jsonpath='{.users[0].user.client-certificate-data}' | base64 -d"
		block, _ := pem.Decode([]byte(runShell(t, s.cp, script)))
		if block == nil {
			t.Fatalf("%s holds no certificate", file)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !slices.Equal(cert.Subject.Organization, []string{group}) {
			t.Errorf("%s has the groups %q: %v", file, cert.Subject.Organization, err)
		}
		if mode := runCommand(t, s.cp, "stat", "-c", "%a", "/etc/kubernetes/"+file); mode != "600" {
			t.Errorf("%s has mode %s", file, mode)
		}
	}
}
