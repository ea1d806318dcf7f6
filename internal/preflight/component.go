package preflight

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// section is a component's part of the ClusterConfiguration.
type section struct {
	component, field string
	user             node.Component
	// flags that name a file of the user's: the component exits if it cannot read the file
	fileFlags []string
	remedy    string // for a file that does not exist
}

const componentFile = "ComponentFile"

// createFile is the remedy for a file that does not exist. Others are appended.
const createFile = "create it on every control plane node"

// newComponentChecks returns the checks of what the user sets for control plane components. The
// files in arguments and volumes must exist on this machine and be mounted in the component's
// container, no component may be kept from running, and the users of a rootless control plane must
// not exist, or be as init creates them. The files that the command downloads need not exist yet.
// The remedy is for others.
func newComponentChecks(n *node.Node, downloaded []ArgumentFile, remedy string) (list []Check) {
	for _, s := range sectionsOf(n) {
		s.remedy = remedy
		for _, flag := range s.fileFlags {
			if path, given := node.LastArg(s.user.Args, flag); given && path != "" {
				list = append(list, s.newArgumentCheck(n, flag, path, downloaded))
			}
		}
		for _, v := range s.user.Volumes {
			switch v.PathType {
			case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate,
				corev1.HostPathFileOrCreate:
				continue // the kubelet does not need the path, or creates it
			}
			if isCreated(n, v.HostPath) || isDownloaded(downloaded, v.HostPath) {
				continue
			}
			list = append(list, Check{Name: componentFile,
				Run: func(ctx context.Context, r state.Reader, rep *Report) {
					origin := s.field + ".extraVolumes, volume " + v.Name + " of type " +
						string(v.PathType)
					s.checkExists(ctx, r, rep, v.HostPath, origin)
				}})
		}
	}
	list = append(list, newObstacleChecks(n)...)
	if manifest.IsRootless(n) {
		list = append(list, Check{Name: "RootlessAccounts",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				if _, err := manifest.SystemAccounts().Done(ctx, r); err != nil {
					rep.FailWith(err)
				}
			}})
	}
	return list
}

// sectionsOf returns the sections of the components that may read files of the user.
func sectionsOf(n *node.Node) []section {
	return []section{
		{component: release.APIServer, field: "apiServer", user: n.Cluster.APIServer, fileFlags: []string{
			"admission-control-config-file", "audit-policy-file", "audit-webhook-config-file",
			"authentication-config", "authentication-token-webhook-config-file",
			"authorization-config", "authorization-policy-file",
			"authorization-webhook-config-file", "egress-selector-config-file",
			"encryption-provider-config", "kubelet-certificate-authority", "oidc-ca-file",
			"token-auth-file", "tracing-config-file",
		}},
		{component: release.ControllerManager, field: "controllerManager", user: n.Cluster.ControllerManager,
			fileFlags: []string{"cloud-config"}},
		{component: release.Scheduler, field: "scheduler", user: n.Cluster.Scheduler, fileFlags: []string{"config"}},
	}
}

func (s section) newArgumentCheck(n *node.Node, flag, path string, downloaded []ArgumentFile) Check {
	return Check{Name: componentFile, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		onHost, mounted, err := s.hostPath(n, path)
		switch {
		case err != nil:
			rep.FailWith(err)
		case !mounted && n.Patches != "":
			rep.Warn("check that a patch mounts it",
				"%s has --%s=%s, but %s.extraVolumes does not mount that path", s.component, flag,
				path, s.field)
		case !mounted:
			rep.Fail("mount the file, or its directory, there",
				"%s has --%s=%s, but %s.extraVolumes does not mount that path", s.component, flag,
				path, s.field)
		case !isCreated(n, onHost) && !isDownloaded(downloaded, onHost):
			s.checkExists(ctx, r, rep, onHost, "--"+flag+"="+path)
		}
	}}
}

// checkExists fails if the path does not exist on this machine.
func (s section) checkExists(ctx context.Context, r state.Reader, rep *Report, path,
	origin string) {
	switch _, err := r.Stat(ctx, path); {
	case errors.Is(err, fs.ErrNotExist):
		rep.Fail(s.remedy, "%s needs %s, which does not exist (%s)",
			s.component, path, origin)
	case err != nil:
		rep.Fail("check that it can be read", "%s needs %s (%s): %v", s.component, path, origin,
			err)
	}
}

// isCreated reports whether init or join creates a file, or a directory of files, before it starts
// the components.
func isCreated(n *node.Node, path string) bool {
	if n.Cluster.Backup != nil && n.Cluster.Backup.Encryption == path {
		return true
	}
	downloads := !n.IsJoining() || n.CertificateKey != ""
	local, _ := node.HasLocalEtcd(n)
	return slices.ContainsFunc(phaseindex.Files(n.Local, n.IsJoining()),
		func(f phaseindex.File) bool {
			return (downloads || !f.Shared) && (local || !f.LocalEtcd) && (f.Path == path ||
				strings.HasPrefix(f.Path, strings.TrimSuffix(path, "/")+"/"))
		})
}

// hostPath returns the path on this machine of a path in the component's container.
func (s section) hostPath(n *node.Node, path string) (onHost string, mounted bool, err error) {
	pod, err := manifest.StaticPod(s.component, n, manifest.Host{CADirs: manifest.CADirs()})
	if err != nil {
		return "", false, err
	}
	onHost, mounted = manifest.HostPath(pod, path)
	return onHost, mounted, nil
}

// newObstacleChecks returns the checks of arguments, volumes and addresses with which a component
// of this control plane would not run. Only commands that start components run them, as
// certificates and kubeconfigs can be generated with such a configuration too.
func newObstacleChecks(n *node.Node) (list []Check) {
	find := Query[[]manifest.ComponentProblem](
		func(ctx context.Context, r state.Reader) ([]manifest.ComponentProblem, error) {
			var host manifest.Host
			for _, dir := range manifest.CADirs() {
				if _, err := r.Stat(ctx, dir); err == nil {
					host.CADirs = append(host.CADirs, dir)
				}
			}
			return manifest.FindComponentProblems(n, host)
		}).Cached()
	run := func(ctx context.Context, r state.Reader, rep *Report) {
		// Errors in building the Pods have checks of their own.
		if found, err := find(ctx, r); err == nil {
			rep.AddComponentProblems(found)
		}
	}
	for _, name := range []string{
		manifest.ComponentArgs, manifest.ComponentVolumes, manifest.IPFamilies,
	} {
		list = append(list, Check{Name: name, Run: run})
	}
	return list
}

// AddComponentProblems adds those problems that the report's check reports.
func (r *Report) AddComponentProblems(list []manifest.ComponentProblem) {
	for _, o := range list {
		switch {
		case o.Check != r.check:
		case o.Fatal:
			r.Fail(o.Hint, "%s: %s", o.Field, o.Text)
		default:
			r.Warn(o.Hint, "%s: %s", o.Field, o.Text)
		}
	}
}
