package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/crashlog"
	"kubeadm/internal/health"
	"kubeadm/internal/kubeletwatch"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/redact"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/upgrade"
)

// nodeChecks are the checks of what makes this machine a node.
func (m *machine) nodeChecks() []preflight.Check {
	if !m.isNode {
		return []preflight.Check{{Name: "Node",
			Run: func(_ context.Context, _ state.Reader, rep *preflight.Report) {
				rep.Skip("this machine is not a node of a cluster: %s does not exist",
					m.local.Paths.KubeletKubeconfig())
			}}}
	}
	list := []preflight.Check{
		{Name: "Kubelet", Run: m.checkKubelet,
			Why: "the kubelet starts all containers on this node and reports to the API server"},
		{Name: "KubeletConfig", Run: m.checkKubeletConfig,
			Why: "the kubelet does not start without its configuration, and it ignores unknown fields"},
		{Name: "KubeletCertificate", Run: m.checkKubeletCertificate,
			Why: "the API server rejects a kubelet without a valid client certificate, and the node becomes NotReady"},
		{Name: "Kubeconfigs", Run: m.checkKubeconfigs,
			Why: "a component or user cannot authenticate to the API server with the file"},
		{Name: "FilePermissions", Run: m.checkPermissions,
			Why: "anyone who can read a private key or kubeconfig has its owner's rights in the cluster"},
		{Name: "PodNetwork", Run: m.checkPodNetwork,
			Why: "without a Pod network the node stays NotReady, and Pods do not get addresses"},
		m.needsAPI("KubeletConfigDrift",
			"the next upgrade replaces the file with what is stored in the cluster", m.checkKubeletDrift),
	}
	if !m.isControlPlane() {
		return list
	}
	return append(list,
		preflight.Check{Name: "StaticPodManifest", Run: m.checkManifests,
			Why: "the kubelet runs the control plane from these files"},
		preflight.Check{Name: "StaticPods", Run: m.checkStaticPods,
			Why: "without this component the control plane of this node does not work"},
		preflight.Check{Name: "Certificates", Run: m.checkCertificates,
			Why: "components reject connections that use an invalid certificate"},
		preflight.Check{Name: "ServedCertificates", Run: m.checkServed,
			Why: "a component that uses an old certificate fails when it expires, even though the file is valid"},
		preflight.Check{Name: "ServiceAccountKeys", Run: m.checkServiceAccountKeys,
			Why: "the API server rejects Pods' tokens that were signed with another key"},
		m.needsAPI("ManifestDrift", "the next upgrade overwrites manual changes",
			m.checkManifestDrift))
}

// addError adds an error as finding; its hints are the remedy.
func addError(rep *preflight.Report, f preflight.Finding, err error) {
	f.Severity, f.Text = preflight.Error, err.Error()
	if f.Remedy == "" {
		f.Remedy = strings.Join(problem.Hints(err), "; ")
	}
	rep.Add(f)
}

const (
	// readLog is how much of the kubelet's log is read for a finding, as a stack trace is long, and
	// shownLines how many lines are shown if none says why the kubelet exited.
	readLog    = 256 << 10
	shownLines = 3
	// recentLog is how far back the kubelet's log is read for Pods that it cannot start.
	recentLog = 2 * time.Minute
)

func (m *machine) checkKubelet(ctx context.Context, r state.Reader, rep *preflight.Report) {
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
	if err := health.Kubelet(ctx, r, m.asNode(ctx)).Check(ctx, r); err != nil {
		f := preflight.Finding{Severity: preflight.Error, Text: "the kubelet is not healthy",
			Evidence: err.Error(), Remedy: "read its log: journalctl -xeu kubelet"}
		if argument := health.RejectedArgument(err); argument != "" {
			f.Remedy = fmt.Sprintf("remove %s from %s, and restart the kubelet", argument,
				m.local.Paths.KubeletFlags())
		}
		rep.Add(f)
	}
}

