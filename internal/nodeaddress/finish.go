package nodeaddress

import (
	"context"
	"fmt"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/untrusted"
)

// FindFinish finds the previous addresses that this control plane node forgets; none if there are none. It is an
// error if the node has not completed its move.
func FindFinish(ctx context.Context, e *engine.Env, here existing.Machine) (w Wanted, err error) {
	record, err := ReadRecord(ctx, e.World, here.Paths)
	if err != nil || len(record.From) == 0 {
		return w, err
	}
	w.To, w.Present, w.As, w.IsReachable = here.Address, here.Local, here.As, true
	for _, ip := range record.From {
		w.addFrom(ip)
	}
	incomplete := problem.New(fmt.Errorf("the move of this node from %s to %s is not complete", strings.Join(record.From, ", "),
		record.To), untrusted.CommandHint("complete it", "kubeadm address change", record.To),
		untrusted.CommandHint("or take it back", "kubeadm address change", record.From[0]))
	if len(w.From) < len(record.From) || record.To != here.Address {
		return w, incomplete
	}
	if w.Node, err = here.Node(ctx, e, release.Target{}); err != nil {
		return w, err
	}
	if local, _ := node.HasLocalEtcd(w.Node); !local {
		return w, nil
	}
	member, err := etcddata.ReadMember(ctx, e.World, here.Paths)
	if err != nil {
		return w, err
	}
	w.Member = &member
	_, found, err := here.Etcd(ctx, e)
	if err != nil {
		return w, err
	}
	own := w.FindMember(found)
	if own == nil || len(own.PeerURLs) == 0 || w.Replace(own.PeerURLs[0]) != own.PeerURLs[0] {
		return w, incomplete
	}
	return w, w.checkLeft(ctx, e, found)
}

// checkLeft is an error while this machine has a previous address from which it may connect to other members of etcd:
// they accept a connection only from an address that the peer certificate has.
func (w *Wanted) checkLeft(ctx context.Context, e *engine.Env, found etcdcluster.Health) error {
	if len(found.Members) < 2 {
		return nil
	}
	own, err := e.World.Addresses(ctx)
	if err != nil {
		return fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	for _, ip := range w.From {
		if IsOn(own, ip) {
			return problem.New(fmt.Errorf("this machine still has the address %s, and may connect to the other etcd members "+
				"from it, which refuse that without it in the peer certificate", ip),
				"remove the address from the machine first, as with: ip address del", "if the machine keeps it, leave it in the certificates")
		}
	}
	return nil
}
