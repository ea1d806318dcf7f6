//go:build e2e

package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

// TestDualStack creates a cluster whose nodes, Pods and Services have IPv4 and IPv6 addresses.
func TestDualStack(t *testing.T) {
	parallel(t)
	s := newClusterOfFamilies(t, nodes.DualStack)
	t.Run("init needs forwarding of both", func(t *testing.T) {
		const file = "net/ipv6/conf/default/forwarding"
		runShell(t, s.worker, "echo 0 >/proc/sys/"+file)
		result := checkFails(t, s.worker,
			[]string{"FileContent--proc-sys-net-ipv6-conf-default-forwarding", "/proc/sys/" + file},
			kubeadm, "init", "phase", "preflight", "--config", initConfigFile)
		t.Log(strings.Join(lastLines(result.Stderr, 4), "\n"))
		runShell(t, s.worker, "echo 1 >/proc/sys/"+file)
	})
	s.initAndJoinByFile(t)
	t.Run("addresses", func(t *testing.T) { testAddresses(t, s) })
	t.Run("certificate", func(t *testing.T) { testAPIServerSANs(t, s, "10.96.0.1") })
	t.Run("configuration", func(t *testing.T) { testCIDRs(t, s, nodes.DualStack) })
	checkWorkload(t, s)
}

// TestIPv6Only creates a cluster without IPv4.
func TestIPv6Only(t *testing.T) {
	parallel(t)
	inFullRun(t, "half a minute")
	s := newClusterOfFamilies(t, nodes.IPv6Only)
	s.initAndJoinByFile(t)
	t.Run("addresses", func(t *testing.T) { testAddresses(t, s) })
	t.Run("certificate", func(t *testing.T) { testAPIServerSANs(t, s, "fd00:96::1") })
	t.Run("configuration", func(t *testing.T) { testCIDRs(t, s, nodes.IPv6Only) })
	checkWorkload(t, s)
}

// newClusterOfFamilies creates the nodes of a cluster with other IP families, and writes a
// configuration for init on each.
func newClusterOfFamilies(t *testing.T, families nodes.Families) *testCluster {
	t.Helper()
	o := testOptions(t)
	o.Families = families
	s := &testCluster{Cluster: newClusterOf(t, o)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes() {
		writeFile(t, n, initConfigFile,
			nodes.InitConfig(nodes.Config{Address: n.Address(), NodeIPs: n.Addresses()}))
	}
	return s
}

// initAndJoinByFile runs init, joins the worker by a file, which sets the kubelet's node IPs, and
// waits until the cluster is ready.
func (s *testCluster) initAndJoinByFile(t *testing.T) {
	t.Helper()
	var err error
	if s.initResult, err = s.cp.Run(t.Context(), kubeadm, "init", "--config",
		initConfigFile); err != nil {
		t.Fatal(err)
	}
	if s.workerJoin, _, err = nodes.JoinCommands(s.initResult.Stdout); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.worker, joinConfigFile,
		joinConfigFor(t, s.workerJoin, nodes.NodeIPArgument(s.worker.Addresses())))
	runCommand(t, s.worker, kubeadm, "join", "--config", joinConfigFile)
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}
}

// testAddresses checks that each node has an address and a Pod CIDR of each IP family, in order.
func testAddresses(t *testing.T, s *testCluster) {
	// The kubelet sets the one, the controller manager the other.
	await(t, "addresses of all nodes", waitLimit, func() (err error) {
		for _, item := range readObject[corev1.NodeList](t, s.cp, "nodes").Items {
			err = errors.Join(err, checkNodeAddresses(item, s.Node(item.Name).Addresses()))
		}
		return err
	})
	// DNS works as soon as one Pod of CoreDNS is ready.
	await(t, "addresses of CoreDNS", waitLimit, func() (err error) {
		for _, pod := range readObject[corev1.PodList](t, s.cp, "--namespace=kube-system", "pods",
			"--selector=k8s-app=kube-dns").Items {
			if len(pod.Status.PodIPs) != len(s.cp.Addresses()) {
				err = errors.Join(err, fmt.Errorf("pod %s has %v", pod.Name, pod.Status.PodIPs))
			}
		}
		return err
	})
}

