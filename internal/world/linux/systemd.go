//go:build linux

package linux

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// systemd controls services over D-Bus; see org.freedesktop.systemd1(5).
type systemd struct{}

func (systemd) service(ctx context.Context, name string) (state.Service, error) {
	conn, err := connectSystemd(ctx)
	if err != nil {
		return state.Service{}, err
	}
	defer conn.Close()
	u, err := loadUnit(ctx, conn, name)
	return u.service(), err
}

// set queues a job and waits until it has finished.
func (systemd) set(ctx context.Context, c change.SetService) error {
	conn, err := connectSystemd(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	start := conn.RestartUnitContext
	if c.Active {
		// Always, since NeedDaemonReload stays false when a unit gets its first drop-in.
		if err := conn.ReloadContext(ctx); err != nil {
			return fmt.Errorf("reloading the units of systemd: %w", err)
		}
	} else {
		u, err := loadUnit(ctx, conn, c.Name)
		if err != nil || u.state == "not-found" {
			return err
		}
		start = conn.StopUnitContext
	}
	result := make(chan string, 1)
	if _, err = start(ctx, unitName(c.Name), "replace", result); err == nil {
		select {
		case r := <-result:
			if r != "done" {
				err = fmt.Errorf("the systemd job finished with result %q", r)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return problem.New(err, "check the state of the service: systemctl status "+c.Name,
			"check its log: journalctl -xeu "+c.Name)
	}
	return nil
}

// enable changes the links that the unit file asks for, and lets systemd read them.
func (systemd) enable(ctx context.Context, c change.EnableService) error {
	conn, err := connectSystemd(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	files := []string{unitName(c.Name)}
	if c.Enabled {
		_, _, err = conn.EnableUnitFilesContext(ctx, files, false, false)
	} else {
		for _, untilReboot := range []bool{false, true} { // links in /etc, and in /run
			if err == nil {
				_, err = conn.DisableUnitFilesContext(ctx, files, untilReboot)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("enabling or disabling unit %q: %w", files[0], err)
	}
	return conn.ReloadContext(ctx)
}

func connectSystemd(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return conn, nil
}

// unit holds properties of a systemd unit.
type unit struct {
	state, active, file string // LoadState, ActiveState, UnitFileState
	since               uint64 // when it last became active, in µs since 1970
	restarts            uint32
	// of the last main process: when it began and ended, how (see waitid(2)), and its exit code or signal
	begun, ended uint64
	code, status int32
}

func loadUnit(ctx context.Context, conn *dbus.Conn, name string) (unit, error) {
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
		return unit{}, fmt.Errorf("systemd does not report a state for unit %q", unitName(name))
	}
	if u.state == "not-found" || !strings.HasSuffix(unitName(name), ".service") {
		return u, nil
	}
	if all, err = conn.GetUnitTypePropertiesContext(ctx, unitName(name), "Service"); err != nil {
		return unit{}, err
	}
	u.restarts, _ = all["NRestarts"].(uint32)
	u.begun, _ = all["ExecMainStartTimestamp"].(uint64)
	u.ended, _ = all["ExecMainExitTimestamp"].(uint64)
	u.code, _ = all["ExecMainCode"].(int32)
	u.status, _ = all["ExecMainStatus"].(int32)
	return u, nil
}

func (u unit) service() state.Service {
	s := state.Service{
		Exists: u.state != "" && u.state != "not-found",
		Enabled: slices.Contains([]string{"enabled", "enabled-runtime", "static", "alias",
			"indirect", "generated"}, u.file),
		Active: slices.Contains([]string{"active", "activating", "reloading", "refreshing"},
			u.active),
	}
	// In a unit that is activating, ActiveEnterTimestamp is that of its previous run.
	if s.Active && u.active != "activating" && u.since != 0 {
		s.Since = time.UnixMicro(int64(u.since))
	}
	if s.Active {
		s.Restarts = u.restarts
	}
	// A unit that is about to be restarted is activating. One that was stopped is inactive.
	if (u.active == "activating" || u.active == "failed") && u.ended > u.begun && u.code != 0 {
		s.LastExit = state.Exit{Started: time.UnixMicro(int64(u.begun)),
			Time: time.UnixMicro(int64(u.ended))}
		const exited = 1 // CLD_EXITED
		if u.code == exited {
			s.LastExit.Code = u.status
		} else {
			s.LastExit.Signal = u.status
		}
	}
	return s
}

func unitName(name string) string {
	if filepath.Ext(name) == "" {
		return name + ".service"
	}
	return name
}
