package config

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
)

const upgradeDocument = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n"

func TestUpgradeApply(t *testing.T) {
	const file = upgradeDocument + `apply:
  kubernetesVersion: v1.37.0
  certificateRenewal: false
  etcdUpgrade: false
  forceUpgrade: true
  imagePullPolicy: Never
  imagePullSerial: false
  ignorePreflightErrors: [Swap]
  patches: {directory: /patches}
  skipPhases: [addon]
`
	type check struct {
		text  string // of the file; empty for none
		edit  func(*UpgradeFlags)
		wrong func(node.Upgrade, RunOptions) bool
	}
	for name, c := range map[string]check{
		"an argument": {"", func(f *UpgradeFlags) { f.Version = " v1.37.1 " },
			func(u node.Upgrade, _ RunOptions) bool {
				return u.Version != "v1.37.1" || !u.CertificateRenewal || !u.EtcdUpgrade ||
					!u.Confirm || u.Force || !u.PullSerially || u.PullPolicy != corev1.PullIfNotPresent
			}},
		"yes": {"", func(f *UpgradeFlags) { f.Version, f.Yes = "v1.37.1", true },
			func(u node.Upgrade, _ RunOptions) bool { return u.Confirm }},
		"a dry run asks nothing": {"", func(f *UpgradeFlags) {
			f.Version, f.DryRun = "v1.37.1", new(true)
		}, func(u node.Upgrade, r RunOptions) bool { return u.Confirm || !r.DryRun }},
		"a file": {file, func(*UpgradeFlags) {}, func(u node.Upgrade, r RunOptions) bool {
			return u.Version != "v1.37.0" || u.CertificateRenewal || u.EtcdUpgrade || !u.Force ||
				u.Confirm || u.PullSerially || u.PullPolicy != corev1.PullNever ||
				u.Patches != "/patches" || !u.IgnoredChecks.Has("Swap") ||
				!slices.Equal(r.SkipPhases, []string{"addon"})
		}},
		"a file without fields has the defaults of the flags": {
			upgradeDocument + "apply: {kubernetesVersion: v1.37.1}\n", func(*UpgradeFlags) {},
			func(u node.Upgrade, _ RunOptions) bool {
				return !u.CertificateRenewal || !u.EtcdUpgrade || u.Force || !u.Confirm
			}},
		"the argument replaces the version of the file": {file,
			func(f *UpgradeFlags) { f.Version = "v1.37.1" },
			func(u node.Upgrade, _ RunOptions) bool { return u.Version != "v1.37.1" }},
		"given flags replace fields, others do not": {file, func(f *UpgradeFlags) {
			f.Given = []string{"certificate-renewal", "patches"}
			f.Patches = "/others"
		}, func(u node.Upgrade, _ RunOptions) bool {
			return !u.CertificateRenewal || u.EtcdUpgrade || u.Patches != "/others"
		}},
		"ignored checks of both": {file, func(f *UpgradeFlags) {
			f.IgnorePreflightErrors = []string{"NumCPU"}
		}, func(u node.Upgrade, _ RunOptions) bool {
			return !u.IgnoredChecks.Has("Swap") || !u.IgnoredChecks.Has("NumCPU")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			u, run, err := resolveUpgrade(c.text, c.edit)
			if err != nil || c.wrong(u, run) {
				t.Errorf("%+v, %+v: %v", u, run, err)
			}
		})
	}
}

func TestUpgradeApplyErrors(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		edit func(*UpgradeFlags)
		want string
	}{
		"no version": {"", func(*UpgradeFlags) {}, "command line: no version to upgrade to"},
		"no version in the file": {upgradeDocument, func(*UpgradeFlags) {},
			"configuration file kubeadm.yaml: no version to upgrade to"},
		"a bad version": {"", func(f *UpgradeFlags) { f.Version = "v1.x" },
			`command line: argument version: `},
		"a bad version in the file": {upgradeDocument + "apply: {kubernetesVersion: '1..2'}\n",
			func(*UpgradeFlags) {},
			"configuration file kubeadm.yaml: UpgradeConfiguration apply.kubernetesVersion: "},
		"a bad check": {"", func(f *UpgradeFlags) {
			f.Version, f.IgnorePreflightErrors = "v1.37.1", []string{"all", "swap"}
		}, "command line: --ignore-preflight-errors: "},
		"a bad policy": {upgradeDocument +
			"apply: {kubernetesVersion: v1.37.1, imagePullPolicy: Often}\n",
			func(*UpgradeFlags) {},
			"configuration file kubeadm.yaml: UpgradeConfiguration apply.imagePullPolicy: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := resolveUpgrade(c.text, c.edit)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s…", err, c.want)
			}
		})
	}
}

func resolveUpgrade(text string, edit func(*UpgradeFlags)) (node.Upgrade, RunOptions, error) {
	flags := NewUpgradeFlags()
	edit(&flags)
	if text == "" {
		return UpgradeApply(File{}, flags)
	}
	return UpgradeApply(fileOf(text), flags)
}

func TestUpgradeNode(t *testing.T) {
	flags := NewUpgradeFlags()
	u, _, err := UpgradeNode(File{}, flags)
	if err != nil || u.Version != "" || u.Confirm || !u.CertificateRenewal || !u.EtcdUpgrade {
		t.Errorf("flags: %+v: %v", u, err)
	}
	file := fileOf(upgradeDocument + `apply: {kubernetesVersion: nonsense, etcdUpgrade: false}
node: {certificateRenewal: false, dryRun: true}
`)
	u, run, err := UpgradeNode(file, flags)
	if err != nil || u.Version != "" || u.CertificateRenewal || !u.EtcdUpgrade || !run.DryRun {
		t.Errorf("a file: %+v, %+v: %v", u, run, err)
	}
}

func TestUpgradeDiff(t *testing.T) {
	const file = upgradeDocument + "diff: {kubernetesVersion: v1.37.0, contextLines: 5}\n"
	for name, c := range map[string]struct {
		text    string
		flags   UpgradeDiffFlags
		version string
		lines   int
		want    string // beginning of the error
	}{
		"flags":                 {"", UpgradeDiffFlags{Version: "v1.37.1"}, "v1.37.1", 0, ""},
		"no version":            {"", NewUpgradeDiffFlags(), "", 3, ""},
		"a file":                {file, NewUpgradeDiffFlags(), "v1.37.0", 5, ""},
		"both":                  {file, UpgradeDiffFlags{Version: "v1.37.1"}, "v1.37.1", 5, ""},
		"a file without fields": {upgradeDocument, NewUpgradeDiffFlags(), "", 0, ""},
		"a bad version": {"", UpgradeDiffFlags{Version: "1..2"}, "1..2", 0,
			"command line: argument version: "},
		"negative context": {"", UpgradeDiffFlags{ContextLines: -1}, "", -1,
			"command line: --context-lines: must not be negative"},
		"negative context in the file": {upgradeDocument + "diff: {contextLines: -2}\n",
			NewUpgradeDiffFlags(), "", -2,
			"configuration file kubeadm.yaml: UpgradeConfiguration diff.contextLines: must not be "},
	} {
		t.Run(name, func(t *testing.T) {
			from := File{}
			if c.text != "" {
				from = fileOf(c.text)
			}
			u, lines, _, err := UpgradeDiff(from, c.flags)
			if u.Version != c.version || lines != c.lines || (err == nil) != (c.want == "") ||
				err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("version %q, %d lines: %v", u.Version, lines, err)
			}
		})
	}
}
