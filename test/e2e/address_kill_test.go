//go:build e2e

package e2e

import (
	"testing"

	"kubeadm/test/nodes"
)

// TestChangeAddressInterruptedAtEveryChange kills the change of an address at each of its changes, and cuts the power at each
// on the way back, on the only control plane node and on a worker. The same command goes on each time.
func TestChangeAddressInterruptedAtEveryChange(t *testing.T) {
	inFullRun(t, "ten minutes")
	parallel(t)
	r := newRotatedCluster(t, 1, 1)
	r.load.stop()
	createWitness(t, r.cp)
	for _, n := range []*nodes.Node{r.worker, r.cp} {
		first := n.Address()
		second, err := n.AddAddress(t.Context())
		must(t, err)
		kill, powerCut := interruptions[0], interruptions[1]
		powerOff := powerCut.after
		powerCut.after = func(t *testing.T, n *nodes.Node) {
			powerOff(t, n)
			_, err := n.AddAddress(t.Context()) // which a boot forgets
			must(t, err)
		}
		interruptAtEveryChange(t, kill, n, nil, addressCommand("change", second, "-v=1"))
		checkNodeAddress(t, r.cp, n.Name(), second)
		interruptAtEveryChange(t, powerCut, n, nil, addressCommand("change", first, "-v=1"))
		checkNodeAddress(t, r.cp, n.Name(), first)
		if n == r.cp {
			checkMovedPlane(t, n, second)
		}
	}
	checkVotingMembers(t, r.cp)
	must(t, awaitClusterReady(t.Context(), r.cp, 2))
	awaitWitness(t, r.cp)
}
