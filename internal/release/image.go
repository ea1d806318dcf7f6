package release

import (
	"fmt"
	"regexp"
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

// ImageChoice overrides where one image comes from. Empty fields override nothing.
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

// All lists what a control plane pulls, in the order in which it is shown.
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

// notInTag is what the OCI distribution specification keeps out of a tag.
var notInTag = regexp.MustCompile(`[^-\w.]`)

// Component is the image of one of the components that carry the Kubernetes
// version as their tag.
func (i Images) Component(name string) string {
	repository := i.repository()
	if i.Target.CI() && repository == DefaultRepository {
		repository = CIRepository
	}
	return reference(repository, name, notInTag.ReplaceAllString(i.Target.String(), "_"))
}

// CoreDNS is the image of the cluster's DNS server. Kubernetes' own registry
// keeps it one folder deeper than others.
func (i Images) CoreDNS() string {
	repository := or(i.DNS.Repository, i.repository())
	if repository == DefaultRepository {
		repository += "/coredns"
	}
	return reference(repository, "coredns", i.CoreDNSTag())
}

// CoreDNSTag is the tag of CoreDNS.
func (i Images) CoreDNSTag() string { return or(i.DNS.Tag, i.line().coreDNS) }

// EtcdImage is the image of a local etcd.
func (i Images) EtcdImage() string {
	return reference(or(i.Etcd.Repository, i.repository()), "etcd", i.EtcdTag())
}

// EtcdTag is the tag of a local etcd.
func (i Images) EtcdTag() string { return or(i.Etcd.Tag, i.line().etcd) }

// Pause is the image of the container that holds a Pod's namespaces.
func (i Images) Pause() string { return reference(i.repository(), "pause", i.line().pause) }

func (i Images) repository() string { return or(i.Repository, DefaultRepository) }

func (i Images) line() line { return lineOf(i.Target.Minor()) }

func reference(repository, name, tag string) string {
	return fmt.Sprintf("%s/%s:%s", repository, name, tag)
}

// or returns the choice or, if it is empty, the fallback.
func or(choice, fallback string) string {
	if choice != "" {
		return choice
	}
	return fallback
}
