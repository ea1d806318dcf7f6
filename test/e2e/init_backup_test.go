//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

const (
	endpointName    = "cluster.test"
	archiveFile     = "/root/cluster.tar.age"
	identityFile    = "/root/identity.txt"
	backupRecipient = "age1j3wxcm35fl7xhfqwjfka42vjlp602tvdw8f2hhjlhk7sz598fccqq5sp4m\n"
	backupIdentity  = "AGE-SECRET-KEY-10YA5E867C5HZMC3KMK70C6RJ3LVY4TDG9CZF5QZN852470GXGZKSM8GXMP\n"
	otherIdentity   = "AGE-SECRET-KEY-1EXFVMHXG24HU9Y9S608V4FRTKATNMFJZM7R2HA82CR06ARSG4L8QRLCY4R\n"
)

// newNamedCluster creates a cluster of two control planes and a worker, whose endpoint is a name of the
// first one.
func newNamedCluster(t *testing.T) *haCluster {
	t.Helper()
	ctx := t.Context()
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	added, err := s.AddAll(ctx, "cp1", "cp2", "worker1")
	must(t, err)
	s.controlPlanes, s.workers, s.cp, s.worker = added[:2], added[2:], added[0], added[2]
	must(t, s.SetName(endpointName, s.cp))
	s.initResult, err = s.cp.Init(ctx, nodes.InitConfig(nodes.Config{Address: s.cp.Address(),
		Endpoint: endpointName + ":6443"}), io.Discard, "--upload-certs", "-v=1")
	must(t, err)
	s.workerJoin, s.controlPlaneJoin, err = nodes.JoinCommands(s.initResult.Stdout)
	must(t, err)
	must(t, s.joinNodes(ctx, added[1:]...))
	must(t, awaitClusterReady(ctx, s.cp, 3))
	return s
}

// TestInitFromBackup destroys all control planes of a cluster and rebuilds it on machines with other
// addresses and names from an archive. The worker returns by itself, since the name of the endpoint leads
// to the first new machine, and its Pods have never stopped.
func TestInitFromBackup(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	s := newNamedCluster(t)
	createDeployment(t, s.cp, "kept")
	kubectl(t, s.cp, "create", "configmap", "before-backup")
	must(t, s.cp.WriteFile("/root/recipients.txt", []byte(backupRecipient), 0o600))
	runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "save", "--with-keys", "--recipients-file",
		"/root/recipients.txt", archiveFile)
	kubectl(t, s.cp, "create", "configmap", "after-backup")
	pods := kubectl(t, s.cp, "get", "pods", "--selector=app=kept", "--output=jsonpath={.items[*].metadata.uid}")
	archive, err := s.cp.ReadFile(archiveFile)
	must(t, err)
	added, err := s.AddAll(t.Context(), "new1", "new2", "new3")
	must(t, err)
	first := added[0]
	must(t, first.WriteFile(archiveFile, archive, 0o600))
	must(t, first.WriteFile(identityFile, []byte(otherIdentity), 0o600))
	rebuild := []string{kubeadm, "init", "--from-backup", archiveFile, "--identity-file", identityFile,
		"--upload-certs", "--remove-old-control-plane", "-v=1",
		"--ignore-preflight-errors=" + nodes.IgnoredPreflight}
	checkFails(t, first, []string{"the archive cannot be decrypted with this key"}, rebuild...)
	must(t, first.WriteFile(identityFile, []byte(backupIdentity), 0o600))
	checkFails(t, first, []string{"something still answers at " + endpointName + ":6443"}, rebuild...)
	for _, n := range s.controlPlanes {
		must(t, s.DestroyNode(t.Context(), n))
	}
	oldPlanes := s.controlPlanes

	began := time.Now()
	must(t, s.SetName(endpointName, first))
	dryRun := runCommand(t, first, append(slices.Clone(rebuild), "--dry-run")...)
	if !strings.Contains(dryRun, "would restore etcd's data") {
		t.Errorf("the dry run says\n%s", dryRun)
	}
	t.Logf("the dry run took %s", time.Since(began).Round(time.Second/10))
	began = time.Now()
	result, err := first.Run(t.Context(), rebuild...)
	t.Logf("%s\n%s", result.Stdout, result.Stderr)
	must(t, err)
	t.Logf("the first control plane node was rebuilt in %s", result.Duration.Round(time.Second/10))
	s.cp, s.controlPlanes = first, added
	s.workerJoin, s.controlPlaneJoin, err = nodes.JoinCommands(result.Stdout)
	must(t, err)
	must(t, s.joinNodes(t.Context(), added[1:]...))
	s.logJoinTimes(t)
	must(t, awaitClusterReady(t.Context(), first, 4))
	t.Logf("three control plane nodes and the worker are ready after %s", time.Since(began).Round(time.Second/10))
	checkVotingMembers(t, added...)
	checkRebuilt(t, s, pods, oldPlanes)
	if said := runCommand(t, first, rebuild...); !strings.Contains(said, "kubeadm join "+endpointName+":6443") {
		t.Errorf("again it says\n%s", said)
	}
}

// checkRebuilt checks that the cluster has the state of the backup, works, and knows nothing of its old
// control plane any more.
func checkRebuilt(t *testing.T, s *haCluster, pods string, oldPlanes []*nodes.Node) {
	t.Helper()
	kubectl(t, s.cp, "get", "configmap", "before-backup")
	if found := kubectl(t, s.cp, "get", "configmap", "after-backup", "--ignore-not-found"); found != "" {
		t.Errorf("there is something newer than the backup: %s", found)
	}
	await(t, "the Pods of the workload", waitLimit, func() error {
		result, err := s.cp.Kubectl(t.Context(), "get", "pods", "--selector=app=kept",
			"--output=jsonpath={.items[*].metadata.uid} {.items[*].status.phase}")
		if err == nil && result.Stdout != pods+" Running Running" {
			err = fmt.Errorf("they are %q, not %q", result.Stdout, pods)
		}
		return err
	})
	createDeployment(t, s.cp, "later")
	await(t, "the addresses of the Service kubernetes", time.Minute, func() error {
		result, err := s.cp.Kubectl(t.Context(), "get", "endpointslices", "kubernetes",
			"--output=jsonpath={.endpoints[*].addresses[*]}")
		for _, n := range oldPlanes {
			if err == nil && slices.Contains(strings.Fields(result.Stdout), n.Address()) {
				err = fmt.Errorf("they are %s", result.Stdout)
			}
		}
		return err
	})
	left := kubectl(t, s.cp, "get", "nodes,leases", "--all-namespaces", "--output=name")
	for _, n := range oldPlanes {
		if strings.Contains(left, n.Name()) {
			t.Errorf("something of %s is left:\n%s", n.Name(), left)
		}
	}
}
