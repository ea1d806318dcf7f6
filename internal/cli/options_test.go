package cli

import (
	"cmp"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
)

// parseFlags reads a command line for values.
func parseFlags(t *testing.T, v flagTargets, args string) error {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	v.bind(set)
	return set.Parse(strings.Fields(args))
}

// A value of each type reaches the field whose tag names the flag.
func TestFlagsReachTheirFields(t *testing.T) {
	got, want := newInitOptions(), newInitOptions()
	if err := parseFlags(t, targetsOf(got), "--apiserver-bind-port 7443 --token-ttl 2h --dry-run=false "+
		"--apiserver-cert-extra-sans a,b --apiserver-cert-extra-sans c --upload-certs --config f "+
		"--scheduler-extra-args v=4,a=b --skip-phases addon,preflight"); err != nil {
		t.Fatal(err)
	}
	want.BindPort, want.TokenTTL, want.DryRun = 7443, 2*time.Hour, new(false)
	want.CertSANs, want.UploadCerts, want.File = []string{"a", "b", "c"}, true, "f"
	want.SchedulerArgs = map[string]string{"v": "4", "a": "b"}
	want.SkipPhases = []string{"addon", "preflight"}
	if diff := gocmp.Diff(want, got, emptyIsNil()); diff != "" {
		t.Error(diff)
	}
}

// emptyIsNil makes no difference between an empty list or map and none.
func emptyIsNil() gocmp.Option {
	empty := func(v any) bool {
		switch v := v.(type) {
		case []string:
			return len(v) == 0
		case map[string]string:
			return len(v) == 0
		}
		return false
	}
	return gocmp.FilterValues(func(a, b any) bool { return empty(a) && empty(b) }, gocmp.Ignore())
}

// Each flag changes what init or join resolves its settings to, so that none is accepted and
// forgotten. A new flag needs a value here.
func TestEveryFlagHasAnEffect(t *testing.T) {
	facts := config.Facts{Tool: mustParseTool(t), Hostname: "cp1", Runtimes: []string{"unix:///s"},
		Addresses: []state.Address{{IP: "192.0.2.1", Interface: "eth0", DefaultRoute: true}}}
	resolveInit := func(args string) (any, error) {
		o := newInitOptions()
		if err := parseFlags(t, targetsOf(o), args); err != nil {
			return nil, err
		}
		n, how, err := config.Init(config.File{}, o.InitFlags, facts)
		return []any{n, how}, err
	}
	resolveJoin := func(args string) (any, error) {
		o := &joinOptions{JoinFlags: config.NewJoinFlags()}
		o.Endpoint = "192.0.2.9:6443"
		if err := parseFlags(t, targetsOf(o), args); err != nil {
			return nil, err
		}
		local, how, err := config.Join(config.File{}, o.JoinFlags, facts)
		return []any{local, how}, err
	}
	const joins = "--token abcdef.0123456789abcdef --discovery-token-unsafe-skip-ca-verification " +
		"--control-plane "
	key := strings.Repeat("ab", 32)
	common := map[string]string{
		"": "", "apiserver-advertise-address": "192.0.2.7", "apiserver-bind-port": "7443",
		"certificate-key": key, "cri-socket": "unix:///other.sock", "dry-run": "true",
		"ignore-preflight-errors": "Swap", "kubeconfig-dir": "/k", "node-address-from": "192.0.2.0/24", "node-name": "other",
		"patches": "/p", "skip-phases": "preflight",
	}
	for name, c := range map[string]struct {
		resolve func(args string) (any, error)
		base    string // without which the command has no settings
		flags   any
		values  map[string]string
	}{
		"init": {resolveInit, "--token abcdef.0123456789abcdef --certificate-key " +
			strings.Repeat("cd", 32) + " ", &config.InitFlags{}, map[string]string{
			"apiserver-cert-extra-sans": "a.example", "apiserver-extra-args": "v=4", "cert-dir": "/pki",
			"control-plane-endpoint": "lb.example:6443", "controller-manager-extra-args": "v=4",
			"feature-gates": "NodeLocalCRISocket=false", "image-repository": "r.example/k8s",
			"kubernetes-version": "v1.36.0", "pod-network-cidr": "10.8.0.0/16",
			"scheduler-extra-args": "v=4", "service-cidr": "10.9.0.0/16",
			"service-dns-domain": "other.local", "token": "fedcba.0123456789abcdef",
			"token-ttl": "1h", "upload-certs": "true"}},
		"join": {resolveJoin, joins, &config.JoinFlags{}, map[string]string{
			"control-plane": "false", "discovery-file": "/d", "discovery-token": "fedcba.0123456789abcdef",
			"discovery-token-ca-cert-hash":                "sha256:" + strings.Repeat("0a", 32),
			"discovery-token-unsafe-skip-ca-verification": "false",
			"replace-member":                              "cp9", "tls-bootstrap-token": "fedcba.0123456789abcdef",
			"token": "fedcba.0123456789abcdef"}},
	} {
		before, err := c.resolve(c.base)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for flagName := range targetsOf(c.flags) {
			value := cmp.Or(c.values[string(flagName)], common[string(flagName)])
			if value == "" {
				t.Errorf("%s: this test has no value for --%s", name, flagName)
				continue
			}
			args := c.base + "--" + string(flagName) + "=" + value
			after, err := c.resolve(args)
			if err == nil && reflect.DeepEqual(before, after) {
				t.Errorf("%s %s: the flag has no effect", name, args)
			}
		}
	}
}

