//go:build e2e

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/cluster-bootstrap/token/jws"
	"sigs.k8s.io/yaml"

	"kubeadm/test/nodes"
)

const (
	bootstrappersGroup = "system:bootstrappers:kubeadm:default-node-token"
	controlPlaneLabel  = "node-role.kubernetes.io/control-plane"
)

// isAllowed reports whether the API server allows a request. The user is "anonymous", for which
// only lists are checked, "token" or "node".
func isAllowed(t *testing.T, cp *nodes.Node, who string, what ...string) bool {
	t.Helper()
	as := map[string][]string{
		"anonymous": {"--as=system:anonymous", "--as-group=system:unauthenticated"},
		"token": {"--as=system:bootstrap:abcdef", "--as-group=system:bootstrappers",
			"--as-group=" + bootstrappersGroup},
		"node": {"--as=system:node:worker1", "--as-group=system:nodes"},
	}[who]
	args := slices.Concat([]string{"auth", "can-i"}, what, as)
	if who == "anonymous" { // Anonymous users may not create access reviews.
		args = slices.Concat([]string{"get", "--output=name"}, what[1:], as)
	}
	yes := false
	await(t, "an answer whether "+who+" may "+strings.Join(what, " "), waitLimit, func() error {
		// The exit code is the same for a denial and for a failed request.
		result, err := cp.Kubectl(t.Context(), args...)
		said, _, _ := strings.Cut(strings.TrimSpace(result.Stdout), " ")
		if said == "no" || err != nil && strings.Contains(err.Error(), "(Forbidden)") {
			return nil
		}
		yes = err == nil
		return err
	})
	return yes
}

// awaitAllowed waits until a request is allowed: the API server reads RBAC objects from a cache.
func awaitAllowed(t *testing.T, cp *nodes.Node, who string, what ...string) {
	t.Helper()
	await(t, who+" to be allowed to "+strings.Join(what, " "), waitLimit, func() error {
		if !isAllowed(t, cp, who, what...) {
			return errors.New("the API server denies it")
		}
		return nil
	})
}

func TestKubeadmConfigMap(t *testing.T) {
	s := sharedCluster(t)
	m := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap",
		"kubeadm-config")
	var kept struct {
		APIVersion, Kind, KubernetesVersion, ClusterName, CertificatesDir string
		Networking                                                        struct {
			PodSubnet,
			ServiceSubnet, DNSDomain string
		}
	}
	if err := yaml.Unmarshal([]byte(m.Data["ClusterConfiguration"]), &kept); err != nil {
		t.Fatal(err)
	}
	got := []string{kept.APIVersion, kept.Kind, kept.KubernetesVersion, kept.ClusterName,
		kept.CertificatesDir,
		kept.Networking.PodSubnet, kept.Networking.ServiceSubnet, kept.Networking.DNSDomain}
	want := []string{"kubeadm.k8s.io/v1beta4", "ClusterConfiguration", "v1.37.1", "kubernetes",
		"/etc/kubernetes/pki",
		nodes.PodSubnet, "10.96.0.0/12", "cluster.local"}
	if !slices.Equal(got, want) || len(m.Data) != 1 {
		t.Errorf("kubeadm-config says %q, want %q, in:\n%v", got, want, m.Data)
	}
	checkReaders(t, s.cp, "configmaps/kubeadm-config", "--namespace=kube-system")
}

// checkReaders checks that tokens and nodes may read an object but not update it, and that tokens
// and anonymous users may not list its kind.
func checkReaders(t *testing.T, cp *nodes.Node, object, namespace string) {
	t.Helper()
	kind, _, _ := strings.Cut(object, "/")
	for _, someone := range []string{"token", "node"} {
		awaitAllowed(t, cp, someone, "get", object, namespace)
		if isAllowed(t, cp, someone, "update", object, namespace) {
			t.Errorf("%s may update %s", someone, object)
		}
	}
	for _, someone := range []string{"anonymous", "token"} {
		if isAllowed(t, cp, someone, "list", kind, namespace) {
			t.Errorf("%s may list all %s", someone, kind)
		}
	}
}

func TestKubeletConfigMap(t *testing.T) {
	s := sharedCluster(t)
	m := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap",
		"kubelet-config")
	var kept, worker map[string]any
	onWorker, err := s.worker.ReadFile("/var/lib/kubelet/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for into, text := range map[*map[string]any]string{&kept: m.Data["kubelet"],
		&worker: string(onWorker)} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]any{"kind": "KubeletConfiguration", "clusterDomain": "cluster.local",
		"rotateCertificates": true,
		"staticPodPath":      "/etc/kubernetes/manifests", "cgroupDriver": "cgroupfs",
		"containerRuntimeEndpoint": ""}
	for name, value := range want {
		if kept[name] != value {
			t.Errorf("kubelet-config has %s: %v, want %v", name, kept[name], value)
		}
	}
	if dns := fmt.Sprint(kept["clusterDNS"]); dns != "[10.96.0.10]" {
		t.Errorf("clusterDNS is %s", dns)
	}
	if worker["staticPodPath"] != kept["staticPodPath"] ||
		fmt.Sprint(worker["evictionHard"]) != fmt.Sprint(kept["evictionHard"]) {
		t.Errorf("the worker's kubelet configuration is\n%s\nbut that in the cluster\n%s", onWorker,
			m.Data["kubelet"])
	}
	checkReaders(t, s.cp, "configmaps/kubelet-config", "--namespace=kube-system")
}

