//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kubeadm/test/nodes"
)

// TestRestoreWithoutHigherRevision shows why a restore raises the revision: after etcdutl has restored the same
// snapshot without that, an informer keeps objects that do not exist and learns of nothing that is written,
// and a watch that a client resumes gets neither an event nor an error. "kubeadm etcd restore" ends both.
func TestRestoreWithoutHigherRevision(t *testing.T) {
	inFullRun(t, "three minutes")
	parallel(t)
	cp := addNode(t, newCluster(t), "cp1")
	_, err := cp.Init(t.Context(), nodes.InitConfig(nodes.Config{Address: cp.Address()}), io.Discard, "-v=1")
	must(t, err)
	dir := strings.TrimSpace(runOnHost(t, "go", "-C", "../../components", "run", "./build-extra", "etcd"))
	must(t, cp.Copy(dir+"/etcdutl", "/root/etcdutl", 0o755))
	const namespace, count = "restored", 500
	kubectl(t, cp, "create", "namespace", namespace)
	createConfigMap(t, cp, namespace, "kept-1")
	createConfigMap(t, cp, namespace, "kept-2")
	etcdctl(t, cp, "snapshot", "save", snapshotFile)
	kubectl(t, cp, "--namespace="+namespace, "delete", "configmap", "kept-1")
	changeConfigMaps(t, cp, namespace, count)
	w := startWatcher(t, cp, serverURL(cp), namespace)
	seen := w.informer.LastSyncResourceVersion()

	// Only etcd's data are replaced: the API server keeps running.
	server := runShell(t, cp, "pgrep --exact --oldest kube-apiserver")
	restoreByHand(t, cp, "etcd")
	createConfigMap(t, cp, namespace, "written-later")
	time.Sleep(15 * time.Second)
	phantoms, missing := w.compare(storedConfigMaps(t, cp, namespace))
	list, err := w.client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	t.Logf("without a higher revision the informer has %d phantoms and misses %q; the API server lists %d objects",
		len(phantoms), missing, len(list.Items))
	if now := runShell(t, cp, "pgrep --exact --oldest kube-apiserver"); now != server {
		t.Fatal("the kubelet has restarted the API server meanwhile")
	}
	if len(phantoms) != count/2 || len(missing) != 2 {
		t.Errorf("without a higher revision, %d of %d deleted objects are phantoms, and the informer misses %q",
			len(phantoms), count/2, missing)
	}

	// The command ends that: the informer lists again, and so does whoever resumes a watch.
	t.Log(runCommand(t, cp, kubeadm, "etcd", "restore", snapshotFile, "--yes", "-v=1"))
	awaitNoDifference(t, []*watcher{w}, namespace, time.Minute)
	if phantoms, missing := w.compare(storedConfigMaps(t, cp, namespace)); len(phantoms)+len(missing) > 0 {
		t.Errorf("after kubeadm etcd restore the informer has the phantoms %q and misses %q", phantoms, missing)
	}
	await(t, "the end of a watch from before", waitLimit, func() error {
		err := resumeWatch(t, w, namespace, seen, "written-after-restore")
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return nil
		}
		return fmt.Errorf("a watch that is resumed at %s: %w", seen, err)
	})

	// It is no remedy to restart the API server too: who resumes a watch waits in silence.
	seen = w.informer.LastSyncResourceVersion()
	restoreByHand(t, cp, "etcd", "kube-apiserver")
	await(t, "a watch that is resumed to hang", waitLimit, func() error {
		return resumeWatch(t, w, namespace, seen, "written-at-last")
	})
	phantoms, missing = w.compare(storedConfigMaps(t, cp, namespace))
	t.Logf("with a restarted API server, but without a higher revision, the informer has the phantoms %q and misses %q",
		phantoms, missing)
}

// restoreByHand restores the snapshot on the only control plane without a higher revision, and restarts
// these components.
func restoreByHand(t *testing.T, cp *nodes.Node, components ...string) {
	t.Helper()
	peer := "https://" + cp.Address() + ":2380"
	stop := ""
	for _, c := range components {
		// without etcd, kube-apiserver does not end by itself
		stop += fmt.Sprintf("kill -9 $(pgrep --exact %s); while pgrep --exact %s >/dev/null; do sleep 0.2; done\n", c, c)
	}
	runShell(t, cp, fmt.Sprintf(`
rm -rf /var/lib/etcd-by-hand
/root/etcdutl snapshot restore %s --data-dir=/var/lib/etcd-by-hand --name=%s --initial-cluster=%s=%s \
	--initial-advertise-peer-urls=%s --initial-cluster-token=by-hand 2>&1
systemctl stop kubelet # so that it starts nothing in between
%s
mv /var/lib/etcd/member "$(mktemp -d /var/lib/etcd-before-XXXXXX)/"
mv /var/lib/etcd-by-hand/member /var/lib/etcd/
systemctl start kubelet`, snapshotFile, cp.Name(), cp.Name(), peer, peer, stop))
	awaitQuorum(t, cp)
}

// storedConfigMaps are the ConfigMaps of a namespace as etcd has them. An API server may answer from its
// watch cache.
func storedConfigMaps(t *testing.T, cp *nodes.Node, namespace string) (keys []string) {
	t.Helper()
	for _, key := range strings.Fields(etcdctl(t, cp, "get", "--prefix", "--keys-only", "/registry/configmaps/"+namespace+"/")) {
		keys = append(keys, namespace+"/"+path.Base(key))
	}
	return keys
}

// createConfigMap creates a ConfigMap that may exist already: the answer of an earlier attempt may be lost.
func createConfigMap(t *testing.T, cp *nodes.Node, namespace, name string) {
	t.Helper()
	await(t, "the ConfigMap "+name, waitLimit, func() error {
		result, err := cp.Kubectl(t.Context(), "--namespace="+namespace, "create", "configmap", name)
		if err != nil && strings.Contains(result.Stderr, "already exists") {
			return nil
		}
		return err
	})
}

// resumeWatch watches from a resource version on while a ConfigMap is created. It returns nil if there is
// neither an event nor an error within ten seconds.
func resumeWatch(t *testing.T, w *watcher, namespace, from, name string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := w.client.CoreV1().ConfigMaps(namespace)
	stream, err := all.Watch(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return err
	}
	defer stream.Stop()
	_, err = all.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	select {
	case event, open := <-stream.ResultChan():
		switch {
		case !open:
			return errors.New("the watch ended")
		case event.Type == watch.Error:
			return apierrors.FromObject(event.Object)
		}
		return fmt.Errorf("event %s", event.Type)
	case <-time.After(10 * time.Second):
		return nil
	}
}
