//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

const webManifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: kubeadm.test/agnhost:1
        imagePullPolicy: Never
        args: [serve-hostname]
        readinessProbe:
          httpGet: {port: 9376}
          periodSeconds: 1
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports:
  - port: 80
    targetPort: 9376
`

func TestPodsAndServices(t *testing.T) { checkWorkload(t, sharedCluster(t)) }

// checkWorkload checks that Pods run on a cluster's worker and can be reached by Service,
// NodePort, DNS name and logs, in each IP family of the cluster.
func checkWorkload(t *testing.T, s *testCluster) {
	if err := s.cp.WriteFile("/root/web.yaml", []byte(webManifest), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, s.cp, "apply", "-f", "/root/web.yaml")
	t.Cleanup(func() {
		if _, err := s.cp.Kubectl(context.Background(), "delete", "--wait=false", "-f",
			"/root/web.yaml"); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, s.cp, "rollout", "status", "--timeout=180s", "deployment/web")
	var names []string
	for _, pod := range readObject[corev1.PodList](t, s.cp, "pods", "--selector=app=web").Items {
		names = append(names, pod.Name)
		if !strings.HasPrefix(pod.Spec.NodeName, "worker") {
			t.Errorf("pod %s runs on %s", pod.Name, pod.Spec.NodeName)
		}
	}
	if len(names) != 2 {
		t.Fatalf("pods: %q", names)
	}
	t.Run("Service", func(t *testing.T) { testService(t, s, names) })
	t.Run("NodePort", func(t *testing.T) { testNodePort(t, s, names) })
	t.Run("names", func(t *testing.T) { testDNS(t, s, names[0]) })
	t.Run("logs", func(t *testing.T) {
		// The container runtime writes logs with a delay.
		await(t, "a log line of a Pod", waitLimit, func() error {
			result, err := s.cp.Kubectl(t.Context(), "logs", names[0])
			if err == nil && result.Stdout == "" {
				err = errors.New("kubectl logs shows nothing")
			}
			return err
		})
	})
}

// testService calls the Service by its name and each of its addresses, from a Pod.
func testService(t *testing.T, s *testCluster, names []string) {
	addresses := readObject[corev1.Service](t, s.cp, "service", "web").Spec.ClusterIPs
	if len(addresses) != len(s.cp.Addresses()) {
		t.Errorf("the Service has the addresses %q, the nodes %q", addresses, s.cp.Addresses())
	}
	for _, host := range append([]string{"web.default"}, addresses...) {
		testAnswers(t, s, names, "http://"+net.JoinHostPort(host, "80"))
	}
}

// testAnswers calls the Service until each of its Pods has answered.
func testAnswers(t *testing.T, s *testCluster, names []string, url string) {
	seen := make(map[string]bool)
	await(t, "an answer from each Pod at "+url, waitLimit, func() error {
		// kube-proxy learns of endpoints with a delay, and picks one at random.
		result, err := s.cp.Kubectl(t.Context(), "exec", names[0], "--", "agnhost", "get", url)
		if err != nil {
			return err
		}
		answer := strings.TrimSpace(result.Stdout)
		if !slices.Contains(names, answer) {
			t.Fatalf("%s answered %q, not the name of one of %q", url, answer, names)
		}
		if seen[answer] = true; len(seen) < len(names) {
			return fmt.Errorf("so far only %v answered", seen)
		}
		return nil
	})
}

// testNodePort calls the NodePort at each address of each node, from outside of the cluster.
func testNodePort(t *testing.T, s *testCluster, names []string) {
	service := readObject[corev1.Service](t, s.cp, "service", "web")
	port := strconv.Itoa(int(service.Spec.Ports[0].NodePort))
	client := http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: s.Dial}}
	for _, address := range slices.Concat(s.cp.Addresses(), s.worker.Addresses()) {
		await(t, "an answer from "+address, waitLimit, func() error {
			response, err := client.Get("http://" + net.JoinHostPort(address, port))
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if !slices.Contains(names, strings.TrimSpace(string(body))) {
				err = errors.Join(err, fmt.Errorf("it answered %q", body))
			}
			return err
		})
	}
}

// testDNS resolves names of single-stack Services and of one that has as many addresses as its
// node.
func testDNS(t *testing.T, s *testCluster, pod string) {
	api, dns := "10.96.0.1", "10.96.0.10"
	if strings.Contains(s.cp.Address(), ":") {
		api, dns = "fd00:96::1", "fd00:96::a"
	}
	for name, want := range map[string]string{
		"kubernetes.default":                     api,
		"kube-dns.kube-system.svc.cluster.local": dns,
		"kubernetes.default.svc.cluster.local":   api,
		"web": strings.Join(readObject[corev1.Service](t, s.cp,
			"service", "web").Spec.ClusterIPs, "\n"),
	} {
		// CoreDNS that has lost the API server serves no names until it has listed all Services
		// again.
		await(t, "the address of "+name, waitLimit, func() error {
			result, err := s.cp.Kubectl(t.Context(), "exec", pod, "--", "agnhost", "resolve", name)
			if got := strings.TrimSpace(result.Stdout); err == nil && got != want {
				err = fmt.Errorf("it is %s, want %s", got, want)
			}
			return err
		})
	}
}

// TestNoUnexpectedWarnings allows the warnings of checks that sandboxed nodes cannot pass.
func TestNoUnexpectedWarnings(t *testing.T) {
	s := sharedCluster(t)
	ignored := strings.Split(nodes.IgnoredPreflight, ",")
	for text := range strings.Lines(s.initResult.Stderr + s.joinResult.Stderr) {
		text = strings.TrimSpace(text)
		isIgnored := slices.ContainsFunc(ignored,
			func(check string) bool { return strings.HasPrefix(text, "[WARNING "+check+"]") })
		if text != "" && !isIgnored && !logLine.MatchString(text) {
			t.Errorf("there was a warning: %s", text)
		}
	}
}

// logLine matches what libraries log with -v=1.
var logLine = regexp.MustCompile(`^I\d{4} `)
