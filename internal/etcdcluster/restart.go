package etcdcluster

import (
	"fmt"
	"strings"

	"kubeadm/internal/untrusted"
)

// CheckRestart is an error if etcd has no quorum, or none while a member restarts. One or two members never have one
// then; the only one has answered, if not at its previous address.
func (h Health) CheckRestart(own uint64) error {
	if len(h.Members) == 1 {
		return nil
	}
	if err := h.CheckQuorum(); err != nil {
		return err
	}
	var down []string
	for _, m := range h.UnhealthyVoters() {
		if m.ID != own {
			down = append(down, untrusted.Line(MemberName(m)))
		}
	}
	if voters := len(h.Members); voters > 2 && len(down)+1 > (voters-1)/2 {
		return fmt.Errorf("etcd would have no quorum while the member of this node restarts: %s of %d members are not healthy",
			strings.Join(down, ", "), voters)
	}
	return nil
}
