package plan

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/download"
	"kubeadm/components/internal/pins"
)

// Published is where the programs of a bundle are downloaded from instead of being compiled.
type Published struct {
	Client     *download.Client
	Kubernetes string // base URL of Kubernetes' releases; DefaultKubernetesURL unless it is a mirror
	GitHub     string // base URL of the other projects' releases; DefaultGitHubURL unless it is a mirror
}

// Where the projects publish their releases.
const (
	DefaultKubernetesURL = "https://dl.k8s.io"
	DefaultGitHubURL     = "https://github.com"
)

// release is the published programs of one project, in the version that is pinned for compiling them.
type release struct {
	name, version string
	files         []releaseFile
}

// releaseFile is a program, or an archive with some.
type releaseFile struct {
	download.File
	program string            // name of the file if it is a program
	members map[string]string // of an archive: path in it to program
}

// kubernetesPrograms are the programs of a Kubernetes release that nodes and images need. kubeadm is kept
// under another name, beside ours.
func kubernetesPrograms() map[string]string {
	return map[string]string{
		"kubelet": "kubelet", "kubectl": "kubectl", "kubeadm": "kubeadm-upstream", "kube-apiserver": "kube-apiserver",
		"kube-controller-manager": "kube-controller-manager", "kube-scheduler": "kube-scheduler", "kube-proxy": "kube-proxy",
	}
}

// cniPlugins are the reference plugins of the bundle.
func cniPlugins() []string {
	return []string{"bandwidth", "bridge", "dummy", "firewall", "host-device", "host-local", "loopback", "portmap", "ptp", "static", "tuning"}
}

// releases are all published releases of a bundle. The names and checksum files are each project's own.
func (p *Plan) releases() ([]release, error) {
	github := func(project, version, file, checksums string) download.File {
		base := p.published.GitHub + "/" + project + "/releases/download/" + version + "/"
		return download.File{URL: base + file, Checksums: base + checksums}
	}
	kubernetes := release{name: "kubernetes", version: p.release.Version}
	for remote, local := range kubernetesPrograms() {
		url := fmt.Sprintf("%s/release/%s/bin/linux/%s/%s", p.published.Kubernetes, p.release.Version, runtime.GOARCH, remote)
		file := download.File{URL: url, Checksums: url + ".sha256"}
		kubernetes.files = append(kubernetes.files, releaseFile{File: file, program: local})
	}
	top := fmt.Sprintf("etcd-%s-linux-%s", p.release.Etcd, runtime.GOARCH)
	all := []release{kubernetes, {name: "etcd", version: p.release.Etcd, files: []releaseFile{{
		File:    github("etcd-io/etcd", p.release.Etcd, top+".tar.gz", "SHA256SUMS"),
		members: map[string]string{top + "/etcd": "etcd", top + "/etcdctl": "etcdctl"},
	}}}}

	tools := []struct {
		name, module string
		file         func(version string) releaseFile
	}{
		{"containerd", "github.com/containerd/containerd/v2", func(v string) releaseFile {
			name := fmt.Sprintf("containerd-static-%s-linux-%s.tar.gz", strings.TrimPrefix(v, "v"), runtime.GOARCH)
			return releaseFile{File: github("containerd/containerd", v, name, name+".sha256sum"), members: map[string]string{
				"bin/containerd": "containerd", "bin/containerd-shim-runc-v2": "containerd-shim-runc-v2", "bin/ctr": "ctr"}}
		}},
		{"runc", "github.com/opencontainers/runc", func(v string) releaseFile {
			return releaseFile{File: github("opencontainers/runc", v, "runc."+runtime.GOARCH, "runc.sha256sum"), program: "runc"}
		}},
		{"coredns", "github.com/coredns/coredns", func(v string) releaseFile {
			name := fmt.Sprintf("coredns_%s_linux_%s.tgz", strings.TrimPrefix(v, "v"), runtime.GOARCH)
			return releaseFile{File: github("coredns/coredns", v, name, name+".sha256"), members: map[string]string{"coredns": "coredns"}}
		}},
		{"cni", "github.com/containernetworking/plugins", func(v string) releaseFile {
			name := fmt.Sprintf("cni-plugins-linux-%s-%s.tgz", runtime.GOARCH, v)
			members := map[string]string{}
			for _, plugin := range cniPlugins() {
				members[plugin] = plugin
			}
			return releaseFile{File: github("containernetworking/plugins", v, name, name+".sha256"), members: members}
		}},
	}
	for _, t := range tools {
		v, err := pins.Versions(filepath.Join(p.root, "tools", t.name, "go.mod"), t.module)
		if err != nil {
			return nil, err
		}
		all = append(all, release{name: t.name, version: v[0], files: []releaseFile{t.file(v[0])}})
	}
	return all, nil
}

// publishedParts are the downloaded programs, and the programs of this module, which have no releases.
func (p *Plan) publishedParts(ctx context.Context) ([]cache.Part, error) {
	all, err := p.releases()
	if err != nil {
		return nil, err
	}
	var parts []cache.Part
	for _, r := range all {
		parts = append(parts, p.releasedPart(r))
	}
	for _, name := range []string{"pause", "agnhost"} {
		part, err := p.programPart(ctx, newOwnProgram(name))
		if err != nil {
			return nil, fmt.Errorf("planning %s: %w", name, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// releasedPart downloads a release. Its key is the URLs, so that another mirror is downloaded again.
func (p *Plan) releasedPart(r release) cache.Part {
	inputs := map[string]map[string]string{}
	for _, f := range r.files {
		inputs[f.URL+" "+f.Checksums+" "+f.program] = f.members
	}
	return cache.Part{
		Name: r.name, Version: r.version, Key: cache.NewKey("published", fmt.Sprint(inputs)), // maps print in order
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
