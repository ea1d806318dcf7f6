package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// downs finds out why the kubelet does not answer: whether it ended, and what it wrote last.
type downs struct {
	looked time.Time
	said   string // what it had ended with at the look before
	found  error  // by that look; a wait may end before the next one
}

// explain adds to err what the kubelet wrote before it ended, and gives up where starting it again cannot help.
func (d *downs) explain(ctx context.Context, r change.Reader, err error) error {
	if err == nil {
		return nil
	}
	if r.Now().Sub(d.looked) < lookEvery {
		return cmp.Or(d.found, err)
	}
	d.looked, d.found = r.Now(), nil
	said := lastWords(ctx, r)
	before := d.said
	d.said = said
	if said == "" {
		return err
	}
	err = fmt.Errorf("it ended, and its last words were: %s", said)
	// The words of an earlier end may stay in the log for a moment after the next one.
	if refuses(said) && said == before {
		return world.GiveUp(err)
	}
	d.found = err
	return err
}

// lastWords is what the kubelet wrote before it ended; empty if it runs or if that is not known.
func lastWords(ctx context.Context, r change.Reader) string {
	s, err := r.Service(ctx, "kubelet")
	if err != nil || !s.Exists || !s.Since.IsZero() {
		return ""
	}
	log, err := r.ServiceLog(ctx, "kubelet")
	if err != nil {
		return ""
	}
	return lastLines(log, 1)
}

// refuses tells whether the kubelet ended over its settings or the machine it is on: it will do so for ever.
func refuses(said string) bool {
	return badArguments(said) || slices.ContainsFunc([]string{
		"failed to load kubelet config file",
		"failed to validate kubelet configuration",
		"is configured to not run on a host using cgroup v1",
		"running with swap on is not supported",
	}, func(sign string) bool { return strings.Contains(said, sign) })
}
