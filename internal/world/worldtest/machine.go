package worldtest

import (
	"errors"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Mounts checks listing mounts and undoing those below dir, of which there is at least one.
func Mounts(t *testing.T, w world.World, dir string) {
	all := mounts(t, w, "/")
	below := mounts(t, w, dir)
	if len(below) == 0 {
		t.Fatalf("nothing is mounted below %s", dir)
	}
	for _, m := range below {
		if m != dir && !strings.HasPrefix(m, dir+"/") {
			t.Errorf("%s is not below %s", m, dir)
		}
		if !slices.Contains(all, m) {
			t.Errorf("%s is missing from the list of all mounts %q", m, all)
		}
	}
	refuses(t, w, change.Unmount{Below: dir, Flags: []string{"MNT_NONE"}})
	isDone(t, w, change.Unmount{Below: dir}, false)
	do(t, w, change.Unmount{Below: dir})
	want := slices.DeleteFunc(slices.Clone(all), func(m string) bool { return strings.HasPrefix(m, dir+"/") })
	if got := mounts(t, w, "/"); len(got) != len(want) {
		t.Errorf("mounted before: %q, after: %q", all, got)
	}
	if none := mounts(t, w, path.Join(dir, "never-there")); len(none) != 0 {
		t.Errorf("below a folder that does not exist: %q", none)
	}
}

func mounts(t *testing.T, w world.World, dir string) []string {
	t.Helper()
	all, err := w.Mounts(limited(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Programs checks finding programs: present is one that exists, and kubelet the version of the one that does.
func Programs(t *testing.T, w world.World, present, kubelet string) {
	at, err := w.Program(limited(t), present)
	if err != nil || !path.IsAbs(at) || path.Base(at) != present {
		t.Errorf("%s: got %q and %v", present, at, err)
	}
	_, err = w.Program(limited(t), "kubeadm-no-such-program")
	isAbsent(t, err)
	version, err := w.KubeletVersion(limited(t))
	if err != nil || version != kubelet {
		t.Errorf("got kubelet %q and %v, want %q", version, err, kubelet)
	}
}

// NoKubelet checks what a world without a kubelet says.
func NoKubelet(t *testing.T, w world.World) {
	_, err := w.KubeletVersion(limited(t))
	isAbsent(t, err)
}

// Host checks facts about the machine.
func Host(t *testing.T, w world.World) {
	h, err := w.Host(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if h.Hostname == "" || h.UserID < 0 || h.CPUs < 1 || h.MemoryMiB < 1 || len(h.Env) == 0 {
		t.Errorf("a machine cannot be like that: %+v", h)
	}
	for _, e := range h.Env {
		if !strings.Contains(e, "=") {
			t.Errorf("%q of the environment has no value", e)
		}
	}
	warnings, errs := w.Verify(limited(t), "v1.37.1")
	if slices.Contains(append(warnings, errs...), error(nil)) {
		t.Errorf("a finding that finds nothing: %v, %v", warnings, errs)
	}
}

// Ports is what the suite of the network needs: a host name that resolves, an address on
// which somebody listens for TCP, and one on which nobody does, "host:port".
type Ports struct{ Name, Taken, Free string }

// Network checks what a machine sees of its network.
func Network(t *testing.T, w world.World, given Ports) {
	n := network{w, given}
	t.Run("addresses", n.addresses)
	t.Run("lookup", n.lookup)
	t.Run("listen", n.listen)
	t.Run("nobody answers", n.nobody)
}

type network struct {
	w world.World
	Ports
}

func (n network) addresses(t *testing.T) {
	all, err := n.w.Addresses(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	other := false
	for _, a := range all {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || !ip.IsGlobalUnicast() || a.Interface == "" {
			t.Errorf("%+v is not a global unicast address of an interface", a)
		}
		if a.DefaultRoute && other {
			t.Errorf("%+v comes after addresses without the default route", a)
		}
		other = other || !a.DefaultRoute
	}
}

func (n network) lookup(t *testing.T) {
	found, err := n.w.Lookup(limited(t), n.Name)
	if err != nil || len(found) == 0 {
		t.Errorf("%s: got %q and %v", n.Name, found, err)
	}
	for _, f := range found {
		if _, err := netip.ParseAddr(f); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
	}
	if found, err := n.w.Lookup(limited(t), "not a host name"); err == nil {
		t.Errorf("got %q for a name that cannot exist", found)
	}
}

func (n network) listen(t *testing.T) {
	for range 2 {
		if err := n.w.CanListen(limited(t), n.Free); err != nil {
			t.Errorf("%s is free: %v", n.Free, err)
		}
	}
	var taken *state.PortError
	if err := n.w.CanListen(limited(t), n.Taken); !errors.As(err, &taken) || taken.Address != n.Taken || taken.Err == nil {
		t.Errorf("%s is taken: got %v", n.Taken, err)
	}
}

func (n network) nobody(t *testing.T) {
	if _, err := n.w.Fetch(limited(t), state.Request{URL: "http://" + n.Free + "/healthz"}); err == nil {
		t.Error("fetching where nobody listens: want an error")
	}
	if _, err := n.w.ClusterInfo(limited(t), "https://"+n.Free, nil); err == nil {
		t.Error("cluster-info where nobody listens: want an error")
	}
	if _, err := n.w.Proxy(limited(t), "192.0.2.1"); err != nil {
		t.Error(err)
	}
}
