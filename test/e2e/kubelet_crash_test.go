//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// kubeletFailure is a way in which the kubelet of a machine starts no Pods.
type kubeletFailure struct {
	name, cause, fix string   // scripts
	want             []string // all in the error
}

// replaceKubelet is a script that lets the kubelet's unit run another command, with the arguments of
// the kubelet.
func replaceKubelet(script string) string {
	return `cat > /usr/local/bin/other-kubelet <<'END'
#!/bin/sh
` + script + `
END
chmod 755 /usr/local/bin/other-kubelet
mkdir -p /etc/systemd/system/kubelet.service.d
cat > /etc/systemd/system/kubelet.service.d/99-other.conf <<'END'
[Service]
ExecStart=
ExecStart=/usr/local/bin/other-kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
systemctl daemon-reload`
}

const restoreKubelet = `rm -f /etc/systemd/system/kubelet.service.d/99-other.conf /run/kubelet-ran
systemctl daemon-reload`

// inotifyLimit has the form in which a kubelet names that root has too many inotify instances, before
// it exits. It is written here by hand: the limit is shared with all nodes and the host.
const inotifyLimit = `E1125 07:00:00.000000     812 kubelet.go:1688] "Failed to start cAdvisor" err="inotify_init: too many open files"`

func kubeletFailures() []kubeletFailure {
	return []kubeletFailure{
		{name: "a panic because of a feature gate", cause: replaceKubelet(
			`printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {NoSuchGate: true}\n' > /run/bad.yaml
exec /usr/bin/kubelet "$@" --config=/run/bad.yaml`), fix: restoreKubelet,
			want: []string{"the kubelet exited with code 2", "panic: failed to merge",
				"unrecognized feature gate: NoSuchGate"}},
		{name: "exits once it was healthy", cause: replaceKubelet(`if [ ! -e /run/kubelet-ran ]; then
	touch /run/kubelet-ran
	timeout --signal=KILL 4 /usr/bin/kubelet "$@"
fi
echo '` + inotifyLimit + `' >&2
exit 1`), fix: restoreKubelet,
			want: []string{"the kubelet exited with code 1 (", "too many open files"}},
		{name: "a broken runc", cause: `printf '#!/bin/sh\nexit 1\n' > /root/broken-runc
chmod 755 /root/broken-runc
mount --bind /root/broken-runc "$(command -v runc)"`, fix: `umount "$(command -v runc)"`,
			want: []string{"the container runtime cannot create the sandbox of Pod ", "runc"}},
	}
}

// checkKubeletFailure runs a command that must fail long before the limit of its waits, and name the
// cause in its error and while it waits.
func checkKubeletFailure(t *testing.T, n *nodes.Node, f kubeletFailure, command ...string) {
	t.Helper()
	runShell(t, n, f.cause)
	defer runShell(t, n, f.fix)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	result, err := n.Run(ctx, command...)
	if result.Code != 1 {
		t.Fatalf("want exit code 1, got %d: %v\n%s", result.Code, err, result.Stdout)
	}
	for _, want := range f.want {
		if !strings.Contains(result.Stderr, want) {
			t.Errorf("the error does not say %q:\n%s", want, result.Stderr)
		}
	}
	if strings.Contains(result.Stderr, "goroutine ") || strings.Contains(result.Stderr, ".go:70 +0x") {
		t.Errorf("the error shows a stack trace:\n%s", result.Stderr)
	}
	const formerLimit = 4 * time.Minute // of the waits for the kubelet, the control plane and etcd
	if result.Duration >= formerLimit {
		t.Errorf("it took %s", result.Duration)
	}
	t.Logf("named after %s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 6), "\n"))
}

// TestInitNamesKubeletFailure lets the kubelet of one machine fail in several ways, one after the
// other. That init succeeds in the end shows that each cause was fixed.
func TestInitNamesKubeletFailure(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	writeFile(t, n, initConfigFile, nodes.InitConfig(nodes.Config{Address: n.Address()}))
	command := []string{kubeadm, "init", "--config", initConfigFile}
	for _, f := range kubeletFailures() {
		t.Run(f.name, func(t *testing.T) { checkKubeletFailure(t, n, f, command...) })
		runCommand(t, n, kubeadm, "reset", "--force")
	}
	result := runCommand(t, n, command...)
	if strings.Contains(result, "the kubelet exited") {
		t.Errorf("init without a failure names one:\n%s", result)
	}
	checkControlPlaneNode(t, n)
}

// TestControlPlaneJoinNamesKubeletFailure does the same for the join of a control plane, whose first
// wait is for its etcd member.
func TestControlPlaneJoinNamesKubeletFailure(t *testing.T) {
	inFullRun(t, "a minute") // by default TestInitNamesKubeletFailure
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createFirst(t.Context(), 2, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	n := s.controlPlanes[1]
	for _, f := range kubeletFailures() {
		t.Run(f.name, func(t *testing.T) {
			checkKubeletFailure(t, n, f, controlPlaneJoinCommand(kubeadm, s)...)
		})
		runCommand(t, n, kubeadm, "reset", "--force")
	}
	runCommand(t, n, controlPlaneJoinCommand(kubeadm, s)...)
	checkVotingMembers(t, s.controlPlanes...)
}
