//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// v1beta3Config is a configuration file of v1beta3; %[1]s is the machine's address.
const v1beta3Config = `apiVersion: kubeadm.k8s.io/v1beta3
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
  ttl: 3h0m0s
  usages: [signing, authentication]
  groups: [system:bootstrappers:kubeadm:default-node-token]
localAPIEndpoint:
  advertiseAddress: %[1]s
nodeRegistration:
  name: old-name
  kubeletExtraArgs: {v: "3", node-labels: a=b}
  ignorePreflightErrors: [%[2]s]
  imagePullPolicy: IfNotPresent
  taints: []
skipPhases: [addon/kube-proxy]
---
apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
clusterName: old
controlPlaneEndpoint: %[1]s:6443
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.97.0.0/16, dnsDomain: old.local}
apiServer:
  timeoutForControlPlane: 5m0s
  certSANs: [api.example]
  extraArgs: {audit-log-maxage: "30", v: "2"}
controllerManager:
  extraArgs: {node-monitor-period: 4s}
etcd:
  local: {dataDir: /var/lib/etcd-old, extraArgs: {quota-backend-bytes: "1073741824"}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
`

// TestConfigMigrateRoundTrip migrates a file of an older API version. init does the same with
// both, migrating the new one changes nothing, and upstream's kubeadm accepts it.
func TestConfigMigrateRoundTrip(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	const older, newer = "/root/older.yaml", "/root/newer.yaml"
	text := fmt.Sprintf(v1beta3Config, n.Address(), nodes.IgnoredPreflight)
	writeFile(t, n, older, text)
	runCommand(t, n, kubeadm, "config", "migrate", "--old-config", older, "--new-config", newer)
	migrated := readFile(t, n, newer)
	if strings.Contains(migrated, "v1beta3") ||
		!strings.Contains(migrated, "kubeadm.k8s.io/v1beta4") {
		t.Errorf("it was migrated to\n%s", migrated)
	}
	if again := runCommand(t, n, kubeadm, "config", "migrate", "--old-config",
		newer); again != strings.TrimSpace(migrated) {
		t.Errorf("migrated once more it is\n%s\ninstead of\n%s", again, migrated)
	}
	runCommand(t, n, upstreamKubeadm, "config", "validate", "--config", newer)
	if !strings.Contains(migrated, "failCgroupV1: false\nkind: KubeletConfiguration") {
		t.Errorf("the configuration of the kubelet is not kept:\n%s", migrated)
	}
	announced := make(map[string][]string)
	for _, file := range []string{older, newer} {
		announced[file] = announcedChanges(runCommand(t, n, kubeadm, "init", "--config", file,
			"--dry-run"))
	}
	if !slices.Equal(announced[older], announced[newer]) || len(announced[older]) < 20 {
		t.Errorf("by the older file init would do%s\nand by the newer%s",
			indentLines(announced[older]), indentLines(announced[newer]))
	}
}

// TestConfigValidateRandomInput validates randomly corrupted files: each is valid or refused with
// one error.
func TestConfigValidateRandomInput(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	count := 100
	if suite.full {
		count = 3000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	good := []string{fmt.Sprintf(v1beta3Config, n.Address(), nodes.IgnoredPreflight),
		nodes.InitConfig(nodes.Config{Address: n.Address()})}
	for i := range count {
		writeFile(t, n, fmt.Sprintf("/root/random/%04d.yaml", i), corruptText(chance, good[i%2]))
	}
	said := runShell(t, n, `cd /root/random
		for file in *.yaml; do
			code=0; `+kubeadm+` config validate --config $file >$file.said 2>&1 || code=$?
			errors=$(grep -c "^error: " $file.said || true)
			case $code/$errors in
			0/0) echo good ;;
			1/1) grep -lE "panic|goroutine |nil pointer" $file.said || echo refused ;;
			*) echo "$file: exit code $code, $errors errors"; head -5 $file.said ;;
			esac
		done`)
	tally := make(map[string]int)
	for line := range strings.Lines(said) {
		tally[strings.TrimSpace(line)]++
	}
	if tally["good"]+tally["refused"] != count || tally["refused"] < count/4 {
		t.Errorf("of %d files %d are valid and %d refused:\n%s", count, tally["good"],
			tally["refused"], said)
	}
	t.Logf("of %d files %d are valid and %d refused", count, tally["good"], tally["refused"])
}

// corruptText changes random lines and bytes of a text.
func corruptText(chance *rand.Rand, text string) string {
	strange := []string{"[", "{", "- ", "\t", "null", "-1", "99999999999999999999", "~", "&a", "*a",
		"!!binary x", "'", "\"", ": ", "\x00", "é", "v1beta9"}
	all := strings.Split(text, "\n")
	for range 1 + chance.IntN(3) {
		i, j := chance.IntN(len(all)), chance.IntN(len(all))
		at := chance.IntN(len(all[i]) + 1)
		switch chance.IntN(5) {
		case 0:
			all = slices.Delete(all, i, i+1)
		case 1:
			all[i] = all[j]
		case 2:
			all[i] = all[i][:at] + strange[chance.IntN(len(strange))] + all[i][at:]
		case 3:
			all[i] = all[i][:at]
		case 4:
			all[i] = "  " + all[i]
		}
	}
	return strings.Join(all, "\n")
}
