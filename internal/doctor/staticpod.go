package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/health"
	"kubeadm/internal/kubeletwatch"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/redact"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/upgrade"
)

func checkManifests(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	withFindings(upgrade.StaticPodManifests(m.Paths, staticpod.Components(m.asNode())),
		func(f preflight.Finding) (preflight.Finding, bool) {
			f.Remedy, f.Command = restoreManifests(ctx, r, m)
			return f, true
		}).Run(ctx, r, rep)
	if m.Broken != nil {
		addError(rep, preflight.Finding{}, m.Broken)
	}
}

// restoreManifests says how to restore the manifests that do not exist. That of etcd cannot be written
// again: init describes a cluster of one member.
func restoreManifests(ctx context.Context, r state.Reader, m *machine) (remedy, command string) {
	remedy = "restore them from a backup, such as those in " + m.Paths.Tmp()
	var missing []string
	for _, component := range staticpod.Components(m.asNode()) {
		if !exists(ctx, r, m.Paths.Manifest(component)) {
			missing = append(missing, component)
		}
	}
	if slices.Contains(missing, manifest.Etcd) {
		return remedy + "; etcd's manifest can also be copied from another control plane node and adapted (names and addresses)", ""
	}
	if len(missing) != 1 || m.cluster.as.Kubeconfig == "" {
		return remedy + ", or write each one again from the cluster's configuration: " +
			"kubeadm init phase control-plane COMPONENT --config FILE", ""
	}
	_, command = generateFile(m, "control-plane "+strings.TrimPrefix(missing[0], "kube-"))
	return remedy + ", or write it again from the cluster's configuration, with --patches if patches are used", command
}

// checkStaticPods asks each component and, if it does not answer, its containers.
func checkStaticPods(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	if _, err := m.runtime(ctx, r); err != nil {
		rep.Skip("the container runtime is not responding: see check CRI")
		return
	}
	n := m.asNode()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, component := range staticpod.Components(n) {
		pod := m.Pods[component]
		file := n.Paths.Manifest(component)
		if pod == nil {
			if exists(ctx, r, file) {
				mu.Lock()
				rep.Add(preflight.Finding{Severity: preflight.Error, Text: file + " is not a Pod",
					Remedy: "correct the file, or restore it from a backup in " + n.Paths.Tmp()})
				mu.Unlock()
			}
			continue
		}
		wg.Go(func() {
			err := checkStaticPod(ctx, r, n, component, pod)
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

func checkStaticPod(ctx context.Context, r state.Reader, n *node.Node, component string,
	pod *corev1.Pod) error {
	condition, err := health.StaticPod{Component: component, Pod: pod, Anonymous: true,
		Matches: func(state.Container) bool { return true }}.Condition(n, checkLimit)
	if err != nil {
		return err
	}
	var kubelet kubeletwatch.Watch
	kubelet.Begin(r.Now().Add(-recentLog))
	return kubelet.AddCause(ctx, r, n.CRISocket, condition.Check(ctx, r))
}

// shownDiff is how many lines of a difference are shown.
const shownDiff = 8

// checkManifestDrift compares the manifests with those that kubeadm writes by what the cluster
// stores, as "upgrade diff" does. Patches of this node are not known here.
func checkManifestDrift(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	n, err := m.cluster.stored(ctx, r)
	if m.cluster.skipOnError(rep, err) {
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