// awaitClusterInfo reads the ConfigMap cluster-info as an anonymous user.
func awaitClusterInfo(t *testing.T, s *testCluster) (m corev1.ConfigMap) {
	t.Helper()
	await(t, "cluster-info", waitLimit, func() (err error) {
		m, err = fetchClusterInfo(s)
		return err
	})
	return m
}

func fetchClusterInfo(s *testCluster) (m corev1.ConfigMap, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		// As a new node, which does not know the CA yet.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext:     s.Dial,
	}}
	response, err := client.Get("https://" + s.cp.Address() +
		":6443/api/v1/namespaces/kube-public/configmaps/cluster-info")
	if err != nil {
		return m, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return m, fmt.Errorf("reading the response to an anonymous request: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return m, fmt.Errorf("an anonymous request returned %s: %s", response.Status, body)
	}
	return m, json.Unmarshal(body, &m)
}

// awaitTokenSigned waits until the controller manager has signed cluster-info with a token.
func awaitTokenSigned(t *testing.T, s *testCluster, token string) (m corev1.ConfigMap) {
	t.Helper()
	id, secret, _ := strings.Cut(token, ".")
	await(t, "the signature of token "+id, waitLimit, func() error {
		if m = awaitClusterInfo(t, s); !jws.DetachedTokenIsValid(m.Data["jws-kubeconfig-"+id],
			m.Data["kubeconfig"], id, secret) {
			return fmt.Errorf("there is %q", m.Data)
		}
		return nil
	})
	return m
}

func TestClusterInfoIsPublicAndSigned(t *testing.T) {
	s := sharedCluster(t)
	m := awaitTokenSigned(t, s, flagValue(t, s.workerJoin, "--token"))
	var config clientcmd.Config
	if err := yaml.Unmarshal([]byte(m.Data["kubeconfig"]), &config); err != nil {
		t.Fatal(err)
	}
	ca, err := s.cp.ReadFile("/etc/kubernetes/pki/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Clusters) != 1 || len(config.AuthInfos) != 0 {
		t.Fatalf("cluster-info does not hold exactly one cluster: %+v", config)
	}
	if c := config.Clusters[0].Cluster; c.Server != "https://"+s.cp.Address()+":6443" ||
		string(c.CertificateAuthorityData) != string(ca) {
		t.Errorf("cluster-info names the server %s with the CA\n%s", c.Server,
			c.CertificateAuthorityData)
	}
	if isAllowed(t, s.cp, "anonymous", "list", "configmaps", "--namespace=kube-public") {
		t.Error("anonymous users may list all ConfigMaps of kube-public")
	}
}

func TestTokenPermissions(t *testing.T) {
	s := sharedCluster(t)
	id, _, _ := strings.Cut(flagValue(t, s.workerJoin, "--token"), ".")
	secret := readObject[corev1.Secret](t, s.cp, "--namespace=kube-system", "secret",
		"bootstrap-token-"+id)
	if groups := string(secret.Data["auth-extra-groups"]); groups != bootstrappersGroup ||
		secret.Type != corev1.SecretTypeBootstrapToken {
		t.Errorf("the token is a %s with the groups %q", secret.Type, groups)
	}
	for name, role := range map[string]string{
		"kubeadm:kubelet-bootstrap":                     "system:node-bootstrapper",
		"kubeadm:node-autoapprove-bootstrap":            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
		"kubeadm:node-autoapprove-certificate-rotation": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
		"kubeadm:get-nodes":                             "kubeadm:get-nodes",
	} {
		if b := readObject[rbacv1.ClusterRoleBinding](t, s.cp, "clusterrolebinding",
			name); b.RoleRef.Name != role || len(b.Subjects) != 1 {
			t.Errorf("%s binds %v to %s", name, b.Subjects, b.RoleRef.Name)
		}
	}
	awaitAllowed(t, s.cp, "token", "create", "certificatesigningrequests")
	awaitAllowed(t, s.cp, "token", "get", "nodes/worker1")
	if isAllowed(t, s.cp, "token", "get", "secrets", "--namespace=kube-system") {
		t.Error("a token may read all Secrets")
	}
	// The controller manager deletes approved requests after an hour.
	n := addNode(t, s.Cluster, "let-in")
	t.Cleanup(func() { removeNode(t, s, n) })
	runCommand(t, n, workerJoinCommand(kubeadm, s)...)
	requests := readObject[certv1.CertificateSigningRequestList](t, s.cp,
		"certificatesigningrequests")
	granted := slices.ContainsFunc(requests.Items, func(r certv1.CertificateSigningRequest) bool {
		return r.Spec.Username == "system:bootstrap:"+id &&
			r.Spec.SignerName == certv1.KubeAPIServerClientKubeletSignerName &&
			len(r.Status.Certificate) > 0
	})
	if !granted {
		t.Errorf("no request of token %s was granted: %v", id, requests.Items)
	}
}

func TestTokenIsSignedAndRemoved(t *testing.T) {
	s := sharedCluster(t)
	token := runCommand(t, s.cp, kubeadm, "token", "create", "--ttl=1h", "--description=of-an-hour")
	awaitTokenSigned(t, s, token)
	if list := runCommand(t, s.cp, kubeadm, "token", "list"); !strings.Contains(list, token) ||
		!strings.Contains(list, "of-an-hour") {
		t.Errorf("token list shows:\n%s", list)
	}
	runCommand(t, s.cp, kubeadm, "token", "delete", token[:6])
	awaitTokenRemoved(t, s, token)
	awaitTokenRemoved(t, s, runCommand(t, s.cp, kubeadm, "token", "create", "--ttl=1s"))
}
