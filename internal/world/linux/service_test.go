//go:build linux

package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

func TestSystemdUnitStates(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_123_456)
	since := uint64(start.UnixMicro())
	for name, c := range map[string]struct {
		unit unit
		want state.Service
	}{
		"running": {unit{state: "loaded", active: "active", file: "enabled", since: since},
			state.Service{Exists: true, Enabled: true, Active: true, Since: start}},
		"stopped": {unit{state: "loaded", active: "inactive", file: "disabled", since: since},
			state.Service{Exists: true}},
		"failed": {unit{state: "loaded", active: "failed", file: "enabled", since: since},
			state.Service{Exists: true, Enabled: true}},
		"between attempts": {unit{state: "loaded", active: "activating", file: "enabled", since: since},
			state.Service{Exists: true, Enabled: true, Active: true}},
		"exited": {unit{state: "loaded", active: "activating", file: "enabled", since: since, restarts: 3,
			begun: since, ended: since + 1e6, code: 1, status: 2},
			state.Service{Exists: true, Enabled: true, Active: true, Restarts: 3,
				LastExit: state.Exit{Started: start, Time: start.Add(time.Second), Code: 2}}},
		"killed": {unit{state: "loaded", active: "failed", file: "enabled", since: since, restarts: 3,
			begun: since, ended: since + 1e6, code: 2, status: 9},
			state.Service{Exists: true, Enabled: true,
				LastExit: state.Exit{Started: start, Time: start.Add(time.Second), Signal: 9}}},
		"stopped, killed by that": {unit{state: "loaded", active: "inactive", file: "enabled",
			begun: since, ended: since + 1e6, code: 2, status: 15},
			state.Service{Exists: true, Enabled: true}},
		"starts after an exit": {unit{state: "loaded", active: "activating", file: "enabled", begun: since},
			state.Service{Exists: true, Enabled: true, Active: true}},
		"reloading": {unit{state: "loaded", active: "reloading", file: "static", since: since},
			state.Service{Exists: true, Enabled: true, Active: true, Since: start}},
		"masked":  {unit{state: "masked", active: "inactive", file: "masked", since: 0}, state.Service{Exists: true}},
		"linked":  {unit{state: "loaded", active: "inactive", file: "linked", since: 0}, state.Service{Exists: true}},
		"unknown": {unit{state: "not-found", active: "inactive", file: "", since: 0}, state.Service{}},
	} {
		if got := c.unit.service(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestUnitNames(t *testing.T) {
	for name, want := range map[string]string{"kubelet": "kubelet.service",
		"crio.socket": "crio.socket", "systemd-resolved": "systemd-resolved.service"} {
		if got := unitName(name); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNoInitSystem(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("systemd runs here")
	}
	t.Setenv("PATH", newTempDir(t))
	if _, err := (Machine{}).Service(t.Context(), "kubelet"); !errors.Is(err,
		state.ErrNoInitSystem) {
		t.Errorf("got %v", err)
	}
	for _, active := range []bool{true, false} {
		if err := (Machine{}).Do(t.Context(),
			change.SetService{Name: "kubelet", Active: active}); !errors.Is(err,
			state.ErrNoInitSystem) {
			t.Errorf("got %v", err)
		}
	}
}

// rcService is a script that simulates rc-service for one service, "kubelet".
const rcService = `#!/bin/sh
if [ "$1" = --exists ]; then [ "$2" = kubelet ]; exit; fi
[ "$1" = kubelet ] || { echo " * rc-service: service '$1' does not exist" >&2; exit 1; }
case $2 in
status) [ -L $STATE/started/kubelet ] && exit 0; exit 3;;
restart) [ -e $STATE/broken ] && { echo "cannot run it" >&2; exit 1; }; mkdir -p $STATE/started; rm -f $STATE/started/kubelet; ln -s /etc/init.d/kubelet $STATE/started/kubelet;;
stop) rm -f $STATE/started/kubelet;;
esac
`

func TestOpenRC(t *testing.T) {
	bin, stateDir := newTempDir(t), newTempDir(t)
	for name, script := range map[string]string{"rc-service": rcService,
		"rc-update": "#!/bin/sh\n[ \"$*\" = 'show default' ] && printf '       kubelet | default\\n  local | default\\n'\n"} {
		if err := os.Chmod(writeTestFile(t, script, bin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("STATE", stateDir)
	o := openRC{stateDir}
	is := func(name string, want state.Service) {
		t.Helper()
		got, err := o.service(t.Context(), name)
		since := got.Since
		got.Since = time.Time{}
		if err != nil || got != want || want.Active != (time.Since(since) < time.Minute) {
			t.Errorf("got %+v since %s, and %v; want %+v", got, since, err, want)
		}
	}
	is("local2", state.Service{})
	is("kubelet", state.Service{Exists: true, Enabled: true})
	if err := o.set(t.Context(), change.SetService{Name: "kubelet", Active: true}); err != nil {
		t.Error(err)
	}
	is("kubelet", state.Service{Exists: true, Enabled: true, Active: true})
	if err := errors.Join(o.set(t.Context(), change.SetService{Name: "kubelet"}),
		o.set(t.Context(), change.SetService{Name: "local2"})); err != nil {
		t.Error(err)
	}
	is("kubelet", state.Service{Exists: true, Enabled: true})
	writeTestFile(t, "", filepath.Join(stateDir, "broken"))
	err := o.set(t.Context(), change.SetService{Name: "kubelet", Active: true})
	if err == nil || !strings.Contains(err.Error(), "cannot run it") ||
		len(problem.Hints(err)) == 0 {
		t.Errorf("got %v, want its output and a hint", err)
	}
	if err := os.Remove(filepath.Join(bin, "rc-update")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.service(t.Context(), "kubelet"); err == nil {
		t.Error("without rc-update: want an error")
	}
}
