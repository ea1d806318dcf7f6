//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kubeadm/test/nodes"
)

// TestReconfigureEverythingOfOneControlPlane changes what a configuration has on a cluster with one control plane node,
// and logs how long its API server does not answer for each change. No other server answers meanwhile.
func TestReconfigureEverythingOfOneControlPlane(t *testing.T) {
	inFullRun(t, "six minutes")
	parallel(t)
	r := newRotatedCluster(t, 1, 1)
	changeEverything(t, r)
	r.endLoad(t)
}

// changeEverything makes one change of each kind on all nodes of a cluster under load, and proves it at the components
// that run.
func changeEverything(t *testing.T, r *rotatedCluster) {
	t.Helper()
	c := changedCluster{r, append(slices.Clone(r.controlPlanes), r.workers...)}
	for _, row := range []struct {
		name   string
		change func(*testing.T)
	}{
		{"a name in the API server's certificate", c.addName},
		{"an audit policy and an authentication configuration in files", c.nameFiles},
		{"the kubelets' configuration", c.changeKubelets},
		{"kube-proxy to nftables", func(t *testing.T) { c.changeProxy(t, "nftables") }},
		{"kube-proxy to iptables", func(t *testing.T) { c.changeProxy(t, "iptables") }},
		{"the Corefile and the replicas of CoreDNS", c.changeCoreDNS},
		{"the image repository", c.changeImages},
		{"arguments of one kubelet", c.changeOneKubelet},
	} {
		gap := r.load.measureGap(func() { row.change(t) })
		t.Logf("%s: no request succeeded for %s at most", row.name, gap.Round(10*time.Millisecond))
	}
}

// changedCluster is a cluster whose configuration is changed.
type changedCluster struct {
	*rotatedCluster
	all []*nodes.Node
}

// apply changes the configuration on the first node, and then on each of the others.
func (c changedCluster) apply(t *testing.T, change ...string) {
	t.Helper()
	runReconfigure(t, c.cp, "apply", change...)
	for _, n := range c.all {
		if n != c.cp {
			runReconfigure(t, n, "node")
		}
	}
}

// configure changes the stored ClusterConfiguration.
func (c changedCluster) configure(t *testing.T, change func(map[string]any)) {
	t.Helper()
	cluster := map[string]any{}
	must(t, yaml.Unmarshal([]byte(kubectl(t, c.cp, "get", "configmap", "kubeadm-config", "--namespace=kube-system",
		"--output=jsonpath={.data.ClusterConfiguration}")), &cluster))
	change(cluster)
	data, err := yaml.Marshal(cluster)
	must(t, err)
	writeFile(t, c.cp, "/root/row.yaml", string(data))
	c.apply(t, "--config=/root/row.yaml")
}

// edit changes the configuration by a shell command that edits the file $1.
func (c changedCluster) edit(t *testing.T, script string) {
	t.Helper()
	writeFile(t, c.cp, "/root/edit", "#!/bin/bash\nset -e\n"+script+"\n")
	runShell(t, c.cp, "chmod 0755 /root/edit")
	runCommand(t, c.cp, append([]string{"env", "EDITOR=/root/edit"}, reconfigureCommand("apply", "--edit")...)...)
	for _, n := range c.all {
		if n != c.cp {
			runReconfigure(t, n, "node")
		}
	}
}

func (c changedCluster) addName(t *testing.T) {
	c.apply(t, "--add-cert-san=row.example.com")
	for _, n := range c.controlPlanes {
		cert := parseOne(t, readFile(t, n, certsDir+"apiserver.crt"))
		must(t, cert.VerifyHostname("row.example.com"))
		must(t, checkServingCertificate(t.Context(), n, "6443", cert))
	}
}

