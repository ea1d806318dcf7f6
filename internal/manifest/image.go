package manifest

import (
	"fmt"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Images are the images of the node's cluster.
func Images(n *node.Node) (release.Images, error) {
	c := &n.Cluster
	version := c.Version
	if c.CIBuild {
		version = "ci/" + strings.TrimPrefix(version, "ci/")
	}
	target, err := release.ParseTarget(version)
	if err != nil {
		return release.Images{}, fmt.Errorf("resolving the images: %w", err)
	}
	return release.Images{
		Target:       target,
		Repository:   c.ImageRepository,
		DNS:          release.ImageChoice{Repository: c.DNS.ImageRepository, Tag: c.DNS.ImageTag},
		Etcd:         release.ImageChoice{Repository: c.Etcd.ImageRepository, Tag: c.Etcd.ImageTag},
		NoProxy:      c.Proxy.Disabled,
		NoDNS:        c.DNS.Disabled,
		ExternalEtcd: c.Etcd.External != nil,
	}, nil
}
