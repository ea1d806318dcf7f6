package fault

import (
	"context"
	"crypto/x509"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Reads is a world in which one read fails, or that one and all later ones.
type Reads struct {
	world.World
	At    int   // the read that fails, counted from 0
	Later bool  // all later reads fail as well
	Err   error // the error of failed reads

	mu sync.Mutex
	n  int
}

// Count returns the number of reads.
func (w *Reads) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// Fail counts one read and returns the error with which it fails, or nil.
func (w *Reads) Fail() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fails := w.n == w.At || w.Later && w.n > w.At
	w.n++
	if fails {
		return w.Err
	}
	return nil
}

// readUnlessFailing returns the result of read, unless this read fails.
func readUnlessFailing[T any](w *Reads, read func() (T, error)) (T, error) {
	if err := w.Fail(); err != nil {
		var none T
		return none, err
	}
	return read()
}

// Await passes this world to the check of the condition, so that its reads may fail as well.
func (w *Reads) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w) }
	return w.World.Await(ctx, c)
}

// ReadFile is a read.
func (w *Reads) ReadFile(ctx context.Context, path string) ([]byte, error) {
	return readUnlessFailing(w, func() ([]byte, error) { return w.World.ReadFile(ctx, path) })
}

// ReadPrivate is a read.
func (w *Reads) ReadPrivate(ctx context.Context, path string) ([]byte, error) {
	return readUnlessFailing(w, func() ([]byte, error) { return w.World.ReadPrivate(ctx, path) })
}

// OpenFile is a read.
func (w *Reads) OpenFile(ctx context.Context, path string) (io.ReadCloser, error) {
	return readUnlessFailing(w, func() (io.ReadCloser, error) { return w.World.OpenFile(ctx, path) })
}

// ReadSnapshot is a read.
func (w *Reads) ReadSnapshot(ctx context.Context, path string) (etcdsnapshot.Info, error) {
	return readUnlessFailing(w, func() (etcdsnapshot.Info, error) { return w.World.ReadSnapshot(ctx, path) })
}

// ReadDatabase is a read.
func (w *Reads) ReadDatabase(ctx context.Context, path string) (etcdsnapshot.Info, error) {
	return readUnlessFailing(w, func() (etcdsnapshot.Info, error) { return w.World.ReadDatabase(ctx, path) })
}

// Stat is a read.
func (w *Reads) Stat(ctx context.Context, path string) (state.FileInfo, error) {
	return readUnlessFailing(w, func() (state.FileInfo, error) { return w.World.Stat(ctx, path) })
}

// ReadDir is a read.
func (w *Reads) ReadDir(ctx context.Context, path string) ([]state.FileInfo, error) {
	return readUnlessFailing(w,
		func() ([]state.FileInfo, error) { return w.World.ReadDir(ctx, path) })
}

// Service is a read.
func (w *Reads) Service(ctx context.Context, name string) (state.Service, error) {
	return readUnlessFailing(w, func() (state.Service, error) { return w.World.Service(ctx, name) })
}

// ServiceLog is a read.
func (w *Reads) ServiceLog(ctx context.Context, name string, since time.Time,
	limit int) (string, error) {
	return readUnlessFailing(w, func() (string, error) { return w.World.ServiceLog(ctx, name, since, limit) })
}

// Mounts is a read.
func (w *Reads) Mounts(ctx context.Context, dir string) ([]string, error) {
	return readUnlessFailing(w, func() ([]string, error) { return w.World.Mounts(ctx, dir) })
}

// Program is a read.
func (w *Reads) Program(ctx context.Context, name string) (string, error) {
	return readUnlessFailing(w, func() (string, error) { return w.World.Program(ctx, name) })
}

// KubeletVersion is a read.
func (w *Reads) KubeletVersion(ctx context.Context) (string, error) {
	return readUnlessFailing(w, func() (string, error) { return w.World.KubeletVersion(ctx) })
}

// Host is a read.
func (w *Reads) Host(ctx context.Context) (state.HostInfo, error) {
	return readUnlessFailing(w, func() (state.HostInfo, error) { return w.World.Host(ctx) })
}

// Verify is a read. If it fails, the error is in errs.
func (w *Reads) Verify(ctx context.Context, version string) (warnings, errs []error) {
	if err := w.Fail(); err != nil {
		return nil, []error{err}
	}
	return w.World.Verify(ctx, version)
}

// Addresses is a read.
func (w *Reads) Addresses(ctx context.Context) ([]state.Address, error) {
	return readUnlessFailing(w, func() ([]state.Address, error) { return w.World.Addresses(ctx) })
}

// Lookup is a read.
func (w *Reads) Lookup(ctx context.Context, host string) ([]string, error) {
	return readUnlessFailing(w, func() ([]string, error) { return w.World.Lookup(ctx, host) })
}

// CanListen is a read.
func (w *Reads) CanListen(ctx context.Context, address string) error {
	_, err := readUnlessFailing(w,
		func() (any, error) { return nil, w.World.CanListen(ctx, address) })
	return err
}

