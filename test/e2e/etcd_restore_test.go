//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"kubeadm/test/nodes"
)

const snapshotFile = "/root/etcd.db"

// newThreeControlPlanes creates a cluster of three control planes and workers.
func newThreeControlPlanes(t *testing.T, workers int) *haCluster {
	t.Helper()
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), 3, workers, nodes.Config{}))
	must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
	must(t, s.joinNodes(t.Context(), s.workers...))
	must(t, awaitClusterReady(t.Context(), s.cp, 3+workers))
	return s
}

// watcher is a client with an informer on the ConfigMaps of a namespace.
type watcher struct {
	name     string
	client   *kubernetes.Clientset
	informer cache.SharedIndexInformer
	events   atomic.Int64
}

// startWatchers starts a watcher of each API server, and one behind the load balancer.
func startWatchers(t *testing.T, s *haCluster, namespace string) []*watcher {
	t.Helper()
	servers := map[string]string{"the load balancer": "https://" + s.balancer.Endpoint()}
	for _, n := range s.controlPlanes {
		servers[n.Name()] = serverURL(n)
	}
	var all []*watcher
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		all = append(all, startWatcher(t, s.cp, servers[name], namespace))
		all[len(all)-1].name = name
	}
	return all
}

// serverURL is the URL of a node's own API server.
func serverURL(n *nodes.Node) string { return "https://" + n.Address() + ":6443" }

// startWatcher starts a watcher with the rights of a control plane's admin.conf, and waits until it has
// listed what there is.
func startWatcher(t *testing.T, cp *nodes.Node, server, namespace string) *watcher {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(readFile(t, cp, kubernetesDir+"admin.conf")))
	must(t, err)
	config.Host, config.Dial, config.QPS, config.Burst = server, cp.Cluster().Dial, 500, 500
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	w := &watcher{name: cp.Name(), client: client, informer: factory.Core().V1().ConfigMaps().Informer()}
	_, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.events.Add(1) },
		UpdateFunc: func(any, any) { w.events.Add(1) },
		DeleteFunc: func(any) { w.events.Add(1) },
	})
	must(t, err)
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), w.informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	return w
}

// difference says how the cache of the informer differs from a list that the API server reads from
// etcd; empty if it does not.
func (w *watcher) difference(ctx context.Context, namespace string) (string, error) {
	list, err := w.client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var stored []string
	for _, c := range list.Items {
		stored = append(stored, namespace+"/"+c.Name)
	}
	if phantoms, missing := w.compare(stored); len(phantoms)+len(missing) > 0 {
		return fmt.Sprintf("%s: %d phantoms, %d missing", w.name, len(phantoms), len(missing)), nil
	}
	return "", nil
}

// compare returns what the informer knows although it is not stored, and what it does not know although
// it is.
func (w *watcher) compare(stored []string) (phantoms, missing []string) {
	known := w.informer.GetStore().ListKeys()
	without := func(all, these []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(key string) bool { return slices.Contains(these, key) })
	}
	return without(known, stored), without(stored, known)
}

// createDeployment creates a Deployment of two Pods and waits for them.
func createDeployment(t *testing.T, cp *nodes.Node, name string) {
	t.Helper()
	deployment, _, _ := strings.Cut(webManifest, "---")
	must(t, cp.WriteFile("/root/deployment.yaml", []byte(strings.ReplaceAll(deployment, "web", name)), 0o600))
	kubectl(t, cp, "create", "--filename=/root/deployment.yaml")
	kubectl(t, cp, "rollout", "status", "deployment", name, "--timeout=2m")
}

// changeAfterSnapshot creates and deletes objects that the snapshot does not know: a Deployment, one
// that is deleted, and as many ConfigMaps.
func changeAfterSnapshot(t *testing.T, s *haCluster, namespace string, count int) {
	t.Helper()
	kubectl(t, s.cp, "--namespace="+namespace, "delete", "configmap", "kept-1")
	kubectl(t, s.cp, "delete", "deployment", "before")
	createDeployment(t, s.cp, "after")
	changeConfigMaps(t, s.cp, namespace, count)
}

// changeConfigMaps creates that many ConfigMaps and deletes the first half of them.
func changeConfigMaps(t *testing.T, cp *nodes.Node, namespace string, count int) {
	t.Helper()
	runShell(t, cp, fmt.Sprintf(`cd /root && for i in $(seq %d); do printf -- '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: late-%%d, namespace: %s}\n' $i; done > late.yaml
export KUBECONFIG=/etc/kubernetes/admin.conf
kubectl create -f late.yaml > /dev/null
head -n $((%d * 2)) late.yaml | kubectl delete -f - > /dev/null`, count, namespace, count))
}

