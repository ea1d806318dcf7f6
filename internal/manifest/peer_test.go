package manifest_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var peer = flag.String("peer", "", "upstream's kubeadm, to capture testdata from again")

// TestCapture writes what upstream's kubeadm creates from each testdata/<name>/kubeadm.yaml beside
// it. It runs only with -peer.
func TestCapture(t *testing.T) {
	if *peer == "" {
		t.Skip("no -peer given")
	}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			if s.line != "" && !strings.HasPrefix(versionOf(t, *peer), s.line+".") {
				t.Skip("only upstream's kubeadm " + s.line + " deploys that")
			}
			capture(t, s)
		})
	}
}

func versionOf(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(program, "version", "--output=short").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func capture(t *testing.T, s scenario) {
	dir, made := filepath.Join("testdata", s.name), t.TempDir()
	patches, err := filepath.Abs(filepath.Join(dir, "patches"))
	if err != nil {
		t.Fatal(err)
	}
	config := bytes.ReplaceAll(read(t, filepath.Join(dir, "kubeadm.yaml")), []byte(" /patches\n"),
		[]byte(" "+patches+"\n"))
	file := filepath.Join(made, "kubeadm.yaml")
	write(t, file, config)
	cmd := exec.Command(*peer, "init", "--dry-run", "--upload-certs", "--config", file,
		"--skip-phases=preflight")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "KUBEADM_INIT_DRYRUN_DIR=" + made},
		s.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	for from, to := range map[string]string{
		"etcd.yaml": "etcd.yaml", "kube-apiserver.yaml": "kube-apiserver.yaml",
		"kube-scheduler.yaml":          "kube-scheduler.yaml",
		"kube-controller-manager.yaml": "kube-controller-manager.yaml",
		"kubeadm-flags.env":            "kubeadm-flags.env",
		"config.yaml":                  "kubelet.yaml",
		"instance-config.yaml":         "instance-config.yaml",
	} {
		data, err := os.ReadFile(filepath.Join(made, from))
		if os.IsNotExist(err) && from == "etcd.yaml" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, to), data)
	}
	if s.line == "" {
		write(t, filepath.Join(dir, "objects.yaml"), createdObjects(string(out)))
	}
}

var (
	created = regexp.MustCompile(
		`(?ms)^\[dryrun\] Would perform action CREATE on .*?\n\[dryrun\] Attached object:\n(.*?)(?:^\[|^\s*\n|\z)`)
	// random, and tested by themselves
	withheld = regexp.MustCompile(`(?m)^  name: kubeadm-certs$|^  description: UHJveHk`)
)

func createdObjects(out string) []byte {
	var all strings.Builder
	for _, m := range created.FindAllStringSubmatch(out, -1) {
		if !withheld.MatchString(m[1]) {
			all.WriteString("---\n" + strings.ReplaceAll(m[1], "  resourceVersion: \"0\"\n", ""))
		}
	}
	return []byte(all.String())
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
