package parity

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kubeadm/test/parity/phrases"
)

// phraseCase is a command whose output tools parse.
type phraseCase struct {
	machine
	command string
	exit    int
}

// phraseCases are the outputs of phrases.yaml, by name. A dry run also prints what init or join
// print at the end.
func phraseCases() map[string]phraseCase {
	const token = " --token=abcdef.0123456789abcdef"
	const dryInit = "init --dry-run --skip-phases=preflight --kubernetes-version=v1.37.1 --control-plane-endpoint=10.0.0.10:6443"
	const dryJoin = "join 10.0.0.10:6443 --dry-run --skip-phases=preflight --discovery-token-unsafe-skip-ca-verification" + token
	const preflight = "init phase preflight --config=/base.yaml"
	const ca = "init phase certs ca --config=/base.yaml"
	cluster := machine{stage: "cluster", cluster: true}
	joining := machine{stage: "cluster", cluster: true,
		lacks: []string{"/etc/kubernetes/admin.conf"}}
	uploading := cluster
	uploading.shares = true
	sharing := joining
	sharing.shares = true
	noKubelet := joining
	noKubelet.files = map[string]string{"/join.yaml": clusterJoin().mergeInto(
		documents{"JoinConfiguration": {"timeouts": map[string]any{
			"kubeletHealthCheck": "1s", "tlsBootstrap": "1s",
		}, "discovery": map[string]any{"bootstrapToken": map[string]any{"unsafeSkipCAVerification": true}}}}).text()}
	checked := func(m machine) machine {
		m.files, m.runtime, m.tools = withFiles("/base.yaml", baseConfig().text()), true, allTools
		return m
	}
	bad := func(cluster documents) machine {
		return machine{files: withFiles("/base.yaml", cluster.mergeInto(baseConfig()).text())}
	}
	return map[string]phraseCase{
		"init": {machine{}, dryInit + " --upload-certs" + token, 0},
		"init without an endpoint": {machine{},
			strings.Replace(dryInit, " --control-plane-endpoint=10.0.0.10:6443", "", 1) +
				" --upload-certs" + token, 0},
		"init without certificates": {machine{}, dryInit + token, 0},
		"join":                      {joining, dryJoin, 0},
		"join of a control plane":   {sharing, dryJoin + " --control-plane", 0},
		"upload-certs": {uploading,
			"init phase upload-certs --upload-certs --config=/base.yaml", 0},
		"token create":           {cluster, "token create --print-join-command", 0},
		"preflight with one CPU": {checked(machine{oneCPU: true}), preflight, 1},
		"preflight with a port taken": {checked(machine{ports: []string{"0.0.0.0:6443"}}),
			preflight, 1},
		"default route without an address": {machine{unnumbered: true,
			files: withFiles("/base.yaml", baseConfig().text())},
			"init --dry-run --skip-phases=preflight --config=/base.yaml", 1},
		"kubelet that does not run": {noKubelet,
			"join --skip-phases=preflight --config=/join.yaml", 1},
		"bad DNS domain": {bad(
			documents{"ClusterConfiguration": {"networking": map[string]any{"dnsDomain": "a_b"}}}),
			ca, 1},
		"bad name for the certificate": {bad(
			documents{"ClusterConfiguration": {"apiServer": map[string]any{"certSANs": []any{"a b"}}}}), ca, 1},
	}
}

// TestPhrases checks that the output of both programs holds the phrases that tools parse.
func TestPhrases(t *testing.T) {
	both := programsToCompare(t)
	wanted, err := phrases.All()
	if err != nil {
		t.Fatal(err)
	}
	outputs := phraseCases()
	t.Run("case", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			o, ok := outputs[name]
			if !ok {
				t.Errorf("phrases.yaml names the output %q, which phraseCases does not have", name)
				continue
			}
			for who, program := range map[string]string{"peer": both.peer, "ours": both.ours} {
				t.Run("phrases: "+name+" of "+who, func(t *testing.T) {
					t.Parallel()
					got := testCase{machine: o.machine,
						steps: []step{ignoreOutput(o.command)}}.run(t, program)
					s := got.steps[0]
					if err := phrases.CheckAll(name, s.Out, s.Err); err != nil || s.Exit != o.exit {
						t.Errorf("it exits with %d, want %d; %v\n%s", s.Exit, o.exit, err,
							got.format(who))
					}
				})
			}
		}
	})
}
