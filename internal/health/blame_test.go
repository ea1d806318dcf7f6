package health

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// runtime is a machine of which only the containers and the clock are looked at.
type runtime struct {
	change.Reader
	now        time.Time
	containers []change.Container
}

func (r *runtime) Now() time.Time { return r.now }

func (r *runtime) Containers(context.Context, string) ([]change.Container, error) {
	return r.containers, nil
}

// ended is the scheduler's container that a Pod started for the n-th time, from 0, and that failed.
func ended(id string, n uint32, log string) change.Container {
	return change.Container{ID: id, Name: "kube-scheduler", Component: "kube-scheduler", ExitCode: 1, Attempt: n, Log: log}
}

func TestAWaitGivesUpOnlyForWhatItHasSeen(t *testing.T) {
	other := ended("x", 9, "unknown flag")
	other.Component = "" // of a Pod that only has such a name
	running := ended("a", 0, "")
	running.Running = true
	for name, c := range map[string]struct {
		looks   [][]change.Container
		givesUp bool
	}{
		"ends once":                      {[][]change.Container{{}, {ended("a", 0, "")}}, false},
		"ends for the fifth time":        {[][]change.Container{{}, {ended("a", 3, ""), ended("b", 4, "")}}, true},
		"refuses its arguments":          {[][]change.Container{{}, {ended("a", 0, "unknown flag: --x")}}, true},
		"ended often before the wait":    {[][]change.Container{{ended("a", 7, "")}, {ended("a", 7, "")}}, false},
		"refused arguments before":       {[][]change.Container{{ended("a", 0, "unknown flag: --x")}, {ended("a", 0, "unknown flag: --x")}}, false},
		"before, and once more":          {[][]change.Container{{ended("a", 7, "")}, {ended("b", 8, "")}}, false},
		"before, and five times more":    {[][]change.Container{{ended("a", 7, "")}, {ended("b", 12, "")}}, true},
		"before, in a Pod since changed": {[][]change.Container{{ended("a", 7, "")}, {ended("a", 7, ""), ended("b", 0, "")}}, false},
		"ran when the wait began":        {[][]change.Container{{running}, {ended("a", 0, "unknown flag: --x")}}, true},
		"a namesake elsewhere":           {[][]change.Container{{}, {other}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, r := &blame{component: "kube-scheduler"}, &runtime{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			var err error
			for _, r.containers = range c.looks {
				r.now = r.now.Add(lookEvery)
				err = b.explain(t.Context(), r, errors.New("no answer"))
			}
			if err == nil || world.Hopeless(err) != c.givesUp {
				t.Errorf("%v; gives up: %v", err, world.Hopeless(err))
			}
		})
	}
}

// TestAWaitThatEndsBetweenTwoLooksTellsTheReason looks twice within the time in which containers are looked at once.
func TestAWaitThatEndsBetweenTwoLooksTellsTheReason(t *testing.T) {
	b, r := &blame{component: "kube-scheduler"}, &runtime{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.containers = []change.Container{ended("a", 0, "no space left")}
	silent := errors.New("no answer")
	for range 2 {
		if err := b.explain(t.Context(), r, silent); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("the reason is not told: %v", err)
		}
		r.now = r.now.Add(lookEvery / 4)
	}
	r.now, r.containers = r.now.Add(lookEvery), nil
	if err := b.explain(t.Context(), r, silent); err != silent {
		t.Errorf("nothing has ended, but: %v", err)
	}
}

func TestTheReasonIsFoundInTheLog(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"klog":    {"I1 version\nE1 run.go:72] \"command failed\" err=\"open /nope\"\n", `E1 run.go:72] "command failed" err="open /nope"`},
		"zap":     {"{\"level\":\"info\"}\n{\"level\":\"panic\",\"error\":\"no space left\"}\npanic: failed\nmain.go:1\n", `{"level":"panic","error":"no space left"}`},
		"usage":   {"invalid value \"x\" for flag -quota: parse error\nUsage:\n  etcd [flags]\n", `invalid value "x" for flag -quota: parse error`},
		"nothing": {"a\nb\nc\nd\n", "b | c | d"},
	} {
		if got := reason(c.log); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