// Each flag of a workflow belongs to a phase that can be run alone, but for those of a whole run.
func TestEveryFlagIsOfAPhase(t *testing.T) {
	for name, c := range map[string]struct {
		options any
		phases  []engine.Phase
		others  []flag.Name // of the whole run, or of other commands that share the options
	}{
		"init": {newInitOptions(), workflow.Init, []flag.Name{flag.Token, flag.TokenTTL, flag.FromBackup,
			flag.IdentityFile, flag.PassphraseFile, flag.RemoveOldControlPlane}},
		"join": {&joinOptions{}, workflow.Join, []flag.Name{flag.KubeconfigDir}},
		"reset": {&resetOptions{}, workflow.Reset, []flag.Name{flag.Config, flag.KubeconfigDir,
			flag.LeaveCluster, flag.NodeName}},
		"upgrade apply": {newUpgradeOptions(flag.UpgradeApply), workflow.UpgradeApply,
			[]flag.Name{flag.KubeconfigDir, flag.NodeName, flag.PrintConfig, flag.Via, flag.Yes}},
	} {
		listed := append(c.others, flag.SkipPhases)
		engine.Walk(c.phases, func(_ string, p engine.Phase) { listed = append(listed, p.Flags...) })
		for n := range targetsOf(c.options) {
			if !slices.Contains(listed, n) {
				t.Errorf("%s: no phase has --%s", name, n)
			}
		}
	}
}

func mustParseTool(t *testing.T) release.Tool {
	t.Helper()
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestBadFlagValuesAreRefused(t *testing.T) {
	for _, args := range []string{"--dry-run=perhaps", "--token-ttl soon",
		"--apiserver-bind-port high", "--scheduler-extra-args v"} {
		if err := parseFlags(t, targetsOf(newInitOptions()), args); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

func TestFeatureGatesAreInHelp(t *testing.T) {
	for _, g := range release.FeatureGates() {
		if !strings.Contains(flag.Of(flag.FeatureGates).Help, g.Name) {
			t.Errorf("the help of --feature-gates does not tell of %s", g.Name)
		}
	}
}

// A command shows the help that a flag has in this command, not what it has elsewhere.
func TestFlagsHaveHelpOfTheirCommand(t *testing.T) {
	seen := 0
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			check(child)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(c.CommandPath(), "kubeadm "), " phase ")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			want, ok := flag.Of(flag.Name(f.Name)).HelpOf[flag.Command(name)]
			if !ok {
				return
			}
			seen++
			if f.Usage != want {
				t.Errorf("%s: --%s has the help %q, want %q", c.CommandPath(), f.Name, f.Usage, want)
			}
		})
	}
	check(New(Host{}))
	if seen == 0 {
		t.Error("no flag has help of its command")
	}
}

func TestGroupCommandHasFlagsOfChildren(t *testing.T) {
	group := engine.Phase{Name: "g", Phases: []engine.Phase{{Phases: []engine.Phase{
		{Name: "a", Flags: []flag.Name{flag.Config, flag.CertDir}},
		{Name: "b", Flags: []flag.Name{flag.Config, flag.Patches}},
	}}}}
	if got, want := allFlags(group),
		[]flag.Name{flag.CertDir, flag.Config, flag.Patches}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	group.Flags = []flag.Name{flag.DryRun}
	if got := allFlags(group); !slices.Equal(got, group.Flags) {
		t.Errorf("got %v, want its own %v", got, group.Flags)
	}
}
