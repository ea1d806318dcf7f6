package release

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/untrusted"
)

// The registries images come from unless the user names another.
const (
	DefaultRepository = "registry.k8s.io"
	CIRepository      = "gcr.io/k8s-staging-ci-images" // for versions of continuous integration
)

// Names of the images that are tagged with the Kubernetes version.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Proxy             = "kube-proxy"
)

// ImageChoice overrides the repository and tag of one image. Empty fields override nothing. A digest
// may follow the tag: v1.14.6@sha256:…
type ImageChoice struct {
	Repository, Tag string
}

// Images names the images of a cluster.
type Images struct {
	Target       Target
	Repository   string // empty: DefaultRepository
	DNS, Etcd    ImageChoice
	NoProxy      bool // kube-proxy is not deployed
	NoDNS        bool // CoreDNS is not deployed
	ExternalEtcd bool // etcd is not deployed
}

// All lists the images that a control plane pulls, in the order of "kubeadm config images list".
func (i Images) All() []string {
	list := []string{i.Component(APIServer), i.Component(ControllerManager), i.Component(Scheduler)}
	if !i.NoProxy {
		list = append(list, i.Component(Proxy))
	}
	if !i.NoDNS {
		list = append(list, i.CoreDNS())
	}
	list = append(list, i.Pause())
	if !i.ExternalEtcd {
		list = append(list, i.EtcdImage())
	}
	return list
}

// notAllowedInTag matches characters that the OCI distribution specification does not allow in a
// tag.
var notAllowedInTag = regexp.MustCompile(`[^-\w.]`)

// Component is the image of one of the components that carry the Kubernetes
// version as their tag.
func (i Images) Component(name string) string {
	repository := i.repository()
	if i.Target.CI() && repository == DefaultRepository {
		repository = CIRepository
	}
	return repository + "/" + name + ":" +
		notAllowedInTag.ReplaceAllString(i.Target.String(), "_")
}

// CoreDNS is the image of the cluster's DNS server. In the default registry it is one path
// segment deeper than the other images.
func (i Images) CoreDNS() string {
	repository := cmp.Or(i.DNS.Repository, i.repository())
	if repository == DefaultRepository {
		repository += "/coredns"
	}
	return repository + "/coredns:" + cmp.Or(i.DNS.Tag, i.CoreDNSTag())
}

// CoreDNSTag is the tag of CoreDNS, by which its version is known, without a digest.
func (i Images) CoreDNSTag() string {
	return withoutDigest(cmp.Or(i.DNS.Tag, findMinorRelease(i.Target.Minor()).coreDNS))
}

// EtcdImage is the image of a local etcd.
func (i Images) EtcdImage() string {
	return cmp.Or(i.Etcd.Repository, i.repository()) + "/etcd:" + cmp.Or(i.Etcd.Tag, i.EtcdTag())
}

// EtcdTag is the tag of a local etcd, by which its version is known, without a digest.
func (i Images) EtcdTag() string {
	return withoutDigest(cmp.Or(i.Etcd.Tag, findMinorRelease(i.Target.Minor()).etcd))
}

// EtcdVersion is the version of the local etcd according to its image tag. For a tag that is not a
// version it is the default version.
func (i Images) EtcdVersion() *version.Version {
	if v := EtcdVersion(i.EtcdTag()); v != nil {
		return v
	}
	return EtcdVersion(findMinorRelease(i.Target.Minor()).etcd)
}

// EtcdVersion is the version in the tag of an etcd image, without the number of the image's build; nil
// if the tag is not a version.
func EtcdVersion(tag string) *version.Version {
	v, err := version.ParseSemantic(tag)
	if err != nil {
		return nil
	}
	return version.MustParseGeneric(fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch()))
}

// Pause is the image of the Pods' sandbox container.
func (i Images) Pause() string {
	return i.repository() + "/pause:" + findMinorRelease(i.Target.Minor()).pause
}

func (i Images) repository() string { return cmp.Or(i.Repository, DefaultRepository) }

// ImageTag is the tag of an image, by which its version is known.
func ImageTag(image string) (string, error) {
	name := withoutDigest(image)
	_, tag, found := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if !found || tag == "" {
		return "", fmt.Errorf("its image %s has no tag, so its version is unknown",
			untrusted.Quote(image))
	}
	// tags cannot hold the plus sign of build metadata
	return strings.Replace(tag, "_", "+", 1), nil
}

func withoutDigest(image string) string {
	tag, _, _ := strings.Cut(image, "@")
	return tag
}