// TestRestoreEtcd saves a snapshot, changes much, and restores it: afterwards no client and no API server
// knows anything of the changes, and the cluster works.
func TestRestoreEtcd(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	s := newThreeControlPlanes(t, 2)
	const namespace = "restored"
	kubectl(t, s.cp, "create", "namespace", namespace)
	for _, name := range []string{"kept-1", "kept-2"} {
		kubectl(t, s.cp, "--namespace="+namespace, "create", "configmap", name)
	}
	createDeployment(t, s.cp, "before")
	etcdctl(t, s.cp, "snapshot", "save", snapshotFile)
	changeAfterSnapshot(t, s, namespace, 500)
	watchers := startWatchers(t, s, namespace)
	for _, w := range watchers {
		if n := len(w.informer.GetStore().ListKeys()); n < 250 {
			t.Fatalf("%s knows %d objects", w.name, n)
		}
	}
	began := time.Now()
	result, err := s.cp.Run(t.Context(), kubeadm, "etcd", "restore", snapshotFile, "--yes", "-v=1")
	t.Logf("%s\n%s", result.Stdout, result.Stderr)
	must(t, err)
	t.Logf("restored in %s", result.Duration.Round(time.Second/10))
	for _, n := range s.controlPlanes[1:] {
		result, err := n.Run(t.Context(), kubeadm, "etcd", "rejoin", "--yes", "-v=1")
		t.Logf("%s\n%s", result.Stdout, result.Stderr)
		must(t, err)
		t.Logf("%s rejoined in %s", n.Name(), result.Duration.Round(time.Second/10))
	}
	t.Logf("the cluster was restored in %s", time.Since(began).Round(time.Second/10))
	checkVotingMembers(t, s.controlPlanes...)
	awaitNoDifference(t, watchers, namespace, time.Minute)
	for _, w := range watchers {
		if keys := w.informer.GetStore().ListKeys(); len(keys) != 3 { // and kube-root-ca.crt
			t.Errorf("%s knows %d objects", w.name, len(keys))
		}
		t.Logf("%s: %d events", w.name, w.events.Load())
	}
	await(t, "the Pods of the snapshot", waitLimit, func() error {
		result, err := s.cp.Kubectl(t.Context(), "get", "pods", "--output=jsonpath={range .items[*]}{.metadata.name}: {.status.phase}\n{end}")
		if err == nil && (strings.Contains(result.Stdout, "after") || strings.Count(result.Stdout, "Running") != 2) {
			err = fmt.Errorf("they are %q", result.Stdout)
		}
		return err
	})
	for _, n := range s.workers {
		await(t, "no container of a deleted Pod on "+n.Name(), waitLimit, func() error {
			result, err := n.Run(t.Context(), "sh", "-c", "ctr --namespace=k8s.io containers list 2>/dev/null; ls /var/log/pods")
			if err == nil && strings.Contains(result.Stdout, "default_after-") {
				err = fmt.Errorf("there are\n%s", result.Stdout)
			}
			return err
		})
	}
	kubectl(t, s.cp, "--namespace="+namespace, "create", "configmap", "written-later")
	awaitNoDifference(t, watchers, namespace, time.Minute)
	must(t, awaitClusterReady(t.Context(), s.cp, 5))
	t.Run("upstream's tests", func(t *testing.T) {
		inFullRun(t, "they are compiled for ten minutes")
		runUpstreamTests(t, s.cp)
	})
}

// runUpstreamTests runs upstream's tests for clusters that kubeadm has created.
func runUpstreamTests(t *testing.T, cp *nodes.Node) {
	t.Helper()
	dir := strings.TrimSpace(runOnHost(t, "go", "-C", "../../components", "run", "./build-extra", "e2e-kubeadm"))
	must(t, cp.Copy(dir+"/e2e_kubeadm.test", "/root/e2e_kubeadm.test", 0o755))
	result, err := cp.Run(t.Context(), "/root/e2e_kubeadm.test", "--kubeconfig=/etc/kubernetes/admin.conf",
		"--provider=skeleton", "--ginkgo.no-color")
	ran := regexp.MustCompile(`Ran \d+ of \d+ Specs`).FindString(result.Stdout)
	passed := regexp.MustCompile(`\d+ Passed.*`).FindString(result.Stdout)
	t.Logf("%s: %s; %q", ran, passed, regexp.MustCompile(`Skipping because [^\n]*`).FindAllString(result.Stdout, -1))
	if err != nil || !strings.HasPrefix(passed, "38 Passed | 0 Failed") { // one is for dual-stack clusters only
		t.Errorf("%v\n%s\n%s", err, result.Stdout, result.Stderr)
	}
}

// awaitNoDifference waits until each informer knows exactly what its API server lists.
func awaitNoDifference(t *testing.T, watchers []*watcher, namespace string, limit time.Duration) {
	t.Helper()
	began := time.Now()
	await(t, "the informers to know what is stored", limit, func() error {
		for _, w := range watchers {
			if text, err := w.difference(t.Context(), namespace); err != nil || text != "" {
				return fmt.Errorf("%s %w", text, err)
			}
		}
		return nil
	})
	t.Logf("the informers agree after %s", time.Since(began).Round(time.Second/10))
}
