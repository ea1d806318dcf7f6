package laws

import (
	"strings"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/rotation"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// staticPodWith is the manifest of a static Pod with that path of the host.
func staticPodWith(name, hostPath string) memory.File {
	return memory.File{Mode: 0o600, Data: []byte(`apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: kube-system}
spec:
  containers: [{name: ` + name + `, image: example.org/` + name + `:v1}]
  volumes: [{name: conf, hostPath: {path: ` + hostPath + `}}]
`)}
}

// Static Pods of others that use admin.conf, and the copy of root, are named by the stages that change
// admin.conf.
func TestRotationNamesUsersOfAdminKubeconfig(t *testing.T) {
	w := newRotatingMachine(t)
	const dir = "/etc/kubernetes/manifests/"
	w.Files[dir+"kube-vip.yaml"] = staticPodWith("kube-vip", "/etc/kubernetes/admin.conf")
	w.Files[dir+"agent.yaml"] = staticPodWith("agent", "/etc/kubernetes/")
	w.Files[dir+"proxy.yaml"] = staticPodWith("proxy", "/etc/haproxy")
	w.Files[dir+"odd.yaml"] = memory.File{Mode: 0o600, Data: []byte("a: [")}
	w.Files["/root/.kube/config"] = w.Files["/etc/kubernetes/admin.conf"]
	for _, s := range []rotation.Stage{rotation.Trust, rotation.Sign, rotation.Finish} {
		w.Clock = memory.NewTickingClock(w.Now().Add(2 * time.Hour))
		var warned []string
		for _, e := range rotateCA(s, rotation.Options{}).newRun(w).mustSucceed(t).events {
			if e.Kind == engine.Warned {
				warned = append(warned, e.Text)
			}
		}
		publishRootCA(t, w)
		text := strings.Join(warned, "\n")
		for _, want := range []string{`"` + dir + `kube-vip.yaml" uses /etc/kubernetes/admin.conf`,
			`"` + dir + `agent.yaml" uses /etc/kubernetes/admin.conf`,
			"cp /etc/kubernetes/admin.conf /root/.kube/config"} {
			if strings.Contains(text, want) == (s == rotation.Finish) {
				t.Errorf("%s: %q: %s", s, want, text)
			}
		}
		if strings.Contains(text, "proxy.yaml") || strings.Contains(text, "odd.yaml") {
			t.Errorf("%s names other static Pods: %s", s, text)
		}
		w.Files["/root/.kube/config"] = w.Files["/etc/kubernetes/admin.conf"]
	}
}

// kube-apiserver reads the CA of kubelets only when it starts: it is restarted when that file changes.
func TestRotationRenewsKubeletCAOfAPIServer(t *testing.T) {
	const ca, manifest = "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/manifests/kube-apiserver.yaml"
	for _, verifies := range []bool{false, true} {
		w := newRotatingMachine(t)
		if verifies {
			setKubeletCA(t, w, ca)
		}
		for _, s := range []rotation.Stage{rotation.Trust, rotation.Sign, rotation.Finish} {
			w.Clock = memory.NewTickingClock(w.Now().Add(2 * time.Hour))
			rotateCA(s, rotation.Options{Authorities: []string{rotation.ClusterAuthority}}).
				newRun(w).mustSucceed(t)
			publishRootCA(t, w)
			restarted := startOf(t, w, "kube-apiserver").After(w.Files[ca].ModTime)
			if want := verifies || s == rotation.Sign; restarted != want {
				t.Errorf("verifies kubelets: %v, %s: restarted: %v", verifies, s, restarted)
			}
		}
		if strings.Contains(string(w.Files[manifest].Data), "kubelet-certificate-authority") != verifies {
			t.Error("the argument is not kept")
		}
	}
	w := newRotatingMachine(t)
	w.Files["/srv/kubelet-ca.crt"] = w.Files[ca]
	setKubeletCA(t, w, "/srv/kubelet-ca.crt")
	before := w.Snapshot()
	out := rotateCA(rotation.Trust, rotation.Options{}).newRun(w).execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "a copy of the cluster CA") || w.Snapshot() != before {
		t.Errorf("a copy: %v", out.err)
	}
}

// setKubeletCA sets --kubelet-certificate-authority of kube-apiserver.
func setKubeletCA(t *testing.T, w *fake.World, file string) {
	t.Helper()
	const name, first = "/etc/kubernetes/manifests/kube-apiserver.yaml", "    - --client-ca-file="
	text := string(w.Files[name].Data)
	changed := strings.Replace(text, first, "    - --kubelet-certificate-authority="+file+"\n"+first, 1)
	if changed == text {
		t.Fatalf("no place for the argument in\n%s", text)
	}
	overwriteFile(w, name, []byte(changed))
}

// startOf is when the running container of a component was created.
func startOf(t *testing.T, w *fake.World, component string) time.Time {
	t.Helper()
	all, err := w.Containers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Component == component && c.Running {
			return c.Created
		}
	}
	t.Fatalf("no container of %s", component)
	return time.Time{}
}
