package laws

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const (
	policyFile     = "/etc/kubernetes/audit/policy.yaml"
	encryptionFile = "/etc/kubernetes/enc/encryption.yaml"
	policyText     = "kind: Policy, which is not to be seen"
	encryptionText = "kind: EncryptionConfiguration, which is not to be seen"
)

// namesFiles is the part of a ClusterConfiguration whose arguments name the files.
const namesFiles = `apiServer:
  extraArgs:
  - {name: audit-policy-file, value: /audit/policy.yaml}
  - {name: encryption-provider-config, value: /etc/kubernetes/enc/encryption.yaml}
  extraVolumes:
  - {name: audit, hostPath: /etc/kubernetes/audit, mountPath: /audit, readOnly: true, pathType: Directory}
  - {name: enc, hostPath: /etc/kubernetes/enc/encryption.yaml, mountPath: /etc/kubernetes/enc/encryption.yaml, readOnly: true, pathType: File}
`

func putArgumentFiles(w *fake.World) {
	w.Files["/etc/kubernetes/audit"] = memory.File{Mode: fs.ModeDir | 0o755}
	w.Files["/etc/kubernetes/enc"] = memory.File{Mode: fs.ModeDir | 0o700}
	w.Files[policyFile] = memory.File{Data: []byte(policyText), Mode: 0o640, GID: 4}
	w.Files[encryptionFile] = memory.File{Data: []byte(encryptionText), Mode: 0o600}
	w.Files["/etc/kubernetes/audit/audit.log"] = memory.File{Data: []byte("a log"), Mode: 0o600}
}

// initWithFiles is an init that uploads files that arguments name.
func initWithFiles() subject {
	s := findSubject("init")
	s.machine = func(t testing.TB) *fake.World {
		w := newInitMachine(t)
		putArgumentFiles(w)
		return w
	}
	s.setUp = func(t testing.TB, e *engine.Env) error {
		flags := config.NewInitFlags()
		flags.UploadCerts = true
		return setUpInitWith(t, e, flags, initConfig+namesFiles)
	}
	return s
}

// filesCluster is a cluster that such an init has created, once for all tests.
var filesCluster struct {
	sync.Once
	machine *fake.World
	key     string
}

func initializedWithFiles(t testing.TB) *fake.World {
	filesCluster.Do(func() {
		s := initWithFiles()
		filesCluster.machine = s.machine(t)
		filesCluster.key = s.newRun(filesCluster.machine).mustSucceed(t).key
	})
	return filesCluster.machine.Clone()
}

// joinWithFiles is the join of a control plane node that has none of the files.
func joinWithFiles() subject {
	s := findSubject("join a control plane")
	s.machine = func(t testing.TB) *fake.World {
		w, beside := newControlPlaneMachine(t), initializedWithFiles(t)
		maps.Copy(w.Objects, beside.Objects)
		w.Discovery = signedClusterInfo(t, w)
		return w
	}
	s.setUp = func(t testing.TB, e *engine.Env) error {
		certs, err := pki.ParseCertificates(initializedWithFiles(t).Files["/etc/kubernetes/pki/ca.crt"].Data)
		if err != nil {
			return err
		}
		flags := config.NewJoinFlags()
		flags.ControlPlane, flags.CertificateKey = true, filesCluster.key
		flags.Endpoint, flags.Token, flags.CACertHashes = "192.0.2.10:6443", joinToken,
			[]string{pki.PinOf(certs[0]).String()}
		if e.Local, _, err = config.Join(config.File{}, flags, gatherFacts(t.Context(), e)); err == nil {
			setUpDiscovery(e)
		}
		e.Admin = workflow.JoinAdmin(e.World, e.Local)
		return err
	}
	return s
}

