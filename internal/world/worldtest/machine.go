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

// Mounts checks listing mounts and unmounting those below dir, at least one.
func Mounts(t *testing.T, w world.World, dir string) {
	all := listMounts(t, w, "/")
	below := listMounts(t, w, dir)
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
	wantDoError(t, w, change.Unmount{Dir: dir, Flags: []string{"MNT_NONE"}})
	wantDone(t, w, change.Unmount{Dir: dir}, false)
	mustDo(t, w, change.Unmount{Dir: dir})
	want := slices.DeleteFunc(slices.Clone(all),
		func(m string) bool { return strings.HasPrefix(m, dir+"/") })
	if got := listMounts(t, w, "/"); len(got) != len(want) {
		t.Errorf("mounted before: %q, after: %q", all, got)
	}
	if none := listMounts(t, w, path.Join(dir, "never-there")); len(none) != 0 {
		t.Errorf("below a directory that does not exist: %q", none)
	}
}

func listMounts(t *testing.T, w world.World, dir string) []string {
	t.Helper()
	all, err := w.Mounts(newContext(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Programs checks finding programs: present is one that exists, kubelet the version of the
// kubelet.
func Programs(t *testing.T, w world.World, present, kubelet string) {
	at, err := w.Program(newContext(t), present)
	if err != nil || !path.IsAbs(at) || path.Base(at) != present {
		t.Errorf("%s: got %q and %v", present, at, err)
	}
	_, err = w.Program(newContext(t), "kubeadm-no-such-program")
	wantNotExist(t, err)
	version, err := w.KubeletVersion(newContext(t))
	if err != nil || version != kubelet {
		t.Errorf("got kubelet %q and %v, want %q", version, err, kubelet)
	}
}

// NoKubelet checks a world without a kubelet.
func NoKubelet(t *testing.T, w world.World) {
	_, err := w.KubeletVersion(newContext(t))
	wantNotExist(t, err)
}

// Host checks facts about the machine.
func Host(t *testing.T, w world.World) {
	h, err := w.Host(newContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if h.Hostname == "" || h.UserID < 0 || h.CPUs < 1 || h.MemoryMiB < 1 || len(h.Env) == 0 {
		t.Errorf("invalid facts: %+v", h)
	}
	for _, e := range h.Env {
		if !strings.Contains(e, "=") {
			t.Errorf("%q of the environment has no value", e)
		}
	}
	warnings, errs := w.Verify(newContext(t), "v1.37.1")
	if slices.Contains(append(warnings, errs...), error(nil)) {
		t.Errorf("a nil error: %v, %v", warnings, errs)
	}
}

// NetworkConfig is the input of the suite: a host name that resolves, an address with a TCP
// listener, and one without, as "host:port".
type NetworkConfig struct{ Name, Taken, Free string }

// Network checks reading addresses, host names and ports.
func Network(t *testing.T, w world.World, given NetworkConfig) {
	t.Run("addresses", func(t *testing.T) {
		all, err := w.Addresses(newContext(t))
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
	})
	t.Run("lookup", func(t *testing.T) {
		found, err := w.Lookup(newContext(t), given.Name)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: got %q and %v", given.Name, found, err)
		}
		for _, f := range found {
			if _, err := netip.ParseAddr(f); err != nil {
				t.Errorf("%s: %v", given.Name, err)
			}
		}
		if found, err := w.Lookup(newContext(t), "not a host name"); err == nil {
			t.Errorf("got %q for a name that cannot exist", found)
		}
	})
	t.Run("listen", func(t *testing.T) {
		for range 2 {
			if err := w.CanListen(newContext(t), given.Free); err != nil {
				t.Errorf("%s is free: %v", given.Free, err)
			}
		}
		var taken *state.PortError
		if err := w.CanListen(newContext(t), given.Taken); !errors.As(err, &taken) ||
			taken.Address != given.Taken || taken.Err == nil {
			t.Errorf("%s is taken: got %v", given.Taken, err)
		}
	})
	t.Run("unused port", func(t *testing.T) {
		if _, err := w.Fetch(newContext(t),
			state.Request{URL: "http://" + given.Free + "/healthz"}); err == nil {
			t.Error("Fetch from an unused port: want an error")
		}
		if _, err := w.ClusterInfo(newContext(t), "https://"+given.Free, nil); err == nil {
			t.Error("ClusterInfo from an unused port: want an error")
		}
		if _, err := w.Proxy(newContext(t), "192.0.2.1"); err != nil {
			t.Error(err)
		}
	})
}
