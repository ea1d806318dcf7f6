package laws

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// moveCertificates moves the certificates of a machine to where "certificatesDir: /opt/pki" would have put them.
func moveCertificates(m *fake.World) *fake.World {
	const from, to = "/etc/kubernetes/pki", "/opt/pki"
	for name, f := range m.Files {
		if rest, ok := strings.CutPrefix(name, from); ok {
			delete(m.Files, name)
			m.Files[to+rest] = f
		} else if strings.HasPrefix(name, "/etc/kubernetes/") && strings.Contains(string(f.Data), from) {
			f.Data = []byte(strings.ReplaceAll(string(f.Data), from, to))
			m.Files[name] = f
		}
	}
	m.EtcdClientFiles = true
	return m
}

// The commands that exchange etcd's data work wherever the certificates of the cluster are.
func TestEtcdDataWithOtherCertificatesDir(t *testing.T) {
	for name, c := range map[string]struct {
		subject subject
		machine *fake.World
		members []string // after an exchange
	}{
		"restore": {restoreSubject(etcddata.Options{}), machineOfThree(t), []string{"cp1"}},
		"rejoin":  {rejoinSubject(), machineOfRestored(t), []string{"cp2", "cp1"}},
		"recover": {recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}}), machineWithoutQuorum(t), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.subject.newRun(moveCertificates(c.machine))
			out := checkDryRun(t, r)
			if c.members == nil {
				checkRecoveredEtcd(t, r.machine)
			} else {
				checkExchanged(t, r.machine, c.members...)
			}
			if slices.ContainsFunc(out.events, func(e engine.Event) bool {
				return strings.Contains(e.Text, "/etc/kubernetes/pki")
			}) {
				t.Errorf("it reads or names another directory:\n%s", renderScript(out.events))
			}
		})
	}
}

// A client file that cannot be read says nothing of etcd: no other member is taken for lost.
func TestUnreadableEtcdClientIsNoLostQuorum(t *testing.T) {
	lost := etcddata.Options{Lost: []string{"cp2", "cp3"}}
	for name, c := range map[string]struct {
		subject   subject
		extension string
	}{
		"restore without the key":         {restoreSubject(lost), ".key"},
		"restore without the certificate": {restoreSubject(lost), ".crt"},
		"recover without the key":         {recoverSubjectOf(lost), ".key"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOfThree(t)
			file := "/etc/kubernetes/pki/etcd/healthcheck-client" + c.extension
			m.EtcdClientFiles = true
			delete(m.Files, file)
			r := c.subject.newRun(m)
			before := m.Snapshot()
			err := r.execute(t).err
			if !world.IsPermanent(err) || !strings.Contains(err.Error(), file) {
				t.Errorf("it says %v", err)
			}
			if !strings.Contains(strings.Join(problem.Hints(err), "\n"), "kubeadm init phase certs etcd-healthcheck-client --cert-dir /etc/kubernetes/pki") {
				t.Errorf("the hints are %q", problem.Hints(err))
			}
			if diff := diffLines(before, m.Snapshot()); diff != "" {
				t.Errorf("it changed the machine:\n%s", diff)
			}
		})
	}
}
