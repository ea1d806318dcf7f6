package scale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// auditPolicy logs each request once.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules: [{level: Metadata}]
`

// cost is what one command has cost.
type cost struct {
	Requests int            `json:"requests"`
	ByKind   map[string]int `json:"byKind"` // such as "list nodes"
	Bytes    int64          `json:"bytes"`  // that the API server sent, with TLS
	Memory   int64          `json:"memory"` // the largest resident set, in bytes
	// Anonymous is the part of it that is no mapped file, of commands on nodes.
	Anonymous int64   `json:"anonymousMemory,omitempty"`
	Seconds   float64 `json:"seconds"`
	CPU       float64 `json:"cpuSeconds"`
	Exit      int     `json:"exit"`
}

// meter stands between the commands and the API server.
type meter struct {
	address string // of the proxy that counts
	bytes   atomic.Int64
	log     *os.File // of the API server's audit
}

// startMeter starts a proxy that counts the bytes of a server.
func startMeter(t *testing.T, server string, log *os.File) *meter {
	t.Helper()
	server = strings.TrimPrefix(server, "https://")
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	m := &meter{address: l.Addr().String(), log: log}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go m.forward(in, server)
		}
	}()
	return m
}

func (m *meter) forward(in net.Conn, server string) {
	defer in.Close()
	out, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, in)
		out.Close()
	}()
	_, _ = io.Copy(in, countingReader{out, &m.bytes})
}

type countingReader struct {
	io.Reader
	count *atomic.Int64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.count.Add(int64(n))
	return n, err
}

// run runs a program and returns what it has cost, and its output.
func (m *meter) run(t *testing.T, program string, args ...string) (cost, string) {
	t.Helper()
	if _, err := io.Copy(io.Discard, m.log); err != nil { // of requests before
		t.Fatal(err)
	}
	before := m.bytes.Load()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watchMemory(cmd.Process.Pid, exited) }()
	err := cmd.Wait()
	c := cost{Seconds: time.Since(begun).Seconds(), ByKind: map[string]int{}}
	close(exited)
	c.Memory = <-peak
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	c.Exit = cmd.ProcessState.ExitCode()
	c.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	c.Bytes = m.bytes.Load() - before
	countRequests(t, m.log, &c)
	return c, out.String()
}

// watchMemory returns the largest resident set of a process. The kernel's figure for an exited process
// would be that of this one, which is larger, since it is the memory of the new process until exec.
func watchMemory(pid int, exited <-chan struct{}) (peak int64) {
	for {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil {
			if _, rest, ok := strings.Cut(string(data), "VmHWM:"); ok {
				var kilobytes int64
				if _, err := fmt.Sscan(rest, &kilobytes); err == nil {
					peak = kilobytes << 10
				}
			}
		}
		select {
		case <-exited:
			return peak
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// countRequests counts the requests of kubeadm in the rest of an audit log.
func countRequests(t *testing.T, log io.Reader, c *cost) {
	t.Helper()
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var event struct {
			Verb, UserAgent, RequestURI string
			ObjectRef                   struct{ Resource, Subresource string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(event.UserAgent, "kubeadm") {
			continue
		}
		what := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		if what == "" {
			what, _, _ = strings.Cut(event.RequestURI, "?")
		}
		c.Requests++
		c.ByKind[event.Verb+" "+what]++
	}
}
