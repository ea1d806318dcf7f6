package cli

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/release"
)

// parseFlags reads a command line for values.
func parseFlags(t *testing.T, v flagTargets, args string) error {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	v.bind(set)
	return set.Parse(strings.Fields(args))
}

func TestFlagsOfInitReachTheConfiguration(t *testing.T) {
	for args, want := range map[string]func(o *initOptions){
		"":                                      func(*initOptions) {},
		"--apiserver-advertise-address 1.2.3.4": func(o *initOptions) { o.AdvertiseAddress = "1.2.3.4" },
		"--apiserver-bind-port 7443":            func(o *initOptions) { o.BindPort = 7443 },
		"--apiserver-cert-extra-sans a,b --apiserver-cert-extra-sans c": func(o *initOptions) { o.CertSANs = []string{"a", "b", "c"} },
		"--cert-dir /pki":                       func(o *initOptions) { o.CertificatesDir = "/pki" },
		"--certificate-key 00":                  func(o *initOptions) { o.CertificateKey = "00" },
		"--config f":                            func(o *initOptions) { o.file = "f" },
		"--control-plane-endpoint cp:6443":      func(o *initOptions) { o.ControlPlaneEndpoint = "cp:6443" },
		"--cri-socket unix:///s":                func(o *initOptions) { o.CRISocket = "unix:///s" },
		"--dry-run":                             func(o *initOptions) { o.DryRun = new(true) },
		"--dry-run=false":                       func(o *initOptions) { o.DryRun = new(false) },
		"--feature-gates A=true":                func(o *initOptions) { o.FeatureGates = "A=true" },
		"--ignore-preflight-errors Swap,NumCPU": func(o *initOptions) { o.IgnorePreflightErrors = []string{"Swap", "NumCPU"} },
		"--image-repository r":                  func(o *initOptions) { o.ImageRepository = "r" },
		"--kubeconfig k":                        func(o *initOptions) { o.kubeconfig = "k" },
		"--kubeconfig-dir /k":                   func(o *initOptions) { o.KubeconfigDir = "/k" },
		"--kubernetes-version v1.36.0":          func(o *initOptions) { o.KubernetesVersion = "v1.36.0" },
		"--node-name n":                         func(o *initOptions) { o.NodeName = "n" },
		"--patches /p":                          func(o *initOptions) { o.Patches = "/p" },
		"--pod-network-cidr 10.0.0.0/8":         func(o *initOptions) { o.PodSubnet = "10.0.0.0/8" },
		"--print-manifest":                      func(o *initOptions) { o.printManifest = true },
		"--service-cidr 10.0.0.0/8":             func(o *initOptions) { o.ServiceSubnet = "10.0.0.0/8" },
		"--service-dns-domain d":                func(o *initOptions) { o.DNSDomain = "d" },
		"--skip-certificate-key-print":          func(o *initOptions) { o.withhold.CertificateKey = true },
		"--skip-phases addon,preflight":         func(o *initOptions) { o.SkipPhases = []string{"addon", "preflight"} },
		"--skip-token-print":                    func(o *initOptions) { o.withhold.Token = true },
		"--token t":                             func(o *initOptions) { o.Token = "t" },
		"--token-ttl 2h":                        func(o *initOptions) { o.TokenTTL = 2 * time.Hour },
		"--upload-certs":                        func(o *initOptions) { o.UploadCerts = true },
		"--apiserver-extra-args v=4":            func(o *initOptions) { o.APIServerArgs = map[string]string{"v": "4"} },
		"--controller-manager-extra-args v=4":   func(o *initOptions) { o.ControllerManagerArgs = map[string]string{"v": "4"} },
		"--scheduler-extra-args v=4,a=b":        func(o *initOptions) { o.SchedulerArgs = map[string]string{"v": "4", "a": "b"} },
	} {
		t.Run(args, func(t *testing.T) {
			got, expected := newInitOptions(), newInitOptions()
			want(expected)
			if err := parseFlags(t, got.values(), args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected, got, cmp.AllowUnexported(initOptions{}),
				emptyIsNil()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// emptyIsNil makes no difference between an empty list or map and none.
func emptyIsNil() cmp.Option {
	empty := func(v any) bool {
		switch v := v.(type) {
		case []string:
			return len(v) == 0
		case map[string]string:
			return len(v) == 0
		}
		return false
	}
	return cmp.FilterValues(func(a, b any) bool { return empty(a) && empty(b) }, cmp.Ignore())
}

func TestFlagsOfJoinReachTheConfiguration(t *testing.T) {
	for args, want := range map[string]func(o *joinOptions){
		"--apiserver-advertise-address 1.2.3.4 --apiserver-bind-port 7443": func(o *joinOptions) { o.AdvertiseAddress, o.BindPort = "1.2.3.4", 7443 },
		"--certificate-key 00 --control-plane":                             func(o *joinOptions) { o.CertificateKey, o.ControlPlane = "00", true },
		"--config f --cri-socket s":                                        func(o *joinOptions) { o.file, o.CRISocket = "f", "s" },
		"--discovery-file d":                                               func(o *joinOptions) { o.DiscoveryFile = "d" },
		"--discovery-token a --tls-bootstrap-token b --token c": func(o *joinOptions) {
			o.DiscoveryToken, o.TLSBootstrapToken, o.Token = "a", "b", "c"
		},
		"--discovery-token-ca-cert-hash x --discovery-token-ca-cert-hash y": func(o *joinOptions) { o.CACertHashes = []string{"x", "y"} },
		"--discovery-token-unsafe-skip-ca-verification":                     func(o *joinOptions) { o.UnsafeSkipCAVerification = true },
		"--dry-run --node-name n --patches p":                               func(o *joinOptions) { o.DryRun, o.NodeName, o.Patches = new(true), "n", "p" },
		"--ignore-preflight-errors all --skip-phases preflight": func(o *joinOptions) {
			o.IgnorePreflightErrors, o.SkipPhases = []string{"all"}, []string{"preflight"}
		},
	} {
		t.Run(args, func(t *testing.T) {
			got := &joinOptions{JoinFlags: config.NewJoinFlags()}
			expected := &joinOptions{JoinFlags: config.NewJoinFlags()}
			want(expected)
			if err := parseFlags(t, got.values(), args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected, got, cmp.AllowUnexported(joinOptions{}),
				emptyIsNil()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFlagsOfResetReachTheConfiguration(t *testing.T) {
	got := &resetOptions{ResetFlags: config.NewResetFlags()}
	args := "-f --cert-dir /pki --cleanup-tmp-dir --config c --cri-socket s --dry-run --ignore-preflight-errors all --kubeconfig k --skip-phases preflight --clean cni,images --leave-cluster --drain-timeout 1m"
	if err := parseFlags(t, got.values(), args); err != nil {
		t.Fatal(err)
	}
	want := &resetOptions{file: "c", kubeconfig: "k", ResetFlags: config.ResetFlags{
		Common: config.Common{DryRun: new(true), IgnorePreflightErrors: []string{"all"},
			SkipPhases: []string{"preflight"}},
		CertificatesDir: "/pki", CleanupTmpDir: true, CRISocket: "s", Force: true,
		Clean: []string{"cni", "images"}, LeaveCluster: true, DrainTimeout: time.Minute,
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(resetOptions{})); diff != "" {
		t.Error(diff)
	}
}

func TestBadFlagValuesAreRefused(t *testing.T) {
	for _, args := range []string{"--dry-run=perhaps", "--token-ttl soon",
		"--apiserver-bind-port high", "--scheduler-extra-args v"} {
		if err := parseFlags(t, newInitOptions().values(), args); err == nil {
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