// nameFiles names two files by arguments. The authentication configuration lets anonymous requests reach only what probes
// and joining nodes need.
func (c changedCluster) nameFiles(t *testing.T) {
	const dir = "/etc/kubernetes/row"
	for _, n := range c.controlPlanes {
		runShell(t, n, "mkdir -p "+dir)
		writeFile(t, n, dir+"/policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
		writeFile(t, n, dir+"/authentication.yaml", `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
  - path: /api/v1/namespaces/kube-public/configmaps/cluster-info
`)
		if got := c.askAnonymously(t, n, "/version"); got != "200" {
			t.Errorf("before the change, %s answers an anonymous request with %s", n.Name(), got)
		}
	}
	c.configure(t, func(cluster map[string]any) {
		server, _ := cluster["apiServer"].(map[string]any)
		if server == nil {
			server = map[string]any{}
			cluster["apiServer"] = server
		}
		add := func(field string, more ...map[string]any) {
			list, _ := server[field].([]any)
			for _, one := range more {
				list = append(list, one)
			}
			server[field] = list
		}
		add("extraArgs", map[string]any{"name": "audit-policy-file", "value": dir + "/policy.yaml"},
			map[string]any{"name": "audit-log-path", "value": "/var/log/row/audit.log"},
			map[string]any{"name": "authentication-config", "value": dir + "/authentication.yaml"})
		add("extraVolumes", map[string]any{"name": "row", "hostPath": dir, "mountPath": dir, "readOnly": true,
			"pathType": "Directory"}, map[string]any{"name": "row-log", "hostPath": "/var/log/row", "mountPath": "/var/log/row",
			"pathType": "DirectoryOrCreate"})
	})
	for _, n := range c.controlPlanes {
		if got := runShell(t, n, "head -n 1 /var/log/row/audit.log"); !strings.Contains(got, "audit.k8s.io/v1") {
			t.Errorf("the audit log of %s has %q", n.Name(), got)
		}
		if got := c.askAnonymously(t, n, "/version"); got != "401" {
			t.Errorf("after the change, %s answers an anonymous request with %s", n.Name(), got)
		}
	}
}

// askAnonymously returns the status of the API server's answer to a request without credentials.
func (c changedCluster) askAnonymously(t *testing.T, n *nodes.Node, path string) string {
	t.Helper()
	return runCommand(t, n, "curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}",
		"--cacert", certsDir+"ca.crt", "https://"+n.Address()+":6443"+path)
}

func (c changedCluster) changeKubelets(t *testing.T) {
	c.edit(t, `sed -i '/^maxPods:/d; /^podPidsLimit:/d; s/^kind: KubeletConfiguration$/&\nmaxPods: 77\npodPidsLimit: 4000/' "$1"`)
	for _, n := range c.all {
		configz := kubectl(t, c.cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz")
		for _, want := range []string{`"maxPods":77`, `"podPidsLimit":4000`} {
			if !strings.Contains(configz, want) {
				t.Errorf("the kubelet of %s lacks %s: %s", n.Name(), want, configz)
			}
		}
	}
}

func (c changedCluster) changeProxy(t *testing.T, mode string) {
	c.edit(t, `sed -i '/^mode:/d; s/^kind: KubeProxyConfiguration$/&\nmode: `+mode+`/' "$1"`)
	for _, n := range c.all {
		await(t, "kube-proxy of "+n.Name()+" to use "+mode, waitLimit, func() error {
			result, err := n.Run(t.Context(), "curl", "--silent", "--fail", "http://127.0.0.1:10249/proxyMode")
			if err == nil && result.Stdout != mode {
				err = fmt.Errorf("it says %q", result.Stdout)
			}
			return err
		})
	}
}

// editedCorefile is the file of a changed Corefile.
const editedCorefile = "/root/Corefile"

// editCorefile writes the Corefile of the cluster, changed by a script of sed, to editedCorefile.
func editCorefile(t *testing.T, n *nodes.Node, script string) {
	t.Helper()
	writeFile(t, n, editedCorefile, kubectl(t, n, "get", "configmap", "coredns", "--namespace=kube-system",
		"--output=jsonpath={.data.Corefile}"))
	before := readFile(t, n, editedCorefile)
	runCommand(t, n, "sed", "-i", script, editedCorefile)
	if readFile(t, n, editedCorefile) == before {
		t.Fatalf("%s changes nothing in\n%s", script, before)
	}
}

// changeCoreDNS lets CoreDNS answer for one more name, by one more Pod, and takes that back.
func (c changedCluster) changeCoreDNS(t *testing.T) {
	const script = "s/^    ready$/&\\n    hosts {\\n        192.0.2.77 row.cluster.local\\n        fallthrough\\n    }/"
	before := c.describeCoreDNS(t)
	editCorefile(t, c.cp, script)
	runReconfigure(t, c.cp, "apply", "--corefile="+editedCorefile, "--coredns-replicas=3")
	c.checkCoreDNS(t, 3, true)
	if status := runReconfigure(t, c.cp, "status"); strings.Contains(status, " no\n") {
		t.Errorf("a node is not up to date:\n%s", status)
	}
	runReconfigure(t, c.cp, "undo")
	c.checkCoreDNS(t, 2, false)
	if after := c.describeCoreDNS(t); after != before {
		t.Errorf("the undo leaves\n%s\ninstead of\n%s", after, before)
	}
}

func (c changedCluster) describeCoreDNS(t *testing.T) string {
	t.Helper()
	return kubectl(t, c.cp, "get", "configmap/coredns", "deployment/coredns", "--namespace=kube-system",
		"--output=jsonpath={.items[*].data}{.items[*].spec}")
}

// checkCoreDNS asks each Pod of CoreDNS for the name that the changed Corefile has.
func (c changedCluster) checkCoreDNS(t *testing.T, replicas int, has bool) {
	t.Helper()
	// A query for row.cluster.local, type A, over TCP (RFC 1035, sections 4.1 and 4.2.2), and the beginning of the answer.
	const ask = `exec 3<>/dev/tcp/$0/53
		printf '\0\x23\0\x01\x01\0\0\x01\0\0\0\0\0\0\x03row\x07cluster\x05local\0\0\x01\0\x01' >&3
		timeout 2 dd bs=1 count=70 status=none <&3 | od -An -v -tx1 | tr -d ' \n'`
	await(t, fmt.Sprintf("%d Pods of CoreDNS", replicas), waitLimit, func() error {
		pods := strings.Fields(kubectl(t, c.cp, "get", "pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns",
			"--output=jsonpath={.items[*].status.podIP}"))
		if len(pods) != replicas { // one that was replaced may still be terminating
			return fmt.Errorf("there are %d", len(pods))
		}
		for _, ip := range pods {
			result, err := c.cp.Run(t.Context(), "bash", "-c", ask, ip)
			if err != nil {
				return err
			}
			if len(result.Stdout) < 8 || strings.Contains(result.Stdout, "c000024d") != has {
				return fmt.Errorf("%s answers %q", ip, result.Stdout)
			}
		}
		return nil
	})
}

// changeImages has all images come from another repository. CoreDNS keeps the replicas and the Corefile that its users
// gave it.
func (c changedCluster) changeImages(t *testing.T) {
	const repository = "registry.row.example.com/kubernetes"
	list := kubeadm + " config images list --kubernetes-version=v1.37.1"
	for _, n := range c.all {
		runCommand(t, n, "bash", "-ec", "paste <("+list+") <("+list+" --image-repository="+repository+") | "+
			"while read -r from to; do ctr -n k8s.io images tag --force $from $to; done")
	}
	kubectl(t, c.cp, "scale", "deployment", "coredns", "--namespace=kube-system", "--replicas=3")
	runShell(t, c.cp, `export KUBECONFIG=/etc/kubernetes/admin.conf
		kubectl -n kube-system get configmap coredns -o yaml | sed 's/ttl 30/ttl 17/' | kubectl replace -f -`)
	c.apply(t, "--image-repository="+repository)
	images := kubectl(t, c.cp, "get", "pods", "--namespace=kube-system", "--selector=tier=control-plane",
		"--output=jsonpath={.items[*].spec.containers[*].image}")
	images += " " + kubectl(t, c.cp, "get", "deployment/coredns", "daemonset/kube-proxy", "--namespace=kube-system",
		"--output=jsonpath={.items[*].spec.template.spec.containers[*].image}")
	for image := range strings.FieldsSeq(images) {
		if !strings.HasPrefix(image, repository) && !strings.Contains(image, "/etcd:") { // etcd keeps its image
			t.Errorf("a Pod has the image %s", image)
		}
	}
	if got := kubectl(t, c.cp, "get", "deployment", "coredns", "--namespace=kube-system",
		"--output=jsonpath={.spec.replicas} {.status.availableReplicas}"); got != "3 3" {
		t.Errorf("CoreDNS has %s replicas", got)
	}
	if got := kubectl(t, c.cp, "get", "configmap", "coredns", "--namespace=kube-system",
		"--output=jsonpath={.data.Corefile}"); !strings.Contains(got, "ttl 17") {
		t.Errorf("the Corefile is %s", got)
	}
}

// changeOneKubelet sets an argument, a label and a taint of one worker.
func (c changedCluster) changeOneKubelet(t *testing.T) {
	const admin = "/root/admin.conf"
	writeFile(t, c.worker, admin, readFile(t, c.cp, "/etc/kubernetes/admin.conf"))
	runReconfigure(t, c.worker, "node", "--kubelet-arg=max-pods=55", "--kubelet-arg=node-labels=row=one",
		"--kubelet-arg=register-with-taints=row=one:PreferNoSchedule", "--kubeconfig="+admin)
	if configz := kubectl(t, c.cp, "get", "--raw", "/api/v1/nodes/"+c.worker.Name()+"/proxy/configz"); !strings.Contains(configz,
		`"maxPods":55`) {
		t.Errorf("the kubelet runs with %s", configz)
	}
	if got := kubectl(t, c.cp, "get", "node", c.worker.Name(), "--output=jsonpath={.metadata.labels.row} {.spec.taints}"); !strings.HasPrefix(got,
		"one ") || !strings.Contains(got, `"effect":"PreferNoSchedule"`) {
		t.Errorf("the Node has %s", got)
	}
	for _, n := range c.all {
		if n == c.worker {
			continue
		}
		if configz := kubectl(t, c.cp, "get", "--raw", "/api/v1/nodes/"+n.Name()+"/proxy/configz"); !strings.Contains(configz,
			`"maxPods":77`) {
			t.Errorf("the kubelet of %s runs with %s", n.Name(), configz)
		}
	}
}
