// Package etcddata replaces the data of this machine's etcd member: what the member is by its manifest
// (Member), how far a replacement of its data has come (Exchange), and the steps that all commands that
// replace the data share. docs/decisions/0069 has the order of the steps and the reasons.
package etcddata

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Member is the etcd member of this machine.
type Member struct {
	Name, PeerURL, ClientURL string
	DataDir                  string // on the machine; the container may have it elsewhere
	// Initial are the members that its manifest lists, this one included.
	Initial  []state.Member
	Manifest []byte
	Pod      *corev1.Pod
}

// ReadMember reads the manifest of this machine's etcd member; during an exchange, the previous one
// it.
func ReadMember(ctx context.Context, r state.Reader, p node.Paths) (Member, error) {
	file := p.Manifest(manifest.Etcd)
	x, err := Read(ctx, r, p)
	if err != nil {
		return Member{}, err
	}
	if x != nil {
		file = x.Manifest
	}
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil {
		return Member{}, err
	}
	if data == nil {
		return Member{}, problem.New(fmt.Errorf("this machine runs no etcd member: %s does not exist", file),
			"run the command on a control plane node with etcd; an external etcd is not managed by kubeadm")
	}
	m, err := parseMember(data)
	if err != nil {
		return m, problem.During("reading "+file, err, "restore the file from a backup in "+p.Tmp())
	}
	return m, nil
}

func parseMember(data []byte) (Member, error) {
	m := Member{Manifest: data, Pod: &corev1.Pod{}}
	if err := yaml.Unmarshal(data, m.Pod); err != nil {
		return m, err
	}
	m.Name, m.DataDir = manifest.ArgumentValue(m.Pod, "name"), manifest.ArgumentValue(m.Pod, "data-dir")
	m.PeerURL = manifest.ArgumentValue(m.Pod, "initial-advertise-peer-urls")
	m.ClientURL = manifest.ArgumentValue(m.Pod, "advertise-client-urls")
	for _, name := range []string{"data-dir", "name", "initial-advertise-peer-urls", "advertise-client-urls"} {
		switch value := manifest.ArgumentValue(m.Pod, name); {
		case value == "":
			return m, fmt.Errorf("it does not set --%s", name)
		case strings.Contains(value, ",") && name != "data-dir":
			return m, problem.New(fmt.Errorf("--%s=%s has several values", name, value),
				"set one value; kubeadm tells members apart by it")
		}
	}
	inContainer := m.DataDir
	var mounted bool
	if m.DataDir, mounted = manifest.HostPath(m.Pod, inContainer); !mounted {
		return m, fmt.Errorf("--data-dir=%s is not in a directory of this machine that is mounted", inContainer)
	}
	if !path.IsAbs(m.DataDir) || path.Clean(m.DataDir) == "/" {
		return m, fmt.Errorf("the data directory %s is not the absolute path of a directory", m.DataDir)
	}
	if dir := manifest.ArgumentValue(m.Pod, "wal-dir"); dir != "" {
		return m, problem.New(fmt.Errorf("--wal-dir=%s keeps a part of the data elsewhere", dir),
			"move the directory to "+m.MemberDir()+"/wal and remove the argument from etcd.local.extraArgs")
	}
	for one := range strings.SplitSeq(manifest.ArgumentValue(m.Pod, "initial-cluster"), ",") {
		if name, url, ok := strings.Cut(one, "="); ok {
			m.Initial = append(m.Initial, state.Member{Name: name, PeerURLs: []string{url}})
		}
	}
	return m, nil
}

// MemberDir is the directory with all data of the member. Only it is replaced: the data directory may be
// a mount, a link, or have other contents.
func (m Member) MemberDir() string { return path.Join(m.DataDir, "member") }

// ManifestWith returns the manifest with other members in --initial-cluster, and with
// --initial-cluster-state=existing: with it, an etcd that finds no data never starts a new, empty
// cluster. All else stays as it is.
func (m Member) ManifestWith(members []state.Member) ([]byte, error) {
	var list []string
	for _, one := range members {
		name := one.Name
		if slices.Contains(one.PeerURLs, m.PeerURL) {
			name = m.Name
		}
		for _, url := range one.PeerURLs {
			list = append(list, fmt.Sprintf("%s=%s", orID(name, one.ID), url))
		}
	}
	return m.edit(map[string]string{"initial-cluster": strings.Join(list, ","),
		"initial-cluster-state": "existing", forceFlag: ""})
}

