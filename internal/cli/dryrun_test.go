package cli

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// A dry run keeps private keys in its directory and shows none, however much it is told to tell.
func TestDryRunPrintsNoKeys(t *testing.T) {
	const dir = "/root/copies"
	for variable, args := range map[string][]string{
		"KUBEADM_INIT_DRYRUN_DIR": {"init", "--dry-run", "--upload-certs", "--kubernetes-version",
			"v1.37.1", "-v", "9"},
		"KUBEADM_JOIN_DRYRUN_DIR": {"join", "192.0.2.1:6443", "--dry-run", "--control-plane", "-v",
			"9", "--token", "abcdef.0123456789abcdef",
			"--discovery-token-unsafe-skip-ca-verification", "--certificate-key",
			strings.Repeat("5e", 32)},
	} {
		s := newTestMachine(t)
		s.env[variable] = dir
		if err := s.run(t.Context(), args...); err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, s.err.String())
			continue
		}
		shown := s.out.String() + s.err.String()
		keys := privateLines(s.world, dir)
		if len(keys) < 20 {
			t.Errorf("%s: only %d lines of keys are among the copies", args[0], len(keys))
		}
		for _, line := range keys {
			if strings.Contains(shown, line) {
				t.Errorf("%s shows a part of a private key", args[0])
				break
			}
		}
		if strings.Contains(shown, "token-secret: MD") ||
			strings.Contains(shown, "token-secret: 01") {
			t.Errorf("%s shows the Secret of a token", args[0])
		}
	}
}

// On a machine of no cluster, whatever it lacks, the dry run of an upgrade needs only that failed
// checks are ignored. It writes nothing but copies.
func TestOfflineUpgradeDryRunChangesNothing(t *testing.T) {
	const dir = "/root/copies"
	for name, change := range map[string]func(*fake.World){
		"bare machine":         func(*fake.World) {},
		"no container runtime": func(w *fake.World) { w.Sockets = nil },
		"no default route":     func(w *fake.World) { w.Interfaces = nil },
		"unfit host name":      func(w *fake.World) { w.Info.Hostname = "My_Host" },
		"running kubelet":      func(w *fake.World) { w.Services["kubelet"] = state.Service{Active: true} },
		"rest of a control plane": func(w *fake.World) {
			w.Files["/etc/kubernetes/manifests/kube-apiserver.yaml"] = memory.File{Mode: 0o600,
				Data: []byte("{metadata: {name: kube-apiserver, annotations: {" +
					"kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: " +
					"'192.0.2.77:7443'}}, spec: {containers: [{name: kube-apiserver, " +
					"image: 'registry.k8s.io/kube-apiserver:v1.36.3'}]}}")}
		},
	} {
		for _, command := range [][]string{{"apply", "v1.37.1"}, {"node"}} {
			s := newTestMachine(t)
			s.env["KUBEADM_UPGRADE_DRYRUN_DIR"] = dir
			change(s.world)
			before := s.world.Snapshot()
			args := slices.Concat([]string{"upgrade"}, command,
				[]string{"--dry-run", "--ignore-preflight-errors=all"})
			if err := s.run(t.Context(), args...); err != nil {
				t.Errorf("%s: %v: %v\n%s", name, command, err, s.err.String())
				continue
			}
			if count := strings.Count(s.err.String(), "simulated cluster"); count != 1 {
				t.Errorf("%s: %v: %d warnings of the simulated cluster:\n%s", name, command, count,
					s.err.String())
			}
			if copied := s.world.Files[dir+"/config.yaml"]; len(copied.Data) == 0 {
				t.Errorf("%s: %v: no copy of the kubelet's configuration", name, command)
			}
			maps.DeleteFunc(s.world.Files, func(file string, _ memory.File) bool {
				return file == "/root" || strings.HasPrefix(file, dir)
			})
			if after := s.world.Snapshot(); after != before {
				t.Errorf("%s: %v: before\n%s\nafter\n%s", name, command, before, after)
			}
		}
	}
}

