package preflight

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// machine has what the checks read of a machine; any other read is a nil dereference.
type machine struct {
	state.Reader
	host             state.HostInfo
	hostErr          error
	files            map[string]string // by path; a directory exists when a file below it does, and with the path "DIR/"
	broken           map[string]error  // by path
	programs         []string
	kubelet          string
	kubeletErr       error
	services         map[string]state.Service
	serviceErr       error
	runtime          state.Runtime
	runtimeErr       error
	sockets          []string
	busy             map[string]error // by address
	resolves         []string
	resolveErr       error
	proxies          map[string]string // by host
	proxyErr         error
	kernelOdd        []error
	kernelBad        []error
	made             []string // targets
	answers          []state.Response
	answerErr        error
	fetched          *state.Request
	runtimeQuestions *int
}

func (m *machine) Host(context.Context) (state.HostInfo, error) { return m.host, m.hostErr }
func (m *machine) WasCreated(target string) bool {
	return slices.Contains(m.made, target)
}
func (m *machine) CanListen(_ context.Context, a string) error { return m.busy[a] }

func (m *machine) ReadFile(_ context.Context, path string) ([]byte, error) {
	if err := m.broken[path]; err != nil {
		return nil, err
	}
	text, ok := m.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (m *machine) Stat(ctx context.Context, path string) (state.FileInfo, error) {
	_, err := m.ReadFile(ctx, path)
	return state.FileInfo{Path: path}, err
}

func (m *machine) ReadDir(_ context.Context, path string) ([]state.FileInfo, error) {
	if err := m.broken[path]; err != nil {
		return nil, err
	}
	var list []state.FileInfo
	for p := range maps.Keys(m.files) {
		if strings.HasPrefix(p, path+"/") {
			info := state.FileInfo{Path: strings.TrimSuffix(p, "/")}
			if info.Path != p {
				info.Mode = fs.ModeDir
			}
			list = append(list, info)
		}
	}
	if list == nil {
		return nil, fs.ErrNotExist
	}
	return list, nil
}

func (m *machine) Program(_ context.Context, name string) (string, error) {
	if !slices.Contains(m.programs, name) {
		return "", fs.ErrNotExist
	}
	return "/usr/bin/" + name, nil
}

func (m *machine) KubeletVersion(context.Context) (string, error) { return m.kubelet, m.kubeletErr }

func (m *machine) Service(_ context.Context, name string) (state.Service, error) {
	return m.services[name], m.serviceErr
}

func (m *machine) Runtime(context.Context, string) (state.Runtime, error) {
	*m.runtimeQuestions++ // unguarded: -race detects a set that asks twice
	return m.runtime, m.runtimeErr
}

func (m *machine) Runtimes(context.Context) ([]string, error) { return m.sockets, nil }

func (m *machine) Lookup(ctx context.Context, _ string) ([]string, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("a look-up without a bound")
	}
	return m.resolves, m.resolveErr
}

func (m *machine) Proxy(_ context.Context, host string) (string, error) {
	return m.proxies[host], m.proxyErr
}

func (m *machine) Addresses(context.Context) ([]state.Address, error) {
	return []state.Address{{IP: "10.0.0.5"}, {IP: "192.168.7.5"}}, nil
}

func (m *machine) Verify(_ context.Context, kubelet string) (warnings, errs []error) {
	if kubelet != m.kubelet {
		return nil, []error{errors.New("asked about kubelet " + kubelet)}
	}
	return m.kernelOdd, m.kernelBad
}

func (m *machine) Fetch(_ context.Context, req state.Request) (state.Response, error) {
	m.fetched = &req
	if m.answerErr != nil {
		return state.Response{}, m.answerErr
	}
	next := m.answers[0]
	m.answers = m.answers[min(1, len(m.answers)-1):]
	return next, nil
}

// fit returns a machine that passes every check.
func fit() *machine {
	return &machine{
		host: state.HostInfo{CPUs: 2, MemoryMiB: 1700,
			Env: []string{"PATH=/bin", "PATH=/usr/sbin:/usr/bin"}},
		files: map[string]string{
			"/proc/swaps":                    "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
			"/proc/sys/net/ipv4/ip_forward":  "1\n",
			"/etc/kubernetes/kubeadm.yaml":   "of no interest",
			"/var/lib/etcd-of-others/member": "of no interest",
		},
		broken:   map[string]error{},
		programs: []string{"kubelet", "losetup", "mount", "cp"},
		kubelet:  "v1.37.1",
		services: map[string]state.Service{"kubelet": {Exists: true, Enabled: true}},
		runtime: state.Runtime{Name: "containerd", Version: "v2.4.2", Ready: true,
			ReportsDriver: true},
		busy:             map[string]error{},
		resolves:         []string{"10.0.0.5"},
		proxies:          map[string]string{},
		runtimeQuestions: new(int),
	}
}

func local(role node.Role) node.Local {
	return node.Local{
		Name: "cp1", Role: role, CRISocket: "unix:///run/containerd/containerd.sock",
		CACertPath: "/etc/kubernetes/pki/ca.crt", PullPolicy: corev1.PullIfNotPresent,
		Paths: node.DefaultPaths(),
	}
}

func controlPlane() *node.Node {
	n := &node.Node{Local: local(node.ControlPlane)}
	n.Address, n.BindPort = "10.0.0.5", 6443
	n.Cluster = node.Cluster{Version: "v1.37.1", ServiceSubnet: "10.96.0.0/12",
		Etcd: node.Etcd{DataDir: "/var/lib/etcd"}}
	return n
}

func worker() *node.Local {
	l := local(node.Worker)
	l.Discovery.Endpoint = "10.0.0.5:6443"
	return &l
}

func tool(t *testing.T) release.Tool {
	t.Helper()
	tool, err := release.ParseTool("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func lines(found []Finding) string {
	var list []string
	for _, f := range found {
		list = append(list, f.String())
	}
	return strings.Join(list, "\n")
}
