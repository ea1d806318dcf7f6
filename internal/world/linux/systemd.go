package linux

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// systemd is spoken to over D-Bus; see org.freedesktop.systemd1(5).
type systemd struct{}

func (systemd) service(ctx context.Context, name string) (state.Service, error) {
	conn, err := connect(ctx)
	if err != nil {
		return state.Service{}, err
	}
	defer conn.Close()
	u, err := load(ctx, conn, name)
	return u.service(), err
}

func (systemd) restart(ctx context.Context, name string) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Always, since NeedDaemonReload stays false when a unit gets its first drop-in.
	if err := conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("making systemd read its units anew: %w", err)
	}
	return job(ctx, name, conn.RestartUnitContext)
}

func (systemd) stop(ctx context.Context, name string) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	u, err := load(ctx, conn, name)
	if err != nil || u.state == "not-found" {
		return err
	}
	return job(ctx, name, conn.StopUnitContext)
}

// log leaves out what systemd itself says of the unit; see systemd.journal-fields(7).
func (systemd) log(ctx context.Context, name string) (string, error) {
	const lines, limit = "20", 2048
	text, err := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines="+lines,
		"_SYSTEMD_UNIT="+unitName(name)).Output()
	if err != nil {
		return "", err
	}
	return string(text[max(0, len(text)-limit):]), nil
}

func connect(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return conn, nil
}

type start func(ctx context.Context, unit, mode string, result chan<- string) (int, error)

// job queues a job and waits for its end.
func job(ctx context.Context, name string, begin start) error {
	result := make(chan string, 1)
	if _, err := begin(ctx, unitName(name), "replace", result); err != nil {
		return seeStatus(name, err)
	}
	select {
	case r := <-result:
		if r != "done" {
			return seeStatus(name, fmt.Errorf("the job of systemd ended with %q", r))
		}
		return nil
	case <-ctx.Done():
		return seeStatus(name, context.Cause(ctx))
	}
}

func seeStatus(name string, err error) error {
	return problem.New("", err, "see what the service says: systemctl status "+name, "and what it wrote: journalctl -xeu "+name)
}

// unit is what systemd knows of a unit, in its own words.
type unit struct {
	state, active, file string // LoadState, ActiveState, UnitFileState
	since               uint64 // when it last became active, in µs since 1970
}

func load(ctx context.Context, conn *dbus.Conn, name string) (unit, error) {
	all, err := conn.GetUnitPropertiesContext(ctx, unitName(name))
	if err != nil {
		return unit{}, err
	}
	var u unit
	u.state, _ = all["LoadState"].(string)
	u.active, _ = all["ActiveState"].(string)
	u.file, _ = all["UnitFileState"].(string)
	u.since, _ = all["ActiveEnterTimestamp"].(uint64)
	if u.state == "" || u.active == "" {
		return unit{}, fmt.Errorf("systemd tells nothing of unit %q", unitName(name))
	}
	return u, nil
}

func (u unit) service() state.Service {
	s := state.Service{
		Exists:  u.state != "" && u.state != "not-found",
		Enabled: slices.Contains([]string{"enabled", "enabled-runtime", "static", "alias", "indirect", "generated"}, u.file),
		Active:  slices.Contains([]string{"active", "activating", "reloading", "refreshing"}, u.active),
	}
	// A unit between two attempts to start counts as active and still remembers when it last ran.
	if s.Active && u.active != "activating" && u.since != 0 {
		s.Since = time.UnixMicro(int64(u.since))
	}
	return s
}

func unitName(name string) string {
	if filepath.Ext(name) == "" {
		return name + ".service"
	}
	return name
}