// The dry run in a simulated cluster writes the same files as that in a real one with the same
// settings, and lists all that it lists but for certificates, of which a machine of no cluster has
// none.
func TestOfflineUpgradeDryRunMatchesRealCluster(t *testing.T) {
	const dir = "/root/copies"
	real, bare := newOldControlPlane(t), newTestMachine(t)
	bare.world.Services["kubelet"] = state.Service{Exists: true, Active: true}
	for _, s := range []*testMachine{real, bare} {
		s.env["KUBEADM_UPGRADE_DRYRUN_DIR"] = dir
		if err := s.run(t.Context(), "upgrade", "apply", "v1.37.1", "--dry-run",
			"--certificate-renewal=false", "--ignore-preflight-errors=all"); err != nil {
			t.Fatal(err, s.err.String())
		}
	}
	listed := announcedChanges(bare)
	all := announcedChanges(real)
	if len(all) < 10 {
		t.Errorf("in a real cluster nothing would be done:\n%s", real.out.String())
	}
	for _, change := range all {
		if !slices.Contains(listed, change) {
			t.Errorf("not listed for the simulated cluster: %s", change)
		}
	}
	for _, name := range []string{"kube-apiserver.yaml", "kube-controller-manager.yaml",
		"kube-scheduler.yaml"} {
		want, got := real.world.Files[dir+"/"+name].Data, bare.world.Files[dir+"/"+name].Data
		if len(want) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// newOldControlPlane is a control plane node that can be upgraded.
func newOldControlPlane(t *testing.T) *testMachine {
	t.Helper()
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Mode: 0o644,
		Data: bytes.ReplaceAll(quick, []byte("v1.37.1"), []byte("v1.37.0"))}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml", "--skip-phases",
		"kubelet-finalize"); err != nil {
		t.Fatal(err)
	}
	s.world.MemberList = []state.Member{{ID: 1, Name: "cp1",
		PeerURLs: []string{"https://192.0.2.10:2380"}}}
	if err := s.world.AddObjects(`{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-cp1,
 namespace: kube-system, labels: {component: kube-apiserver, tier: control-plane}}, spec: {
 nodeName: cp1, containers: [{name: kube-apiserver, image: "kube-apiserver:v1.37.0"}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: cp1},
 status: {nodeInfo: {kubeletVersion: v1.37.0}}}`); err != nil {
		t.Fatal(err)
	}
	return s
}

// A pair that an interrupted renewal has left is repaired by an upgrade alone.
func TestOnlyUpgradesRepairCertificates(t *testing.T) {
	s := newOldControlPlane(t)
	const pki = "/etc/kubernetes/pki/"
	s.world.Files[pki+"apiserver.key"] = s.world.Files[pki+"front-proxy-client.key"]
	s.env["KUBEADM_UPGRADE_DRYRUN_DIR"] = "/root/copies"
	before := string(s.world.Files[pki+"apiserver.crt"].Data)
	for _, args := range [][]string{{"diff", "v1.37.1"},
		{"apply", "v1.37.1", "--dry-run", "--ignore-preflight-errors=all"}} {
		_ = s.run(t.Context(), append([]string{"upgrade"}, args...)...)
		if string(s.world.Files[pki+"apiserver.crt"].Data) != before {
			t.Errorf("%s has renewed the certificate:\n%s", args[0], s.out.String())
		}
	}
	if err := s.run(t.Context(), "upgrade", "apply", "v1.37.1", "--yes",
		"--ignore-preflight-errors=all"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.err.String(), "as happens after an interrupted renewal") {
		t.Errorf("the pair is not repaired:\n%s", s.err.String())
	}
}

// backupTime is the time in the name of a backup directory.
var backupTime = regexp.MustCompile(`\d{4}(-\d\d){5}`)

// announcedChanges are the changes that a dry run has printed.
func announcedChanges(s *testMachine) (all []string) {
	for line := range strings.Lines(s.out.String()) {
		if _, change, ok := strings.Cut(line, "] would "); ok {
			all = append(all, backupTime.ReplaceAllString(strings.TrimSpace(change), "TIME"))
		}
	}
	return all
}

// privateLines are the lines of text in the private keys and kubeconfigs of a directory.
func privateLines(w *fake.World, dir string) []string {
	var lines []string
	for name, f := range w.Files {
		if !strings.HasPrefix(name, dir) {
			continue
		}
		for _, block := range strings.Split(string(f.Data), "PRIVATE KEY-----\n")[1:] {
			body, _, _ := strings.Cut(block, "-----END")
			lines = append(lines, strings.Fields(body)...)
		}
		if _, key, ok := strings.Cut(string(f.Data), "client-key-data: "); ok {
			lines = append(lines, strings.Fields(key)[0])
		}
	}
	return lines
}
