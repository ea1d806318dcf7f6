// Package reconfiguration is about changing the configuration of a running cluster: what the cluster
// stores of such a change, which nodes have followed, and what a change means for a node.
package reconfiguration

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/manifest"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// State is the latest change of the configuration, as the cluster stores it.
type State struct {
	ID      string      `json:"id"`
	Started metav1.Time `json:"started"`
	Node    string      `json:"node"`             // where it was started
	Undoes  string      `json:"undoes,omitempty"` // the ID of the change that it takes back
	// ControlPlanes and Workers say whose nodes the change concerns.
	ControlPlanes bool `json:"controlPlanes"`
	Workers       bool `json:"workers"`
	// Stored is when the cluster's own configuration was replaced; nil before that.
	Stored *metav1.Time `json:"stored,omitempty"`
	// Addons is set before CoreDNS or kube-proxy gets the configuration: from then on the change is not forgotten.
	Addons bool `json:"addons,omitempty"`
	// Forgets is set on a change that takes back one which the cluster has not stored, because a component did not run
	// with it: in the end the change before that one is the latest again, also if the command was killed meanwhile.
	Forgets bool `json:"forgets,omitempty"`
	// NotReady are the nodes on which a Pod of CoreDNS or kube-proxy was not ready before that, by the label of the Pods.
	NotReady map[string]NodeSet `json:"notReady,omitempty"`
	// Earlier is the change before this one, as long as the cluster has not stored this one.
	Earlier *State `json:"earlier,omitempty"`
	// Endpoint is a change of the endpoint that has not been finished; nil for none.
	Endpoint *EndpointChange `json:"endpoint,omitempty"`
	// EndpointBefore is one that had not been finished when this change began, to which an undo returns.
	EndpointBefore *EndpointChange `json:"endpointBefore,omitempty"`
	// Prepared are the names in apiServer.certSANs that prepare a change of the endpoint: once it is that of the cluster,
	// certificates have its host without them.
	Prepared []string `json:"prepared,omitempty"`
	// DNS is the change of CoreDNS' own settings; nil for none.
	DNS *DNSChange `json:"dns,omitempty"`
	// Files are those that arguments of components name, as they were on Node when the change was begun, or
	// when Node uploaded them last.
	Files []preflight.ArgumentFile `json:"files,omitempty"`
	// Nodes are those that the cluster had when it stored the change.
	Nodes KnownNodes `json:"nodes,omitempty"`
	// Rest is what the cluster is to store once all nodes have followed; nil for the same as After.
	Rest *config.StoredConfig `json:"rest,omitempty"`
	// Before and After are what the cluster stores before and after the change.
	Before config.StoredConfig `json:"before"`
	After  config.StoredConfig `json:"after"`
}

// NodeAnnotation is the annotation of a Node with the ID of the change that it has followed last, or, followed by
// "-begun", of the one that it has begun to follow.
const NodeAnnotation = "kubeadm.kubernetes.io/reconfiguration"

// New is a change that begins.
func New(nodeName string, before, after config.StoredConfig, now time.Time) *State {
	s := &State{Started: metav1.Time{Time: now}.Rfc3339Copy(), Node: nodeName, Before: before,
		After: after}
	s.ID = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %v", s.Started.UTC(), nodeName,
		after)))[:12]
	return s
}

// Read returns the latest change of the configuration; nil if there was none.
func Read(ctx context.Context, r state.Reader, as state.Identity) (*State, error) {
	found, err := read(ctx, r, state.RefOf(manifest.NewReconfigurationSecret(""), as))
	if err == nil && found != nil && found.After.Cluster == "" {
		err = explainDamaged(errors.New("it has no configuration"))
	}
	return found, err
}

// ReadPublic returns what the kubelet of a worker may read of the latest change; nil if there was none.
func ReadPublic(ctx context.Context, r state.Reader, as state.Identity) (*State, error) {
	return read(ctx, r, state.RefOf(manifest.NewReconfiguration(""), as))
}

func read(ctx context.Context, r state.Reader, ref state.Ref) (*State, error) {
	u, err := r.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the reconfiguration: %w", err)
	}
	text, err := textOf(u)
	var found State
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &found)
	}
	for s := &found; err == nil && s != nil; s = s.Earlier {
		err = s.check()
	}
	if err != nil {
		return nil, explainDamaged(err)
	}
	return &found, nil
}

// check is an error if a part is missing on which commands rely.
func (s *State) check() error {
	for _, c := range []*EndpointChange{s.Endpoint, s.EndpointBefore} {
		if c != nil && (len(c.From) == 0 || c.To == "") {
			return errors.New("its change of the endpoint lacks from or to")
		}
	}
	if s.ID == "" {
		return errors.New("it has no id")
	}
	return nil
}

func explainDamaged(err error) error {
	secret := manifest.NewReconfigurationSecret("")
	return problem.New(fmt.Errorf("reading Secret or ConfigMap %s/%s: %w", secret.Namespace, secret.Name,
		untrusted.Error(err)), forgetHint())
}

// forgetHint is the remedy where no command can go on from the latest change.
func forgetHint() string {
	secret := manifest.NewReconfigurationSecret("")
	return untrusted.CommandHint("to forget the latest change, delete Secret and ConfigMap",
		"kubectl delete secret,configmap --namespace", secret.Namespace, secret.Name)
}

// Latest is the latest change that the cluster has stored; nil if there is none.
func (s *State) Latest() *State {
	for s != nil && s.Stored == nil {
		s = s.Earlier
	}
	return s
}

// FirstWithAddons is the first of the changes that this one replaces before they were stored, of those that CoreDNS or
// kube-proxy may have; nil if there is none.
func (s *State) FirstWithAddons() (first *State) {
	for begun := s.Earlier; begun != nil && begun.Stored == nil; begun = begun.Earlier {
		if begun.Addons {
			first = begun
		}
	}
	return first
}

// StoreChanges returns the changes that store the state in the cluster: all of it for administrators, and
// for every node what that needs. The Secret comes first: commands on control plane nodes go by it, and
// write what a kill has left out. Without a state, they remove what is stored.
func (s *State) StoreChanges(as state.Identity) ([]change.Change, error) {
	if s == nil {
		return []change.Change{change.DeleteObject{Ref: state.RefOf(manifest.NewReconfiguration(""), as)},
			change.DeleteObject{Ref: state.RefOf(manifest.NewReconfigurationSecret(""), as)}}, nil
	}
	all, err := yaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	forNodes, err := s.public()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(forNodes)
	if err != nil {
		return nil, err
	}
	return append(change.ApplyAll(as, manifest.ReconfigurationAccess.Objects()...),
		storeIn(manifest.NewReconfigurationSecret(string(all)), string(all), as),
		storeIn(manifest.NewReconfiguration(string(text)), string(text), as)), nil
}

// public is the state without what only control plane nodes need, which may contain secrets: the arguments
// and environment variables of components.
func (s *State) public() (*State, error) {
	if s == nil {
		return nil, nil
	}
	p := *s
	p.After, p.DNS, p.Files, p.Nodes, p.Rest, p.NotReady = config.StoredConfig{}, nil, nil, "", nil, nil
	p.Before = config.StoredConfig{Kubelet: s.Before.Kubelet}
	var cluster map[string]any
	if err := yaml.Unmarshal([]byte(s.Before.Cluster), &cluster); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	for _, field := range []string{"apiServer", "controllerManager", "scheduler", "etcd"} {
		delete(cluster, field)
	}
	text, err := yaml.Marshal(cluster)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	p.Before.Cluster = string(text)
	p.Earlier, err = s.Earlier.public()
	return &p, err
}