// withFilesKey returns a command that changes the configuration, with a certificate key.
func withFilesKey(s subject, uploads bool, find findChange) subject {
	s.setUp = func(t testing.TB, e *engine.Env) (err error) {
		e.Local, err = config.ReconfigureNodeFlags{CertificateKey: strings.Repeat("5e", 32), UploadCerts: uploads,
			IgnorePreflightErrors: []string{"NodeDrained"}}.Local()
		if err != nil {
			return err
		}
		here, err := existing.Open(t.Context(), e, existing.Options{RemoveTemporary: true})
		if err == nil {
			err = reconfiguration.Recover(t.Context(), e, here)
		}
		if err != nil {
			return err
		}
		wanted, err := find(t.Context(), e, here)
		if err != nil {
			return err
		}
		e.Local, e.Node, e.Intent, e.Admin = wanted.Node.Local, engine.Resolved(wanted.Node), wanted.Intent,
			engine.As(here.As)
		return nil
	}
	return s
}

// applyWithFiles is "reconfigure apply --upload-certs" with a configuration that names the files.
func applyWithFiles() subject {
	s := withFilesKey(reconfigure(""), true, request(reconfiguration.Request{
		File: config.File{Name: "cluster.yaml", Data: []byte(clusterDocument + namesFiles)}}))
	s.machine = func(t testing.TB) *fake.World {
		w := newReconfiguredMachine(t)
		putArgumentFiles(w)
		return w
	}
	return s
}

// reconfigureNodeWithFiles is "reconfigure node" with a certificate key, on a node with another policy and without
// the other file.
func reconfigureNodeWithFiles() subject {
	s := withFilesKey(reconfigureNode(nil), false,
		func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
			return reconfiguration.FindStored(ctx, e, here, nil)
		})
	s.machine = func(t testing.TB) *fake.World {
		apply := applyWithFiles()
		w := apply.machine(t)
		apply.newRun(w).mustSucceed(t)
		delete(w.Files, encryptionFile)
		w.Files[policyFile] = memory.File{Data: []byte("another policy"), Mode: 0o604, UID: 3,
			ModTime: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
		return w
	}
	return s
}

// Files that arguments name are uploaded and downloaded by runs that are killed anywhere, and nothing shows what is
// in them.
func TestArgumentFilesTravelDespiteKills(t *testing.T) {
	for name, s := range map[string]subject{"init": initWithFiles(), "join": joinWithFiles(),
		"reconfigure apply": applyWithFiles(), "reconfigure node": reconfigureNodeWithFiles()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkResumes(t, s)
			for _, dryRun := range []bool{true, false} {
				r := s.newRun(s.machine(t))
				r.dryRun = dryRun
				said := renderAll(t, s.name, r.mustSucceed(t))
				if journal, err := r.store.Load("journal"); err == nil {
					said += string(journal)
				}
				if strings.Contains(said, "not to be seen") {
					t.Errorf("dryRun %v: the output shows a file:\n%s", dryRun, said)
				}
			}
		})
	}
}

// A joined node has the files as the first one has them, but nothing else beside them.
func TestArgumentFilesOfJoinedNode(t *testing.T) {
	s := joinWithFiles()
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	for file, want := range map[string]memory.File{
		policyFile:     {Data: []byte(policyText), Mode: 0o640, GID: 4},
		encryptionFile: {Data: []byte(encryptionText), Mode: 0o600},
	} {
		if got := w.Files[file]; string(got.Data) != string(want.Data) || got.Mode != want.Mode || got.GID != want.GID {
			t.Errorf("%s is %q with mode %v, group %d", file, got.Data, got.Mode, got.GID)
		}
	}
	if got := w.Files["/etc/kubernetes/audit"].Mode; got != fs.ModeDir|0o700 {
		t.Errorf("the directory has mode %v", got)
	}
	if _, found := w.Files["/etc/kubernetes/audit/audit.log"]; found {
		t.Error("the log has travelled too")
	}
}

