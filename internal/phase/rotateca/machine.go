package rotateca

import (
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
)

// machine is a node of the cluster on which a stage runs.
type machine struct {
	*rotation.State
	node *node.Node
	as   state.Identity
	// On a control plane node it carries out changes only while the node holds the lock of the
	// cluster.
	e *engine.Env
}

// active are the certificates and public keys of what signs in a stage.
func (m machine) active(s rotation.Stage) map[string]string {
	if s.UsesNew() {
		return m.New
	}
	return m.Old
}

// other are those that active are not.
func (m machine) other(s rotation.Stage) map[string]string {
	if s.UsesNew() {
		return m.Old
	}
	return m.New
}

// trusted is what is trusted in a stage, in PEM form: first what signs.
func (m machine) trusted(s rotation.Stage, name string) []byte {
	text := m.active(s)[name]
	if !s.IsLast() {
		text += m.other(s)[name]
	}
	return []byte(text)
}

// bothCAs are both cluster CAs in PEM form.
func (m machine) bothCAs() []byte {
	return []byte(m.Old[rotation.ClusterAuthority] + m.New[rotation.ClusterAuthority])
}
