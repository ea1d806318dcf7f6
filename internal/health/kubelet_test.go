package health

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// unit is a machine with the kubelet's service and a clock.
type unit struct {
	state.Reader
	now     time.Time
	service state.Service
	log     string
}

func (u *unit) Now() time.Time { return u.now }

func (u *unit) Service(context.Context, string) (state.Service, error) { return u.service, nil }

func (u *unit) ServiceLog(context.Context, string, int) (string, error) { return u.log, nil }

func TestLastKubeletLogLine(t *testing.T) {
	down := state.Service{Exists: true, Enabled: true, Active: true}
	up := down
	up.Since = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		states  []state.Service
		logs    []string
		says    string
		givesUp bool
	}{
		"runs": {[]state.Service{up}, []string{"unknown flag: --x"},
			"no answer", false},
		"exited because of its flags": {[]state.Service{down, down},
			[]string{"dump\nunknown flag: --x\n", "dump\nunknown flag: --x\n"},
			"its last log line is \"unknown flag: --x\"", true},
		"exited before the wait": {[]state.Service{down, down},
			[]string{"failed to load kubelet config file", "no space"},
			"its last log line is \"no space\"", false},
		"exited with an unknown error": {[]state.Service{down, down},
			[]string{"too many open files", "too many open files"}, "too many open files", false},
		"runs again": {[]state.Service{down, up},
			[]string{"unknown flag: --x", "unknown flag: --x"}, "at the last check: no answer",
			false},
		"runs for a minute": {[]state.Service{down,
			{Exists: true, Since: up.Since.Add(-recoveredAfter)}}, []string{"no space", ""},
			"no answer", false},
		"no service": {[]state.Service{{}}, []string{"unknown flag: --x"}, "no answer", false},
		"no log":     {[]state.Service{down, down}, []string{"", ""}, "no answer", false},
	} {
		t.Run(name, func(t *testing.T) {
			var w kubeletWatch
			u := &unit{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			var err error
			for i := range c.states {
				u.now, u.service, u.log = u.now.Add(lookInterval), c.states[i], c.logs[i]
				err = w.addCause(t.Context(), u, errors.New("no answer"))
			}
			if err == nil || !strings.Contains(err.Error(), c.says) ||
				world.IsPermanent(err) != c.givesUp {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}