// A node that follows replaces its file, and keeps a copy.
func TestArgumentFilesOfReconfiguredNode(t *testing.T) {
	s := reconfigureNodeWithFiles()
	w := s.machine(t)
	said := renderAll(t, s.name, s.newRun(w).mustSucceed(t))
	if !strings.Contains(said, "kube-apiserver uses the previous "+policyFile) {
		t.Errorf("the component that has to be restarted is not named:\n%s", said)
	}
	copied := policyFile + ".kubeadm-2026-03-04-05-06-07"
	modes := map[string]fs.FileMode{policyFile: 0o604, copied: 0o600}
	for file, text := range map[string]string{policyFile: policyText, encryptionFile: encryptionText, copied: "another policy"} {
		if got := w.Files[file]; string(got.Data) != text || file != encryptionFile && (got.Mode != modes[file] || got.UID != 3) {
			t.Errorf("%s is %q with mode %v, user %d", file, got.Data, got.Mode, got.UID)
		}
	}
}

// After the upload has expired, a node that asks for files says so, and which of its own differ.
func TestArgumentFilesAfterExpiry(t *testing.T) {
	s := reconfigureNodeWithFiles()
	w := s.machine(t)
	w.Files[encryptionFile] = memory.File{Data: []byte(encryptionText), Mode: 0o600}
	maps.DeleteFunc(w.Objects, func(k memory.Key, _ *unstructured.Unstructured) bool { return k.Name == "kubeadm-files" })
	said := renderAll(t, s.name, s.newRun(w).mustSucceed(t))
	for _, want := range []string{"an upload expires after two hours", policyFile + " (kube-apiserver --audit-policy-file) is not as it was on node cp1"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
}

// A file that is downloaded is not compared with what it was when the change was begun.
func TestDownloadedArgumentFileIsNotCompared(t *testing.T) {
	s := reconfigureNodeWithFiles()
	if said := renderAll(t, s.name, s.newRun(s.machine(t)).mustSucceed(t)); strings.Contains(said, "is not as it was on node") {
		t.Errorf("a file that is replaced is compared:\n%s", said)
	}
}

// If files are uploaded again, the cluster stores their new digests, without a change of the configuration.
func TestUploadedArgumentFilesAreRecorded(t *testing.T) {
	s := applyWithFiles()
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	const text = "a newer policy"
	w.Files[policyFile] = memory.File{Data: []byte(text), Mode: 0o640}
	s.newRun(w).mustSucceed(t)
	found, err := reconfiguration.Read(t.Context(), w, state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	if !slices.ContainsFunc(found.Files, func(f preflight.ArgumentFile) bool { return f.Path == policyFile && f.SHA256 == want }) {
		t.Errorf("recorded is %v", found.Files)
	}
}

// If no control plane node has uploaded the files, a join names each of them, before its kubelet starts.
func TestJoinNamesMissingArgumentFiles(t *testing.T) {
	for name, skip := range map[string]string{"": "", "skipped": "control-plane-prepare/download-certs"} {
		t.Run(name, func(t *testing.T) {
			s := joinWithFiles()
			w := s.machine(t)
			maps.DeleteFunc(w.Objects, func(k memory.Key, _ *unstructured.Unstructured) bool { return k.Name == "kubeadm-files" })
			r := s.newRun(w)
			if skip != "" {
				r.sel.Skip = []string{skip}
			}
			out := r.execute(t)
			for _, file := range []string{policyFile, encryptionFile} {
				if out.err == nil || !strings.Contains(out.err.Error(), file) {
					t.Errorf("%v does not name %s", out.err, file)
				}
			}
			if w.Services["kubelet"].Active {
				t.Error("the kubelet was started")
			}
		})
	}
}

// A cluster without such files has no object more, and asks for none.
func TestNoArgumentFiles(t *testing.T) {
	for key := range initializedMachine(t).Objects {
		if strings.Contains(key.Name, "kubeadm-files") {
			t.Errorf("there is %v", key)
		}
	}
	s := findSubject("join a control plane")
	r := s.newRun(s.machine(t))
	r.observe = func(w world.World) world.World { return noFilesRead{w, t} }
	r.mustSucceed(t)
}

// noFilesRead refuses to read the Secret of files.
type noFilesRead struct {
	world.World
	t testing.TB
}

func (w noFilesRead) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if ref.Name == "kubeadm-files" {
		w.t.Error("the Secret is read")
	}
	return w.World.Object(ctx, ref)
}
