package workflow

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
)

func TestPhasesOfTheIndexExist(t *testing.T) {
	addresses := func(phases []engine.Phase) (all []phaseindex.Address) {
		engine.Walk(phases, func(address string, _ engine.Phase) {
			all = append(all, phaseindex.Address(address))
		})
		return all
	}
	ofInit, ofJoin := addresses(Init), addresses(Join)
	for _, role := range []node.Role{node.ControlPlane, node.Worker} {
		local := node.Local{Role: role, Paths: node.DefaultPaths()}
		for _, f := range phaseindex.Files(local, false) {
			if !slices.Contains(ofInit, f.Phase) {
				t.Errorf("init has no phase %s, which creates %s", f.Phase, f.Path)
			}
		}
		for _, f := range phaseindex.Files(local, true) {
			if !slices.Contains(ofJoin, f.Phase) {
				t.Errorf("join has no phase %s, which creates %s", f.Phase, f.Path)
			}
		}
	}
	for _, a := range []phaseindex.Address{phaseindex.Preflight, phaseindex.ShowJoinCommand} {
		if !slices.Contains(ofInit, a) {
			t.Errorf("init has no phase %s", a)
		}
	}
}

// The undo list has the changes of all phases that run at the time.
func TestUndonePhasesRunAlone(t *testing.T) {
	var check func(phases []engine.Phase, isBeside bool) int
	check = func(phases []engine.Phase, isBeside bool) (count int) {
		for _, p := range phases {
			if p.OnError == engine.Undo {
				count++
				if isBeside {
					t.Errorf("phase %s is undone, but runs beside another one", p.Name)
				}
			}
			count += check(p.Phases, isBeside || p.Parallel)
		}
		return count
	}
	count := 0
	for _, phases := range [][]engine.Phase{Init, Join, Reset, UpgradeApply, UpgradeNode, Renew} {
		count += check(phases, false)
	}
	if count == 0 {
		t.Error("no phase is undone: nothing was checked")
	}
}

// A phase waits only for phases that exist and come before it, and for points that they list: so a
// workflow whose phases run one after the other needs no waits. What a phase waits for while it runs is
// checked by the engine.
func TestPhasesWaitForEarlierOnes(t *testing.T) {
	count := 0
	for _, phases := range [][]engine.Phase{Init, Join, Reset, UpgradeApply, UpgradeNode, Renew} {
		known := map[engine.Milestone]bool{}
		var check func(prefix string, ps []engine.Phase)
		check = func(prefix string, ps []engine.Phase) {
			for _, p := range ps {
				for _, m := range p.After {
					if count++; !known[m] {
						t.Errorf("phase %s%s waits for %s, which does not come before it", prefix, p.Name, m)
					}
				}
				address := strings.TrimSuffix(prefix+p.Name, "/")
				for _, m := range p.Points {
					if of, _, isPoint := strings.Cut(string(m), ":"); !isPoint || of != address {
						t.Errorf("phase %s lists %s, which is not a point of it", address, m)
					}
					known[m] = true
				}
				if p.Name == "" {
					check(prefix, p.Phases)
					continue
				}
				check(address+"/", p.Phases)
				known[engine.Milestone(address)] = true
			}
		}
		check("", phases)
	}
	if count == 0 {
		t.Error("no phase waits for another one: nothing was checked")
	}
}
