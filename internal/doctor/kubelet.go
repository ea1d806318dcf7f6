package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/crashlog"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

const (
	// readLog is how much of the kubelet's log is read for a finding, as a stack trace is long, and
	// shownLines how many lines are shown if none says why the kubelet exited.
	readLog    = 256 << 10
	shownLines = 3
	// recentLog is how far back the kubelet's log is read for Pods that it cannot start.
	recentLog = 2 * time.Minute
)

func checkKubelet(ctx context.Context, r state.Reader, rep *preflight.Report, n *node.Node) {
	s, err := r.Service(ctx, localkubelet.Service)
	if err == nil && s.Exists && !s.Active {
		f := preflight.Finding{Severity: preflight.Error, Text: "the kubelet is not running",
			Remedy:  "start it; if it stops again, find out why: journalctl -xeu kubelet",
			Command: "systemctl start kubelet",
			Changes: []change.Change{change.SetService{Name: localkubelet.Service, Active: true}}}
		if log, err := r.ServiceLog(ctx, localkubelet.Service, s.LastExit.Started, readLog); err == nil {
			f.Evidence = crashlog.Cause(log, shownLines)
		}
		rep.Add(f)
		return
	}
	if err := health.Kubelet(ctx, r, n).Check(ctx, r); err != nil {
		f := preflight.Finding{Severity: preflight.Error, Text: "the kubelet is not healthy",
			Evidence: err.Error(), Remedy: "read its log: journalctl -xeu kubelet"}
		if argument := health.RejectedArgument(err); argument != "" {
			f.Remedy = fmt.Sprintf("remove %s from %s, and restart the kubelet", argument,
				n.Paths.KubeletFlags())
		}
		rep.Add(f)
	}
}

func checkKubeletConfig(ctx context.Context, r state.Reader, rep *preflight.Report, file string) {
	data, err := state.ReadRequired(ctx, r, file)
	if err == nil {
		if err = yaml.Unmarshal(data, &kubeletconfig.KubeletConfiguration{}); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if err != nil {
		command := "kubeadm upgrade node phase kubelet-config"
		addError(rep, preflight.Finding{Command: command,
			Remedy: "fix the file, or write it again from what is stored in the cluster: " + command}, err)
		return
	}
	// The kubelet logs an unknown field and ignores it.
	if err := yaml.UnmarshalStrict(data, &kubeletconfig.KubeletConfiguration{}); err != nil {
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text: file + " has a field that kubeadm does not know", Evidence: err.Error(),
			Remedy: "correct its name, unless a newer kubelet has that field"})
	}
}

func checkKubeletCertificate(ctx context.Context, r state.Reader, rep *preflight.Report,
	local node.Local) {
	client, err := localkubelet.ReadClientCert(ctx, r, local.Paths)
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if client == nil {
		return // check Kubeconfigs reports it
	}
	cas, err := readCAs(ctx, r, local.Paths.Cert("ca"))
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	for _, ca := range cas { // two during a rotation of the CA
		if err = client.Check(ca, r.Now()); err == nil {
			return
		}
	}
	remedy, command := "renew it with a new token: kubeadm certs renew kubelet.conf --token TOKEN", ""
	if local.Role == node.ControlPlane {
		remedy, command = "renew it", "kubeadm certs renew kubelet.conf"
	}
	addError(rep, preflight.Finding{Remedy: remedy, Command: command,
		Evidence: client.Source()},
		fmt.Errorf("the client certificate of the kubelet: %w", err))
}

// checkKubeletDrift compares the kubelet's configuration with that which an upgrade would write.
// Patches of this node are not known here.
func checkKubeletDrift(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	n, err := c.stored(ctx, r)
	if c.skipOnError(rep, err) {
		return
	}
	file := n.Paths.KubeletConfig()
	found, err := r.ReadFile(ctx, file)
	if err != nil {
		return // check KubeletConfig reports it
	}
	host, err := manifestinput.ReadHost(ctx, r, n)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	if host.KubeletInstance, err = state.ReadOptional(ctx, r, n.Paths.KubeletInstanceConfig()); err != nil {
		rep.Skip("%v", err)
		return
	}
	made, _, err := manifest.KubeletConfigFile(n, host, manifest.Patches{})
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	if fields := differentFields(found, made); len(fields) > 0 {
		const command = "kubeadm upgrade node phase kubelet-config"
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text:     file + " differs from what is stored in the cluster: it was changed manually or by patches",
			Evidence: "fields that differ: " + strings.Join(fields, ", "),
			Remedy: "move changes that you want to keep to ConfigMap kube-system/kubelet-config or a patch file; " +
				"to write the file again: " + command + ", with --patches if patches are used"})
	}
}

// differentFields returns the names of the top fields in which two kubelet configurations differ.
func differentFields(a, b []byte) []string {
	parse := func(data []byte) map[string]any {
		var config kubeletconfig.KubeletConfiguration
		fields := map[string]any{}
		if yaml.Unmarshal(data, &config) == nil {
			text, _ := json.Marshal(config) // a struct that was just decoded
			_ = json.Unmarshal(text, &fields)
		}
		return fields
	}
	first, second := parse(a), parse(b)
	var names []string
	for name := range maps.Keys(first) {
		if !reflect.DeepEqual(first[name], second[name]) {
			names = append(names, name)
		}
	}
	for name := range maps.Keys(second) {
		if _, ok := first[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