// ManifestAlone is ManifestWith this member alone.
func (m Member) ManifestAlone() ([]byte, error) {
	return m.ManifestWith([]state.Member{{Name: m.Name, PeerURLs: []string{m.PeerURL}}})
}

// forceFlag makes etcd forget all other members at each start.
const forceFlag = "force-new-cluster"

// IsForced reports whether the manifest has --force-new-cluster.
func (m Member) IsForced() bool {
	forced, err := strconv.ParseBool(manifest.ArgumentValue(m.Pod, forceFlag))
	return err == nil && forced
}

// IsForced reports whether the manifest of this machine's member that is in use, also during an exchange,
// has --force-new-cluster.
func IsForced(ctx context.Context, r state.Reader, p node.Paths) (bool, error) {
	file := p.Manifest(manifest.Etcd)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return false, err
	}
	m, err := parseMember(data)
	if err != nil {
		return false, problem.During("reading "+file, err, "restore the file from a backup in "+p.Tmp())
	}
	return m.IsForced(), nil
}

// owner returns the user and group as which the Pod runs etcd; ok is false for root.
func (m Member) owner() (uid, gid int, ok bool) {
	set := func(user, group *int64) {
		if user != nil {
			uid, gid = int(*user), int(*user)
		}
		if group != nil {
			gid = int(*group)
		}
	}
	if s := m.Pod.Spec.SecurityContext; s != nil {
		set(s.RunAsUser, s.RunAsGroup)
	}
	if c, err := manifest.ComponentContainer(m.Pod, manifest.Etcd); err == nil && c.SecurityContext != nil {
		set(c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup)
	}
	return uid, gid, uid != 0
}

// CheckReplaceable returns an error if the data cannot be renamed, because they are a mount point, or
// contain one.
func (m Member) CheckReplaceable(ctx context.Context, r state.Reader) error {
	mounts, err := r.Mounts(ctx, m.MemberDir())
	if err != nil || len(mounts) == 0 {
		return err
	}
	return problem.New(fmt.Errorf("%s is a mount point, so the data cannot be kept beside the new ones", mounts[0]),
		"mount the file system at "+m.DataDir+" instead")
}

// ManifestForced returns the manifest with --force-new-cluster.
func (m Member) ManifestForced() ([]byte, error) { return m.edit(map[string]string{forceFlag: "true"}) }

func orID(name string, id uint64) string {
	if name == "" {
		return fmt.Sprintf("%x", id)
	}
	return name
}

// edit sets arguments of etcd, or removes those with an empty value. New ones follow the one before them in
// the alphabet, where the manifests of kubeadm have them.
func (m Member) edit(values map[string]string) ([]byte, error) {
	pod := m.Pod.DeepCopy()
	c, err := manifest.ComponentContainer(pod, manifest.Etcd)
	if err != nil {
		c = &pod.Spec.Containers[0]
	}
	args := &c.Command
	if len(c.Args) > 0 {
		args = &c.Args
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		text := "--" + name + "=" + value
		if value == "" {
			*args = slices.DeleteFunc(*args, func(a string) bool {
				return a == "--"+name || strings.HasPrefix(a, "--"+name+"=")
			})
			continue
		}
		if at := slices.IndexFunc(*args, func(a string) bool {
			return strings.HasPrefix(a, "--"+name+"=")
		}); at >= 0 {
			(*args)[at] = text
			continue
		}
		at := slices.IndexFunc(*args, func(a string) bool {
			flag, _, _ := strings.Cut(a, "=")
			return strings.HasPrefix(flag, "--") && flag > "--"+name
		})
		if at < 0 {
			at = len(*args)
		}
		*args = slices.Insert(*args, at, text)
	}
	return yaml.Marshal(pod)
}

// ClientURLsLike are the client URLs of another member: those that it has published or, of one of which
// only the peer URLs are known, those with the port of this one.
func (m Member) ClientURLsLike(other state.Member) []string {
	if len(other.ClientURLs) > 0 {
		return other.ClientURLs
	}
	return etcdcluster.ClientURLsLike(m.ClientURL, other.PeerURLs...)
}

// PeerURLAt is the peer URL of a member at another host that uses the same ports as this one.
func (m Member) PeerURLAt(host string) string {
	u, err := url.Parse(m.PeerURL)
	if err != nil {
		return ""
	}
	u.Host = net.JoinHostPort(host, u.Port())
	return u.String()
}
