package nodename

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/existing"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Status says which name this node has where, and which changes of nodes are not complete.
type Status struct {
	// Node is the name of this node, by the client certificate of its kubelet.
	Node string `json:"node"`
	// Host is the name of this machine.
	Host   string  `json:"host"`
	Places []Place `json:"places"`
	// Change is the change of this node's name that is not complete.
	Change *Record `json:"change,omitempty"`
	// Next is the command that completes what is not; empty if nothing is to be done here.
	Next string `json:"next,omitempty"`
	// Others are changes of other nodes that are not complete; on a control plane node only.
	Others []existing.NodeChange `json:"others,omitempty"`
}

// Place is where the name of this node is written.
type Place struct {
	Name     string `json:"name"`
	NodeName string `json:"nodeName"`
}

// ReadStatus reads which name this node has where. What the cluster would have to say is left out, with a warning, if no API
// server answers.
func ReadStatus(ctx context.Context, e *engine.Env, here existing.Machine) (s Status, err error) {
	client, err := localkubelet.ReadClientCert(ctx, e.World, here.Paths)
	if err != nil {
		return s, err
	}
	if client != nil {
		s.Node = client.NodeName(ctx, e.World)
	}
	if s.Node == "" {
		return s, newUnknownError(here.Paths)
	}
	s.Host = here.Hostname
	if s.Change, err = ReadRename(ctx, e.World, here.Paths); err != nil {
		return s, err
	}
	k, err := ReadKubelet(ctx, e.World, here.Local)
	if err != nil {
		return s, err
	}
	s.add("client certificate of the kubelet", s.Node)
	s.addKubelet(k)
	if err := s.addMember(ctx, e.World, here.Paths); err != nil {
		return s, err
	}
	s.findNext(k)
	if err := s.addCluster(ctx, e, here); err != nil {
		e.Warn("what the cluster knows of this node is not shown: %v", err)
	}
	return s, context.Cause(ctx)
}

func (s *Status) add(name, nodeName string) {
	s.Places = append(s.Places, Place{Name: name, NodeName: nodeName})
}

func (s *Status) addKubelet(k Kubelet) {
	by := "name of the host"
	if k.File != "" {
		by = k.File
	}
	name := k.Name
	if name == "" {
		name = "not known"
	}
	s.add(fmt.Sprintf("kubelet when it starts (%s)", by), name)
}

// addMember adds the name of the etcd member of this machine, if it has one.
func (s *Status) addMember(ctx context.Context, r state.Reader, p node.Paths) error {
	exists, err := state.Exists(ctx, r, p.Manifest(manifest.Etcd))
	if err != nil || !exists {
		return err
	}
	member, err := etcddata.ReadMember(ctx, r, p)
	if err == nil {
		s.add("etcd member", member.Name)
	}
	return err
}

// findNext finds the command that completes what is not complete on this machine.
func (s *Status) findNext(k Kubelet) {
	switch {
	case s.Change != nil:
		s.Next = s.Change.Command(s.Change.To)
	case k.Name != "" && k.Name != s.Node && !k.IsUnit:
		s.Next = "kubeadm node-name keep"
	}
}

// addCluster adds the Nodes of this machine, and changes of other nodes.
func (s *Status) addCluster(ctx context.Context, e *engine.Env, here existing.Machine) error {
	names := []string{s.Node}
	if s.Change != nil {
		names = []string{s.Change.Original, s.Change.Other}
	}
	for _, name := range names {
		n, err := ReadNode(ctx, e.World, here.As, name)
		switch {
		case apierrors.IsForbidden(err): // a kubelet may read its own Node only
		case err != nil:
			return err
		case n == nil:
		case n.Spec.Unschedulable:
			s.add("Node, cordoned", name)
		default:
			s.add("Node", name)
		}
	}
	if here.Role != node.ControlPlane {
		return nil
	}
	all, err := existing.ListNodeChanges(ctx, e.World, here.As, "")
	if err != nil {
		return err
	}
	for _, c := range all {
		isOwn := c.Node == s.Node || s.Change != nil && c.Node == s.Change.Other
		if !isOwn {
			s.Others = append(s.Others, c)
		}
	}
	return nil
}
