package preflight

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// Files that arguments name are found by their path on the machine, and compared with those of another node.
func TestArgumentFiles(t *testing.T) {
	w := fake.New()
	w.Files["/srv/audit/policy.yaml"] = memory.File{Data: []byte("a"), Mode: 0o600}
	n := controlPlane()
	n.Cluster.APIServer = node.Component{
		Args:    []node.Arg{{Name: "audit-policy-file", Value: "/etc/audit/policy.yaml"}, {Name: "v", Value: "2"}},
		Volumes: []node.Volume{{Name: "audit", HostPath: "/srv/audit", MountPath: "/etc/audit", PathType: corev1.HostPathDirectory}},
	}
	got, err := ReadArgumentFiles(t.Context(), w, n)
	if err != nil || len(got) != 1 || got[0].Path != "/srv/audit/policy.yaml" ||
		got[0].Argument != "kube-apiserver --audit-policy-file" || !strings.HasPrefix(got[0].SHA256, "ca978112") {
		t.Fatalf("found %+v, %v", got, err)
	}
	downloaded, err := UploadedFiles(n)
	if err != nil || len(downloaded) != 1 {
		t.Fatalf("uploaded are %+v, %v", downloaded, err)
	}
	delete(w.Files, "/srv/audit/policy.yaml")
	for name, c := range map[string]struct {
		checks []Check
		want   string
	}{
		"a join without a key": {JoinControlPlane(n, tool(t), nil), "or join with a certificate key"},
		"a join":               {JoinControlPlane(n, tool(t), downloaded), ""},
		"apply":                {Reconfigure(n, nil), "kubeadm reconfigure apply --upload-certs"},
		"node":                 {Reconfigure(n, downloaded), ""},
		"after the download":   {DownloadedFiles(downloaded, nil, "copy it"), "no control plane node has uploaded it; copy it"},
		"before it is written": {DownloadedFiles(downloaded, map[string]bool{"/srv/audit/policy.yaml": true}, ""), ""},
	} {
		checks := slices.DeleteFunc(c.checks, func(c Check) bool { return c.Name != componentFile })
		report := lines(Run(t.Context(), w, checks, nil).Findings)
		if (report != "") != (c.want != "") || !strings.Contains(report, c.want) {
			t.Errorf("%s: the report is %q, want %q", name, report, c.want)
		}
	}
	for text, warns := range map[string]bool{"a": false, "b": true} {
		w.Files["/srv/audit/policy.yaml"] = memory.File{Data: []byte(text), Mode: 0o600}
		report := lines(Run(t.Context(), w, []Check{SameArgumentFiles(n, "cp1", got)}, nil).Findings)
		if strings.Contains(report, "is not as it was on node cp1") != warns {
			t.Errorf("with %q the report is %q", text, report)
		}
	}
}
