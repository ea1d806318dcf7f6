package reset

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// Cleanup stops the kubelet and removes containers, mounts and files.
var Cleanup = engine.Phase{
	Name:    "cleanup-node",
	Aliases: []string{"cleanupnode"},
	Short:   "Stop the kubelet and remove containers, mounts and files",
	Long:    "Stop the kubelet, remove all Kubernetes containers, unmount Pod volumes and remove what init and join wrote. With --clean, also remove what CNI plugins, kube-proxy and users left behind.",
	Flags:   []flag.Name{flag.CertDir, flag.Clean, flag.CleanupTmpDir, flag.CRISocket, flag.DryRun},
	Run: func(ctx context.Context, e *engine.Env) error {
		e.Say("stopping the kubelet")
		warnOnError(e, e.Do(ctx, change.SetService{Name: localkubelet.Service}),
			"stop the kubelet manually: "+e.Local.Platform.ServiceCommand("stop", "kubelet"))
		podNetworks := findPodNetworks(ctx, e)
		e.Say("removing Kubernetes containers")
		warnOnError(e, e.Do(ctx, change.RemoveContainers{Socket: e.Local.CRISocket}),
			"remove them manually: crictl rmp -fa")
		dir := e.Local.Paths.Kubelet
		if _, err := e.World.Stat(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
			e.Say("unmounting all mounts below %q", dir)
			if err := e.Do(ctx,
				change.Unmount{Dir: dir, Flags: intentOf(e).UnmountFlags}); err != nil {
				return err // removing files below a mount would destroy the files of others
			}
		}
		if err := removeKubeletRoot(ctx, e, findKubeletRoot(ctx, e)); err != nil {
			return err
		}
		if intentOf(e).Cleans(node.CleanKubeconfig) {
			removeUserKubeconfigs(ctx, e) // while the cluster's CA is here to compare with
		}
		if err := removeFiles(ctx, e); err != nil {
			return err
		}
		clean(ctx, e, podNetworks)
		return context.Cause(ctx) // an interrupted reset has not finished
	},
}

func removeFiles(ctx context.Context, e *engine.Env) error {
	p := e.Local.Paths
	if d := e.Local.Platform.Paths().Certificates; p.Certificates != d {
		e.Warn("certificates are removed from %s, not from %s: check that this is where all of them are",
			p.Certificates, d)
	}
	named := findArgumentFiles(ctx, e)
	dirs := []string{p.Manifests(), p.Kubelet, p.Certificates}
	if intentOf(e).CleanupTmpDir {
		dirs = append(dirs, p.Tmp())
	}
	e.Say("removing the contents of %v", dirs)
	for _, dir := range dirs {
		warnOnError(e, e.Do(ctx, change.Remove{Path: dir, Contents: true}), "remove them manually")
	}
	var gone []string
	for _, f := range []string{"admin.conf", "super-admin.conf", "kubelet.conf",
		"bootstrap-kubelet.conf", "controller-manager.conf", "scheduler.conf"} {
		gone = append(gone, p.Kubeconfig(f))
	}
	e.Say("removing the files %v", gone)
	for _, f := range append(gone, findPending(ctx, e, gone)...) {
		warnOnError(e, e.Do(ctx, change.Remove{Path: f}), "remove it manually")
	}
	for _, f := range named {
		if info, err := e.World.Stat(ctx, f); err == nil && info.Mode.IsRegular() {
			e.Note(fileLeft + f)
		}
	}
	accounts := manifest.SystemAccounts()
	accounts.Absent = true
	warnOnError(e, e.Do(ctx, accounts), "remove them manually: userdel, groupdel")
	return e.Do(ctx, change.Remove{Path: p.Tmp(), OnlyEmpty: true})
}

// findArgumentFiles finds the files that arguments of the static Pods on this machine name through volumes of the
// machine, but for CAs of the operating system. A manifest that cannot be read names none.
func findArgumentFiles(ctx context.Context, e *engine.Env) (files []string) {
	excluded := append(manifest.CADirs(), "/etc/ssl/certs")
	for _, component := range append(manifest.Components(), manifest.Etcd) {
		pod, err := staticpod.Read(ctx, e, &node.Node{Local: e.Local}, component)
		if err != nil {
			continue
		}
		c, err := manifest.ComponentContainer(pod, pod.Name)
		if err != nil {
			continue
		}
		for _, arg := range slices.Concat(c.Command, c.Args) {
			_, value, _ := strings.Cut(arg, "=")
			file, mounted := manifest.HostPath(pod, value)
			if mounted && !slices.ContainsFunc(excluded, func(dir string) bool { return strings.HasPrefix(file, dir+"/") }) {
				files = append(files, file)
			}
		}
	}
	return files
}

// findPending finds the unfinished files of a killed run.
func findPending(ctx context.Context, e *engine.Env, files []string) (left []string) {
	inside, err := e.World.ReadDir(ctx, e.Local.Paths.Kubeconfigs)
	if err != nil {
		return nil
	}
	for _, f := range inside {
		if slices.ContainsFunc(files,
			func(whole string) bool {
				return change.IsTemporaryName(path.Base(whole),
					path.Base(f.Path))
			}) {
			left = append(left, f.Path)
		}
	}
	return left
}

// warnOnError turns an error into a warning.
func warnOnError(e *engine.Env, err error, remedy string) {
	switch {
	case errors.Is(err, change.ErrSystemDirectory):
		e.Warn("%v: nothing was removed there", err)
	case err != nil:
		e.Warn("%v; %s", err, remedy)
	}
}

// ClosingText returns the closing text of a reset, which names what was not removed.
func ClosingText(e *engine.Env) string {
	stays := []struct {
		removed bool
		text    string
	}{
		{intentOf(e).Cleans(node.CleanCNI), "the CNI configuration in /etc/cni/net.d"},
		{intentOf(e).Cleans(node.CleanInterfaces), "network interfaces of the Pod network"},
		{intentOf(e).Cleans(node.CleanRules) && !e.IsNoted(rulesLeft), "packet filter rules (iptables, nftables, IPVS) of kube-proxy and the Pod network"},
		{intentOf(e).Cleans(node.CleanKubeconfig), "kubeconfig files of users, such as $HOME/.kube/config"},
		{intentOf(e).LeaveCluster && !e.IsNoted(nodeLeft), "this machine's Node object, if the cluster still exists: kubectl delete node <name>"},
	}
	var lines []string
	for _, s := range stays {
		if !s.removed {
			lines = append(lines, "  - "+s.text)
		}
	}
	if files := e.ListNoted(fileLeft); len(files) > 0 {
		text := "  - files referenced by component arguments, and copies beside them (.kubeadm-…), which may contain secrets:"
		for _, f := range files {
			text += "\n    " + untrusted.Line(f)
		}
		lines = append(lines, text)
	}
	text := "\nEverything that init or join created on this machine was removed."
	if len(lines) > 0 {
		text += " These were not removed:\n" + strings.Join(lines, "\n")
	}
	return text + "\nFor more, see https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-reset/.\n"
}
