package laws

import (
	"io/fs"
	"strings"
	"sync"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// dataDir is a folder of the user's choice for the data of etcd.
const dataDir = "/srv/etcd"

// choosy is a control plane in use whose user has chosen that folder. Nothing but the manifest of etcd tells of it.
func choosy(t testing.TB) *fake.World {
	chosen.Do(func() {
		s := subjects()[0]
		s.equip = func(t testing.TB, e *flow.Env) error {
			text := strings.Replace(initConfig, "networking:", "etcd:\n  local:\n    dataDir: "+dataDir+"\nnetworking:", 1)
			return equipFirst(t, e, config.NewInitFlags(), text)
		}
		w := s.machine(t)
		s.on(w).succeed(t)
		inUse(w)
		w.Files[dataDir+"/member"] = memory.File{Mode: fs.ModeDir | 0o700}
		w.Files[dataDir+"/member/snap"] = memory.File{Data: []byte("data"), Mode: 0o600}
		w.Pods = append(w.Pods, change.Sandbox{ID: "etcd", Name: "etcd-cp1", Namespace: "kube-system"})
		chosen.machine = w
	})
	return chosen.machine.Clone()
}

// chosen is made once for all tests.
var chosen struct {
	sync.Once
	machine *fake.World
}
