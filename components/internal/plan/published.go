package plan

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/download"
	"kubeadm/components/internal/pins"
)

// Published names the servers from which the programs of a bundle are downloaded.
type Published struct {
	Client     *download.Client
	Kubernetes string // base URL of Kubernetes releases: DefaultKubernetesURL or a mirror
	GitHub     string // base URL of other projects' releases: DefaultGitHubURL or a mirror
}

// The servers on which the projects publish their releases.
const (
	DefaultKubernetesURL = "https://dl.k8s.io"
	DefaultGitHubURL     = "https://github.com"
)

// publishedRelease is one project's release, in the pinned version.
type publishedRelease struct {
	name, version string
	files         []releaseFile
}

// releaseFile is a program, or an archive that contains programs.
type releaseFile struct {
	download.File
	program string            // name of the program; empty for an archive
	members map[string]string // path in an archive to the name of the program
}

// kubernetesPrograms are the programs of a Kubernetes release that nodes and images need, with
// their names in the bundle. kubeadm gets another name than ours.
func kubernetesPrograms() map[string]string {
	return map[string]string{
		"kubelet": "kubelet", "kubectl": "kubectl", "kubeadm": "kubeadm-upstream",
		"kube-apiserver": "kube-apiserver", "kube-controller-manager": "kube-controller-manager",
		"kube-scheduler": "kube-scheduler", "kube-proxy": "kube-proxy",
	}
}

// cniPlugins are the CNI plugins of the bundle.
func cniPlugins() []string {
	return []string{"bandwidth", "bridge", "dummy", "firewall", "host-device", "host-local",
		"loopback", "portmap", "ptp", "static", "tuning"}
}

// publishedReleases are all releases of a bundle. Each project has its own naming of files.
func (p *Plan) publishedReleases() ([]publishedRelease, error) {
	github := func(project, version, file, checksums string) download.File {
		base := p.published.GitHub + "/" + project + "/releases/download/" + version + "/"
		return download.File{URL: base + file, Checksums: base + checksums}
	}
	kubernetes := publishedRelease{name: "kubernetes", version: p.release.Version}
	for remote, local := range kubernetesPrograms() {
		url := fmt.Sprintf("%s/release/%s/bin/linux/%s/%s",
			p.published.Kubernetes, p.release.Version, arch, remote)
		file := download.File{URL: url, Checksums: url + ".sha256"}
		kubernetes.files = append(kubernetes.files, releaseFile{File: file, program: local})
	}
	top := fmt.Sprintf("etcd-%s-linux-%s", p.release.Etcd, arch)
	etcd := releaseFile{
		File:    github("etcd-io/etcd", p.release.Etcd, top+".tar.gz", "SHA256SUMS"),
		members: map[string]string{top + "/etcd": "etcd", top + "/etcdctl": "etcdctl"},
	}
	all := []publishedRelease{
		kubernetes,
		{name: "etcd", version: p.release.Etcd, files: []releaseFile{etcd}},
	}

	tools := []struct {
		name, module string
		file         func(version string) releaseFile
	}{
		{"containerd", "github.com/containerd/containerd/v2", func(v string) releaseFile {
			name := fmt.Sprintf("containerd-static-%s-linux-%s.tar.gz", strings.TrimPrefix(v, "v"), arch)
			return releaseFile{
				File: github("containerd/containerd", v, name, name+".sha256sum"),
				members: map[string]string{
					"bin/containerd": "containerd", "bin/ctr": "ctr",
					"bin/containerd-shim-runc-v2": "containerd-shim-runc-v2",
				},
			}
		}},
		{"runc", "github.com/opencontainers/runc", func(v string) releaseFile {
			file := github("opencontainers/runc", v, "runc."+arch, "runc.sha256sum")
			return releaseFile{File: file, program: "runc"}
		}},
		{"coredns", "github.com/coredns/coredns", func(v string) releaseFile {
			name := fmt.Sprintf("coredns_%s_linux_%s.tgz", strings.TrimPrefix(v, "v"), arch)
			return releaseFile{
				File:    github("coredns/coredns", v, name, name+".sha256"),
				members: map[string]string{"coredns": "coredns"},
			}
		}},
		{"cni", "github.com/containernetworking/plugins", func(v string) releaseFile {
			name := fmt.Sprintf("cni-plugins-linux-%s-%s.tgz", arch, v)
			file := releaseFile{
				File:    github("containernetworking/plugins", v, name, name+".sha256"),
				members: map[string]string{},
			}
			for _, plugin := range cniPlugins() {
				file.members[plugin] = plugin
			}
			return file
		}},
	}
	for _, t := range tools {
		v, err := pins.Versions(filepath.Join(p.root, "tools", t.name, "go.mod"), t.module)
		if err != nil {
			return nil, err
		}
		files := []releaseFile{t.file(v[0])}
		all = append(all, publishedRelease{name: t.name, version: v[0], files: files})
	}
	return all, nil
}

// publishedParts are the downloaded programs, and the programs of this module, which are compiled.
func (p *Plan) publishedParts(ctx context.Context) ([]cache.Part, error) {
	all, err := p.publishedReleases()
	if err != nil {
		return nil, err
	}
	var parts []cache.Part
	for _, r := range all {
		parts = append(parts, p.downloadPart(r))
	}
	for _, name := range []string{"pause", "agnhost"} {
		part, err := p.programPart(ctx, ownGroup(name))
		if err != nil {
			return nil, fmt.Errorf("planning %s: %w", name, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// downloadPart downloads a release. Its key contains the URLs: with another mirror, the release is
// downloaded again.
func (p *Plan) downloadPart(r publishedRelease) cache.Part {
	inputs := map[string]map[string]string{}
	for _, f := range r.files {
		inputs[f.URL+" "+f.Checksums+" "+f.program] = f.members
	}
	return cache.Part{
		Name: r.name, Version: r.version,
		Key: cache.NewKey("published", fmt.Sprint(inputs)), // maps are printed in sorted order
		Build: func(ctx context.Context, dir string) error {
			for _, f := range r.files {
				var err error
				if f.program != "" {
					err = p.published.Client.Save(ctx, f.File, filepath.Join(dir, f.program))
				} else {
					err = p.published.Client.SaveMembers(ctx, f.File, f.members, dir)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}