// ServedCertificate is a read.
func (w *Reads) ServedCertificate(ctx context.Context, address string) (*x509.Certificate, error) {
	return readUnlessFailing(w,
		func() (*x509.Certificate, error) { return w.World.ServedCertificate(ctx, address) })
}

// ServerTime is a read.
func (w *Reads) ServerTime(ctx context.Context, address string) (time.Time, error) {
	return readUnlessFailing(w,
		func() (time.Time, error) { return w.World.ServerTime(ctx, address) })
}

// Proxy is a read.
func (w *Reads) Proxy(ctx context.Context, host string) (string, error) {
	return readUnlessFailing(w, func() (string, error) { return w.World.Proxy(ctx, host) })
}

// Fetch is a read.
func (w *Reads) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	return readUnlessFailing(w, func() (state.Response, error) { return w.World.Fetch(ctx, req) })
}

// ClusterInfo is a read.
func (w *Reads) ClusterInfo(ctx context.Context, server string,
	ca []byte) (map[string]string, error) {
	return readUnlessFailing(w,
		func() (map[string]string, error) { return w.World.ClusterInfo(ctx, server, ca) })
}

// Runtimes is a read.
func (w *Reads) Runtimes(ctx context.Context) ([]string, error) {
	return readUnlessFailing(w, func() ([]string, error) { return w.World.Runtimes(ctx) })
}

// Runtime is a read.
func (w *Reads) Runtime(ctx context.Context, socket string) (state.Runtime, error) {
	return readUnlessFailing(w,
		func() (state.Runtime, error) { return w.World.Runtime(ctx, socket) })
}

// Image is a read.
func (w *Reads) Image(ctx context.Context, socket, ref string) (bool, error) {
	return readUnlessFailing(w, func() (bool, error) { return w.World.Image(ctx, socket, ref) })
}

// Sandboxes is a read.
func (w *Reads) Sandboxes(ctx context.Context, socket string) ([]state.Sandbox, error) {
	return readUnlessFailing(w,
		func() ([]state.Sandbox, error) { return w.World.Sandboxes(ctx, socket) })
}

// SandboxNetworks is a read.
func (w *Reads) SandboxNetworks(ctx context.Context, socket string) (map[string]string, error) {
	return readUnlessFailing(w,
		func() (map[string]string, error) { return w.World.SandboxNetworks(ctx, socket) })
}

// ImageRefs is a read.
func (w *Reads) ImageRefs(ctx context.Context, socket string) ([]string, error) {
	return readUnlessFailing(w, func() ([]string, error) { return w.World.ImageRefs(ctx, socket) })
}

// Links is a read.
func (w *Reads) Links(ctx context.Context) ([]state.Link, error) {
	return readUnlessFailing(w, func() ([]state.Link, error) { return w.World.Links(ctx) })
}

// PacketRules is a read.
func (w *Reads) PacketRules(ctx context.Context, program string) (string, error) {
	return readUnlessFailing(w,
		func() (string, error) { return w.World.PacketRules(ctx, program) })
}

// VirtualServers is a read.
func (w *Reads) VirtualServers(ctx context.Context) ([]state.VirtualServer, error) {
	return readUnlessFailing(w,
		func() ([]state.VirtualServer, error) { return w.World.VirtualServers(ctx) })
}

// Containers is a read.
func (w *Reads) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	return readUnlessFailing(w,
		func() ([]state.Container, error) { return w.World.Containers(ctx, socket) })
}

// Members is a read.
func (w *Reads) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	return readUnlessFailing(w, func() ([]state.Member, error) { return w.World.Members(ctx, via) })
}

// MemberStatus is a read.
func (w *Reads) MemberStatus(ctx context.Context, via state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	return readUnlessFailing(w,
		func() (state.MemberStatus, error) { return w.World.MemberStatus(ctx, via, m) })
}

// Object is a read.
func (w *Reads) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	return readUnlessFailing(w,
		func() (*unstructured.Unstructured, error) { return w.World.Object(ctx, ref) })
}

// List is a read.
func (w *Reads) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	return readUnlessFailing(w,
		func() ([]unstructured.Unstructured, error) { return w.World.List(ctx, q) })
}

// Watch is a read.
func (w *Reads) Watch(ctx context.Context, of state.Watch) (string, error) {
	return readUnlessFailing(w, func() (string, error) { return w.World.Watch(ctx, of) })
}

// TryCreate is a read.
func (w *Reads) TryCreate(ctx context.Context, o state.Object, as state.Identity) error {
	_, err := readUnlessFailing(w,
		func() (any, error) { return nil, w.World.TryCreate(ctx, o, as) })
	return err
}

// PodLog is a read.
func (w *Reads) PodLog(ctx context.Context, of state.PodLog) (string, error) {
	return readUnlessFailing(w, func() (string, error) { return w.World.PodLog(ctx, of) })
}

// Livez is a read.
func (w *Reads) Livez(ctx context.Context, as state.Identity) error {
	_, err := readUnlessFailing(w, func() (any, error) { return nil, w.World.Livez(ctx, as) })
	return err
}
