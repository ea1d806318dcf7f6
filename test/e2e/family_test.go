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

// TestS085_BothFamilies makes a cluster whose nodes, Pods and Services have IPv4 and IPv6 addresses (S052, S070, S121).
func TestS085_BothFamilies(t *testing.T) {
	t.Parallel()
	s := formOf(t, nodes.DualStack)
	t.Run("init needs forwarding of both", func(t *testing.T) {
		const file = "net/ipv6/conf/default/forwarding"
		shell(t, s.worker, "echo 0 >/proc/sys/"+file)
		result := refused(t, s.worker, []string{"FileContent--proc-sys-net-ipv6-conf-default-forwarding", "/proc/sys/" + file},
			ours, "init", "phase", "preflight", "--config", goodFile)
		t.Log(strings.Join(tail(result.Stderr, 4), "\n"))
		shell(t, s.worker, "echo 1 >/proc/sys/"+file)
	})
	s.invite(t)
	t.Run("addresses", func(t *testing.T) { testAddresses(t, s) })
	t.Run("certificate", func(t *testing.T) { testNamesOfTheAPIServer(t, s, "10.96.0.1") })
	t.Run("configuration", func(t *testing.T) { testRanges(t, s, nodes.DualStack) })
	serves(t, s)
}

// TestS140_IPv6Alone does the same without IPv4.
func TestS140_IPv6Alone(t *testing.T) {
	t.Parallel()
	if !lab.full {
		t.Skip("takes half a minute: make e2e-full")
	}
	s := formOf(t, nodes.IPv6Only)
	s.invite(t)
	t.Run("addresses", func(t *testing.T) { testAddresses(t, s) })
	t.Run("certificate", func(t *testing.T) { testNamesOfTheAPIServer(t, s, "fd00:96::1") })
	t.Run("configuration", func(t *testing.T) { testRanges(t, s, nodes.IPv6Only) })
	serves(t, s)
}

// formOf makes the nodes of a cluster with other families of addresses, and a configuration for init on each.
func formOf(t *testing.T, families nodes.Families) *site {
	t.Helper()
	o := testOptions(t)
	o.Families = families
	s := &site{Cluster: newClusterOf(t, o)}
	if err := s.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes() {
		write(t, n, goodFile, nodes.InitConfig(nodes.Config{Address: n.Address(), NodeIPs: n.Addresses()}))
	}
	return s
}

// invite lets the worker join the control plane by file, since that tells the kubelet its addresses, and waits for both.
func (s *site) invite(t *testing.T) {
	t.Helper()
	var err error
	if s.initial, err = s.cp.Run(t.Context(), ours, "init", "--config", goodFile); err != nil {
		t.Fatal(err)
	}
	if s.command, _, err = nodes.JoinCommands(s.initial.Stdout); err != nil {
		t.Fatal(err)
	}
	write(t, s.worker, joinFile, joinFileOf(t, s.command, nodes.NodeIPArgument(s.worker.Addresses())))
	run(t, s.worker, ours, "join", "--config", joinFile)
	if err := settle(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}
}

// testAddresses checks that each node has an address and a range for Pods of each family, in order.
func testAddresses(t *testing.T, s *site) {
	// They come from the kubelet and the controller manager, one after the other.
	await(t, "addresses of all nodes", patience, func() (err error) {
		for _, item := range get[corev1.NodeList](t, s.cp, "nodes").Items {
			err = errors.Join(err, addressed(item, s.Node(item.Name).Addresses()))
		}
		return err
	})
	// CoreDNS serves as soon as one of its Pods does.
	await(t, "addresses of CoreDNS", patience, func() (err error) {
		for _, pod := range get[corev1.PodList](t, s.cp, "--namespace=kube-system", "pods", "--selector=k8s-app=kube-dns").Items {
			if len(pod.Status.PodIPs) != len(s.cp.Addresses()) {
				err = errors.Join(err, fmt.Errorf("pod %s has %v", pod.Name, pod.Status.PodIPs))
			}
		}
		return err
	})
}

// addressed is an error unless a node has these addresses, and a range for Pods beside each.
func addressed(n corev1.Node, want []string) error {
	var own []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			own = append(own, a.Address)
		}
	}
	if !slices.Equal(own, want) || len(n.Spec.PodCIDRs) != len(want) {
		return fmt.Errorf("%s has %q, want %q, and for its Pods %q", n.Name, own, want, n.Spec.PodCIDRs)
	}
	for i, text := range n.Spec.PodCIDRs {
		share, err := netip.ParsePrefix(text)
		if err != nil || share.Addr().Is4() != netip.MustParseAddr(want[i]).Is4() || share.Bits() != 24 && share.Bits() != 64 {
			return fmt.Errorf("%s has %q for its Pods, %w", n.Name, n.Spec.PodCIDRs, err)
		}
	}
	return nil
}

// testNamesOfTheAPIServer looks for the addresses in its certificate: its Service's, which is of the first family, and its own.
func testNamesOfTheAPIServer(t *testing.T, s *site, service string) {
	block, _ := pem.Decode([]byte(read(t, s.cp, "/etc/kubernetes/pki/apiserver.crt")))
	if block == nil {
		t.Fatal("apiserver.crt holds no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(cert.IPAddresses), fmt.Sprint([]string{service, s.cp.Address()}); got != want {
		t.Errorf("the API server is known by %s, want %s", got, want)
	}
}

// testRanges looks for the ranges of Pods and Services wherever they are kept.
func testRanges(t *testing.T, s *site, families nodes.Families) {
	kept := get[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap", "kubeadm-config").Data["ClusterConfiguration"]
	proxy := get[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap", "kube-proxy").Data["config.conf"]
	flags := ""
	if families == nodes.DualStack {
		flags = "--node-ip=" + strings.Join(s.worker.Addresses(), ",")
	}
	for text, in := range map[string]string{
		"podSubnet: " + families.PodSubnets():                     kept,
		"serviceSubnet: " + families.ServiceSubnets():             kept,
		"clusterCIDR: " + families.PodSubnets():                   proxy,
		"--cluster-cidr=" + families.PodSubnets():                 read(t, s.cp, "/etc/kubernetes/manifests/kube-controller-manager.yaml"),
		"--service-cluster-ip-range=" + families.ServiceSubnets(): read(t, s.cp, "/etc/kubernetes/manifests/kube-apiserver.yaml"),
		flags: read(t, s.worker, "/var/lib/kubelet/kubeadm-flags.env"),
	} {
		if !strings.Contains(in, text) {
			t.Errorf("%q is not in:\n%s", text, in)
		}
	}
	// A node is Ready before the Pods on it are.
	await(t, "kube-proxy to be ready on both nodes", patience, func() error {
		d := get[appsv1.DaemonSet](t, s.cp, "--namespace=kube-system", "daemonset", "kube-proxy")
		if d.Status.NumberReady != 2 {
			return fmt.Errorf("it is on %d", d.Status.NumberReady)
		}
		return nil
	})
}

// joinFileOf writes a join command, as init printed it, as a configuration file with further fields of nodeRegistration.
func joinFileOf(t *testing.T, command []string, registration string) string {
	t.Helper()
	return joinConfig(command[2], flagOf(t, command, "--token"), flagOf(t, command, "--discovery-token-ca-cert-hash")) + registration
}