// checkNodeAddresses returns an error unless a node has these addresses, and a Pod CIDR for each.
func checkNodeAddresses(n corev1.Node, want []string) error {
	var own []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			own = append(own, a.Address)
		}
	}
	if !slices.Equal(own, want) || len(n.Spec.PodCIDRs) != len(want) {
		return fmt.Errorf("%s has the addresses %q, want %q, and the Pod CIDRs %q", n.Name, own,
			want, n.Spec.PodCIDRs)
	}
	for i, text := range n.Spec.PodCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("%s has the Pod CIDRs %q: %w", n.Name, n.Spec.PodCIDRs, err)
		}
		if cidr.Addr().Is4() != netip.MustParseAddr(want[i]).Is4() || cidr.Bits() != 24 &&
			cidr.Bits() != 64 {
			return fmt.Errorf("%s has the Pod CIDRs %q", n.Name, n.Spec.PodCIDRs)
		}
	}
	return nil
}

// testAPIServerSANs checks the IP addresses in the serving certificate: the Service's, which is of
// the first family, and the node's.
func testAPIServerSANs(t *testing.T, s *testCluster, service string) {
	block, _ := pem.Decode([]byte(readFile(t, s.cp, "/etc/kubernetes/pki/apiserver.crt")))
	if block == nil {
		t.Fatal("apiserver.crt holds no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(cert.IPAddresses),
		fmt.Sprint([]string{service, s.cp.Address()}); got != want {
		t.Errorf("the API server's certificate has the IP addresses %s, want %s", got, want)
	}
}

// testCIDRs checks the Pod and Service CIDRs in all files and objects that hold them.
func testCIDRs(t *testing.T, s *testCluster, families nodes.Families) {
	kept := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap",
		"kubeadm-config").Data["ClusterConfiguration"]
	proxy := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap",
		"kube-proxy").Data["config.conf"]
	flags := ""
	if families == nodes.DualStack {
		flags = "--node-ip=" + strings.Join(s.worker.Addresses(), ",")
	}
	for text, in := range map[string]string{
		"podSubnet: " + families.PodSubnets():         kept,
		"serviceSubnet: " + families.ServiceSubnets(): kept,
		"clusterCIDR: " + families.PodSubnets():       proxy,
		"--cluster-cidr=" + families.PodSubnets(): readFile(t, s.cp,
			"/etc/kubernetes/manifests/kube-controller-manager.yaml"),
		"--service-cluster-ip-range=" +
			families.ServiceSubnets(): readFile(t, s.cp,
			"/etc/kubernetes/manifests/kube-apiserver.yaml"),
		flags: readFile(t, s.worker, "/var/lib/kubelet/kubeadm-flags.env"),
	} {
		if !strings.Contains(in, text) {
			t.Errorf("%q is not in:\n%s", text, in)
		}
	}
	// A node is Ready before its Pods are.
	await(t, "kube-proxy to be ready on both nodes", waitLimit, func() error {
		d := readObject[appsv1.DaemonSet](t, s.cp, "--namespace=kube-system", "daemonset",
			"kube-proxy")
		if d.Status.NumberReady != 2 {
			return fmt.Errorf("it is ready on %d", d.Status.NumberReady)
		}
		return nil
	})
}

// joinConfigFor returns the configuration file for a join command that init printed, with further
// fields of nodeRegistration.
func joinConfigFor(t *testing.T, command []string, registration string) string {
	t.Helper()
	return joinConfig(command[2], flagValue(t, command, "--token"),
		flagValue(t, command, "--discovery-token-ca-cert-hash")) + registration
}
