package preflight

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/state"
)

// ArgumentFile is a file of the user that an argument of a control plane component names. It must be the
// same on each control plane node.
type ArgumentFile struct {
	Path     string `json:"path"`     // on the machine
	Argument string `json:"argument"` // as "kube-apiserver --audit-policy-file"
	SHA256   string `json:"sha256"`   // empty if the file was not read
	// IsReread is set if the running component reads the file again when it changes.
	IsReread bool `json:"-"`
}

// Component is the component that reads the file.
func (f ArgumentFile) Component() string {
	component, _, _ := strings.Cut(f.Argument, " ")
	return component
}

// SameArgumentFiles is the check that such files are those of another node.
func SameArgumentFiles(n *node.Node, other string, others []ArgumentFile) Check {
	return Check{Name: componentFile,
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			own, err := ReadArgumentFiles(ctx, r, n)
			if err != nil {
				rep.FailWith(err)
			}
			for _, f := range own {
				if slices.ContainsFunc(others, func(o ArgumentFile) bool { return o.Path == f.Path && o.SHA256 != f.SHA256 }) {
					rep.Warn("make it the same on each control plane node, and restart "+f.Component(),
						"%s (%s) is not as it was on node %s when the configuration was changed there", f.Path, f.Argument, other)
				}
			}
		}}
}

// ReadArgumentFiles returns the files that exist on this control plane node; a check reports others.
func ReadArgumentFiles(ctx context.Context, r state.Reader, n *node.Node) (all []ArgumentFile, err error) {
	named, err := listArgumentFiles(n)
	if err != nil {
		return nil, err
	}
	for _, f := range named {
		if isCreated(n, f.Path) {
			continue
		}
		data, err := state.ReadOptional(ctx, r, f.Path)
		if err != nil {
			return nil, err
		}
		if data != nil {
			f.SHA256 = fmt.Sprintf("%x", sha256.Sum256(data))
			all = append(all, f)
		}
	}
	return all, nil
}

// UploadedFiles returns the files that control plane nodes upload for others, whether they exist or not,
// each path once: those that arguments name, but for files that kubeadm creates or that the operating
// system has, and those in the directory of static Pods.
func UploadedFiles(n *node.Node) (all []ArgumentFile, err error) {
	named, err := listArgumentFiles(n)
	if err != nil {
		return nil, err
	}
	local := n.Local
	local.Role = node.ControlPlane // also where only the configuration of the cluster is known
	created := append(phaseindex.Files(local, false), phaseindex.Files(local, true)...)
	excluded := append(manifest.CADirs(), "/etc/ssl/certs", n.Paths.Manifests())
	for _, f := range named {
		isOther := path.IsAbs(f.Path) &&
			!slices.ContainsFunc(created, func(c phaseindex.File) bool { return c.Path == f.Path }) &&
			!slices.ContainsFunc(excluded, func(dir string) bool { return isAtOrBelow(f.Path, dir) }) &&
			!slices.ContainsFunc(all, func(o ArgumentFile) bool { return o.Path == f.Path })
		if isOther {
			all = append(all, f)
		}
	}
	return all, nil
}

// DownloadedFiles returns the checks that the files of UploadedFiles exist, but for those that are about to
// be written.
func DownloadedFiles(files []ArgumentFile, written map[string]bool, remedy string) (list []Check) {
	for _, f := range files {
		if written[f.Path] {
			continue
		}
		list = append(list, Check{Name: componentFile, Run: func(ctx context.Context, r state.Reader, rep *Report) {
			switch exists, err := state.Exists(ctx, r, f.Path); {
			case err != nil:
				rep.FailWith(err)
			case !exists:
				rep.Fail(remedy, "%s (%s) does not exist, and no control plane node has uploaded it", f.Path, f.Argument)
			}
		}})
	}
	return list
}

// listArgumentFiles returns the files by their paths on the machine, whether they exist or not. Files that
// are not mounted have a check of their own.
func listArgumentFiles(n *node.Node) (all []ArgumentFile, err error) {
	for _, s := range sectionsOf(n) {
		for _, flag := range s.fileFlags {
			name, given := node.LastArg(s.user.Args, flag)
			if !given || name == "" {
				continue
			}
			onHost, mounted, err := s.hostPath(n, name)
			if err != nil {
				return nil, err
			}
			if mounted {
				all = append(all, ArgumentFile{Path: onHost, Argument: s.component + " --" + flag, IsReread: s.isReread(flag, name)})
			}
		}
	}
	return all, nil
}

// isReread reports whether the component reads the file of an argument again when that changes. A file that is mounted by
// itself stays the previous one in a running container, as it is replaced by a rename.
func (s section) isReread(flag, name string) bool {
	isMount := func(v node.Volume) bool { return path.Clean(v.MountPath) == path.Clean(name) }
	if slices.ContainsFunc(s.user.Volumes, isMount) {
		return false
	}
	switch flag {
	case "authentication-config", "authorization-config":
		return true
	case "encryption-provider-config":
		value, _ := node.LastArg(s.user.Args, "encryption-provider-config-automatic-reload")
		isOn, err := strconv.ParseBool(value)
		return err == nil && isOn
	}
	return false
}

// isDownloaded reports whether a path is that of a downloaded file, or of a directory that is created for it.
func isDownloaded(downloaded []ArgumentFile, file string) bool {
	return slices.ContainsFunc(downloaded, func(f ArgumentFile) bool { return isAtOrBelow(f.Path, path.Clean(file)) })
}

func isAtOrBelow(file, dir string) bool {
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}
