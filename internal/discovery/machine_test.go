package discovery_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/kube"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/portable"
)

// limit is the timeout of each wait. No join of these tests may reach it.
const limit = time.Minute

// machine is a machine in memory that uses the real network.
type machine struct {
	*fake.World
	net   portable.Machine
	api   *kube.Cluster
	begun time.Time
	limit time.Duration  // of each wait
	cut   map[string]int // by the name of an object: how many of the next reads fail
}

func newMachine() *machine {
	m := &machine{World: fake.New(), begun: time.Now(), limit: limit, cut: map[string]int{}}
	m.Info.Hostname, m.NodeName = "worker1", "worker1"
	m.RemoteAPIServer = true
	m.api = kube.New(func(path string) ([]byte, error) {
		return m.ReadFile(context.Background(), path)
	})
	return m
}

func (m *machine) file(name string, data []byte) {
	m.Files[name] = memory.File{Data: data, Mode: 0o600}
}

// Now is a clock that runs thirty times as fast.
func (m *machine) Now() time.Time { return m.begun.Add(30 * time.Since(m.begun)) }

func (m *machine) Await(ctx context.Context, c world.Condition) error {
	return world.Poll(ctx, m, c)
}

func (m *machine) ClusterInfo(ctx context.Context, server string,
	ca []byte) (map[string]string, error) {
	return m.net.ClusterInfo(ctx, server, ca)
}

func (m *machine) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	if !strings.HasPrefix(req.URL, "https://") {
		return m.World.Fetch(ctx, req) // the kubelet's health
	}
	return m.net.Fetch(ctx, req)
}

func (m *machine) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if m.cut[ref.Name]--; m.cut[ref.Name] >= 0 {
		return nil, errors.New("connection refused")
	}
	return m.api.Object(ctx, ref)
}

func (m *machine) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	return m.api.List(ctx, q)
}

// attempt is the result of one join.
type attempt struct {
	err  error
	node *node.Node // nil if discovery failed
	did  []string
	said string // all that was shown to the user
}

// join runs the command join on the machine.
func (m *machine) join(t *testing.T, flags config.JoinFlags) (a attempt) {
	t.Helper()
	tool, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		t.Fatal(err)
	}
	facts := config.Facts{Tool: tool, Hostname: m.Info.Hostname, Addresses: m.Interfaces,
		Random: rand.Reader}
	if _, ok := m.Files[adminConf]; ok {
		facts.AdminKubeconfig = adminConf
	}
	local, _, err := config.Join(config.File{}, flags, facts)
	if err != nil {
		return attempt{err: err}
	}
	local.Timeouts.Discovery, local.Timeouts.KubernetesAPI = m.limit, m.limit
	var mu sync.Mutex
	e := engine.New(engine.Env{World: m, Local: local, Tool: tool,
		Rand: func(string) io.Reader { return rand.Reader },
		Keys: func(pki.Need) (crypto.Signer, error) { return pki.NewKey(rand.Reader, pki.ECDSAP256) },
		Emit: func(ev engine.Event) {
			mu.Lock()
			defer mu.Unlock()
			a.said += ev.Text + "\n"
			if ev.Kind == engine.Did {
				a.did = append(a.did, ev.Text)
			}
		},
	})
	e.Admin = workflow.JoinAdmin(e.World, e.Local)
	e.Node = func(ctx context.Context) (*node.Node, error) {
		if a.node != nil {
			return a.node, nil
		}
		n, err := discovery.Node(ctx, e)
		if err == nil {
			a.node = n
		}
		return n, err
	}
	a.err = engine.Run(t.Context(), e, workflow.Join, engine.Selection{})
	return a
}

const adminConf = "/etc/kubernetes/admin.conf"

// refused checks that the join fails with one error that has all the words, and changes nothing.
func (m *machine) refused(t *testing.T, flags config.JoinFlags, words ...string) {
	t.Helper()
	before, begun := m.Snapshot(), time.Now()
	a := m.join(t, flags)
	if a.err == nil {
		t.Fatalf("it joined: %q", a.did)
	}
	told := strings.Join(append([]string{a.err.Error()}, problem.Hints(a.err)...), "\n")
	for _, word := range words {
		if !strings.Contains(told, word) {
			t.Errorf("the error does not say %q: %s", word, told)
		}
	}
	if len(a.did) > 0 || m.Snapshot() != before {
		t.Errorf("it changed the machine: %q", a.did)
	}
	if took := time.Since(begun); took >= limit {
		t.Errorf("it took %s to find out", took)
	}
	for _, secret := range []string{tokenSecret, "PRIVATE KEY"} {
		if strings.Contains(a.said+told, secret) {
			t.Errorf("a secret is told: %s\n%s", a.said, told)
		}
	}
	t.Log(told)
}

// joined checks that the join succeeds.
func (m *machine) joined(t *testing.T, flags config.JoinFlags) attempt {
	t.Helper()
	a := m.join(t, flags)
	if a.err != nil {
		t.Fatal(errors.Join(a.err, errors.New(a.said)))
	}
	return a
}

// introduced returns the user in the kubelet's bootstrap kubeconfig.
func introduced(t *testing.T, a attempt) *api.AuthInfo {
	t.Helper()
	config, err := pki.ParseKubeconfig(a.node.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	user, err := config.CurrentUser()
	if err != nil {
		t.Fatal(err)
	}
	return user
}