func (m *machine) checkKubeletConfig(ctx context.Context, r state.Reader, rep *preflight.Report) {
	file := m.local.Paths.KubeletConfig()
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

func (m *machine) checkKubeletCertificate(ctx context.Context, r state.Reader,
	rep *preflight.Report) {
	client, err := localkubelet.ReadClientCert(ctx, r, m.local.Paths)
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if client == nil {
		return // check Kubeconfigs reports it
	}
	cas, err := m.readCAs(ctx, r, "ca")
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
	if m.isControlPlane() {
		remedy, command = "renew it", "kubeadm certs renew kubelet.conf"
	}
	addError(rep, preflight.Finding{Remedy: remedy, Command: command,
		Evidence: client.Source()},
		fmt.Errorf("the client certificate of the kubelet: %w", err))
}

func (m *machine) checkPodNetwork(ctx context.Context, r state.Reader, rep *preflight.Report) {
	file, _, err := cniConfig(ctx, r)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	if file == "" {
		rep.Add(preflight.Finding{Severity: preflight.Warning, Text: "no Pod network is configured",
			Evidence: "there is no configuration file in " + node.CNIConfigDir,
			Remedy:   "install a Pod network add-on; if one is installed, it writes the file as soon as its Pod runs on this node"})
	}
}

// checkKubeletDrift compares the kubelet's configuration with that which an upgrade would write.
// Patches of this node are not known here.
func (m *machine) checkKubeletDrift(ctx context.Context, r state.Reader, rep *preflight.Report) {
	n, err := m.stored(ctx, r)
	if m.skipOnError(rep, err) {
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

// components are the static Pods that this control plane node has or should have.
func (m *machine) components(ctx context.Context) []string {
	return staticpod.Components(m.asNode(ctx))
}

func (m *machine) checkManifests(ctx context.Context, r state.Reader, rep *preflight.Report) {
	withFindings(upgrade.StaticPodManifests(m.local.Paths, m.components(ctx)),
		func(f preflight.Finding) (preflight.Finding, bool) {
			f.Remedy, f.Command = m.restoreManifests(ctx)
			return f, true
		}).Run(ctx, r, rep)
	if m.broken != nil {
		addError(rep, preflight.Finding{}, m.broken)
	}
}

// restoreManifests says how to restore the manifests that do not exist. That of etcd cannot be written
// again: init describes a cluster of one member.
func (m *machine) restoreManifests(ctx context.Context) (remedy, command string) {
	remedy = "restore them from a backup, such as those in " + m.local.Paths.Tmp()
	var missing []string
	for _, component := range m.components(ctx) {
		if !m.exists(ctx, m.local.Paths.Manifest(component)) {
			missing = append(missing, component)
		}
	}
	if slices.Contains(missing, manifest.Etcd) {
		return remedy + "; etcd's manifest can also be copied from another control plane node and adapted (names and addresses)", ""
	}
	if len(missing) != 1 || m.identity.Kubeconfig == "" {
		return remedy + ", or write each one again from the cluster's configuration: " +
			"kubeadm init phase control-plane COMPONENT --config FILE", ""
	}
	_, command = m.generateFile("control-plane " + strings.TrimPrefix(missing[0], "kube-"))
	return remedy + ", or write it again from the cluster's configuration, with --patches if patches are used", command
}

// checkStaticPods asks each component and, if it does not answer, its containers.
func (m *machine) checkStaticPods(ctx context.Context, r state.Reader, rep *preflight.Report) {
	if _, err := m.runtime(ctx, r); err != nil {
		rep.Skip("the container runtime does not answer: see check CRI")
		return
	}
	n := m.asNode(ctx)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, component := range m.components(ctx) {
		pod := m.pods[component]
		file := n.Paths.Manifest(component)
		if pod == nil {
			if m.exists(ctx, file) {
				mu.Lock()
				rep.Add(preflight.Finding{Severity: preflight.Error, Text: file + " is not a Pod",
					Remedy: "correct the file, or restore it from a backup in " + n.Paths.Tmp()})
				mu.Unlock()
			}
			continue
		}
		wg.Go(func() {
			err := m.checkStaticPod(ctx, r, component, pod)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				return
			}
			f := preflight.Finding{Severity: preflight.Error,
				Text: component + " is not running or not healthy", Evidence: err.Error(),
				Remedy: untrusted.CommandHint("read its log", "crictl --runtime-endpoint %s logs "+
					"$(crictl --runtime-endpoint %s ps -aq --name %s | head -1)", n.CRISocket, n.CRISocket, component)}
			if argument := health.RejectedArgument(err); argument != "" {
				f.Remedy = fmt.Sprintf("correct or remove %s in %s", argument, file)
			}
			rep.Add(f)
		})
	}
	wg.Wait()
}

func (m *machine) checkStaticPod(ctx context.Context, r state.Reader, component string,
	pod *corev1.Pod) error {
	condition, err := health.StaticPod{Component: component, Pod: pod, Anonymous: true,
		Matches: func(state.Container) bool { return true }}.Condition(m.asNode(ctx), checkLimit)
	if err != nil {
		return err
	}
	var kubelet kubeletwatch.Watch
	kubelet.Begin(r.Now().Add(-recentLog))
	return kubelet.AddCause(ctx, r, m.asNode(ctx).CRISocket, condition.Check(ctx, r))
}

// shownDiff is how many lines of a difference are shown.
const shownDiff = 8

// checkManifestDrift compares the manifests with those that kubeadm writes by what the cluster
// stores, as "upgrade diff" does. Patches of this node are not known here.
func (m *machine) checkManifestDrift(ctx context.Context, r state.Reader, rep *preflight.Report) {
	n, err := m.stored(ctx, r)
	if m.skipOnError(rep, err) {
		return
	}
	for _, component := range staticpod.Components(n) {
		made, found, err := staticpod.FindManualChange(ctx, m.env, n, n, component)
		if errors.Is(err, fs.ErrNotExist) || err == nil && found == nil {
			continue
		}
		if err != nil {
			rep.Skip("%v", err)
			continue
		}
		file := n.Paths.Manifest(component)
		clean, err := redact.Document(found)
		if err != nil {
			rep.Skip("%s: %v", file, err)
			continue
		}
		if made, err = redact.Document(made); err != nil {
			rep.Skip("%s: %v", file, err)
			continue
		}
		diff := upgrade.Diff(upgrade.Text{Name: "as kubeadm writes it", Content: string(made)},
			upgrade.Text{Name: file, Content: string(clean)}, 0)
		lines := strings.Split(strings.TrimSpace(diff), "\n")
		if len(lines) > shownDiff {
			lines = append(lines[:shownDiff], "...")
		}
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text:     file + " was changed manually or by patches",
			Evidence: strings.Join(lines, "\n"),
			Remedy: "move changes that you want to keep to the component's extraArgs, extraVolumes or extraEnvs " +
				"in ConfigMap kube-system/kubeadm-config, or to a patch file for --patches",
			Command: "kubeadm upgrade diff"})
	}
}
