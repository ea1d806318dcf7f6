package nodeaddress

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Record is what a control plane node knows of its previous addresses, until the change is finished: its
// certificates have them, and an interrupted run has left them in other files.
type Record struct {
	// From are previous addresses, and To is the one to which the node was moving last: an interrupted run may
	// have written it.
	From []string `json:"from"`
	To   string   `json:"to,omitempty"`
}

func recordPath(p node.Paths) string { return path.Join(p.Journal(), "addresses.json") }

// ReadRecord reads the record; it is empty if there is none.
func ReadRecord(ctx context.Context, r state.Reader, p node.Paths) (record Record, err error) {
	file := recordPath(p)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return record, err
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return record, problem.New(fmt.Errorf("reading %s: %w", file, err),
			"remove the file; the previous addresses stay in the certificates then")
	}
	return record, nil
}

// Store records the addresses of a move, before anything has the new one.
func (m Move) Store(ctx context.Context, e *engine.Env) error {
	record, err := ReadRecord(ctx, e.World, e.Local.Paths)
	if err != nil || slices.Equal(m.From, record.From) && m.To == record.To {
		return err
	}
	data, err := json.Marshal(Record{From: m.From, To: m.To})
	if err != nil {
		return err
	}
	file := recordPath(e.Local.Paths)
	return e.Do(ctx, change.MakeDir{Path: path.Dir(file), Mode: 0o700},
		change.WriteFile{Path: file, Data: append(data, '\n'), Mode: 0o600})
}

// IsHalfMoved reports whether a move to an address was interrupted after parts of this control plane node had it: they
// serve at different addresses. Of member, nil is a node without one.
func (r Record) IsHalfMoved(server string, member *etcddata.Member) bool {
	if r.To == "" {
		return false
	}
	to, err := netip.ParseAddr(r.To)
	if err != nil {
		return false
	}
	return !isSame(server, to) || member != nil && !isSame(node.HostOf(member.PeerURL), to)
}

// CheckComplete is an error if a move of this control plane node was interrupted: manifests are rendered for one address.
func CheckComplete(ctx context.Context, r state.Reader, n *node.Node) error {
	if n.Role != node.ControlPlane {
		return nil
	}
	record, err := ReadRecord(ctx, r, n.Paths)
	if err != nil || record.To == "" {
		return err
	}
	var member *etcddata.Member
	if local, _ := node.HasLocalEtcd(n); local {
		found, err := etcddata.ReadMember(ctx, r, n.Paths)
		if err != nil {
			return err
		}
		member = &found
	}
	if !record.IsHalfMoved(n.Address, member) {
		return nil
	}
	return problem.New(fmt.Errorf("the move of this node to %s was interrupted", untrusted.Line(record.To)),
		untrusted.CommandHint("complete it first", "kubeadm address change", record.To))
}

// ListPeerURLs returns the peer URLs at which etcd may list the member of this machine: those of its manifest and,
// if a move was interrupted, those at the addresses of the move that the machine has.
func ListPeerURLs(ctx context.Context, r state.Reader, p node.Paths, manifested []string) ([]string, error) {
	record, err := ReadRecord(ctx, r, p)
	if err != nil || record.To == "" {
		return manifested, err
	}
	own, err := r.Addresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	addresses, urls := append(record.From, record.To), slices.Clone(manifested)
	for _, ip := range addresses {
		if !IsOn(own, ip) {
			continue
		}
		for _, u := range manifested {
			if at := (Move{To: ip, From: addresses}).Replace(u); !slices.Contains(urls, at) {
				urls = append(urls, at)
			}
		}
	}
	return urls, nil
}

// RemoveRecord forgets the previous addresses.
func RemoveRecord(ctx context.Context, e *engine.Env) error {
	return e.Do(ctx, change.Remove{Path: recordPath(e.Local.Paths)})
}
