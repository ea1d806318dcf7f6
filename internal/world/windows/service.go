//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// How long a service may take to start or stop, and how often the Service Control Manager is asked.
const (
	serviceTimeout = 2 * time.Minute
	servicePause   = 100 * time.Millisecond
)

// openService opens a service with no more rights than are needed, so that every user can read its
// state. It returns nil for one that does not exist.
func openService(name string, rights uint32) (*mgr.Service, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return nil, fmt.Errorf("connecting to the Service Control Manager: %w", err)
	}
	defer func() { _ = windows.CloseServiceHandle(manager) }() // it was only read
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := windows.OpenService(manager, text, rights)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening service %q: %w", name, err)
	}
	return &mgr.Service{Name: name, Handle: h}, nil
}

// Service returns the state of a service.
func (m Machine) Service(_ context.Context, name string) (state.Service, error) {
	s, err := openService(name, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if err != nil || s == nil {
		return state.Service{}, err
	}
	defer s.Close()
	status, err := s.Query()
	if err != nil {
		return state.Service{}, fmt.Errorf("reading the state of service %q: %w", name, err)
	}
	start, err := readStartType(s.Handle)
	if err != nil {
		return state.Service{}, fmt.Errorf("reading the configuration of service %q: %w", name, err)
	}
	found := state.Service{Exists: true, Enabled: start == windows.SERVICE_AUTO_START,
		Active: status.State == svc.Running || status.State == svc.StartPending ||
			status.State == svc.ContinuePending}
	if found.Active && status.ProcessId != 0 {
		found.Since = startOf(status.ProcessId)
	}
	return found, nil
}

// readStartType reads when a service is started. mgr.Service.Config also reads what Wine does not have.
func readStartType(service windows.Handle) (uint32, error) {
	size := uint32(1 << 10)
	for {
		buffer := make([]byte, size)
		config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
		err := windows.QueryServiceConfig(service, config, size, &size)
		if errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) && size > uint32(len(buffer)) {
			continue
		}
		return config.StartType, err
	}
}

// startOf is when a process was started; zero if that is not known.
func startOf(id uint32) time.Time {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, id)
	if err != nil {
		return time.Time{}
	}
	defer func() { _ = windows.CloseHandle(h) }() // it was only read
	var started, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &started, &ended, &kernel, &user) != nil {
		return time.Time{}
	}
	return time.Unix(0, started.Nanoseconds())
}

// ServiceLog returns nothing: each service of Windows keeps a log of its own, or none.
func (m Machine) ServiceLog(context.Context, string, time.Time, int) (string, error) {
	return "", nil
}

// setService restarts a service, or stops one that exists, and waits until that is done.
func setService(ctx context.Context, c change.SetService) error {
	s, err := openService(c.Name, windows.SERVICE_QUERY_STATUS|windows.SERVICE_START|windows.SERVICE_STOP)
	if err != nil {
		return err
	}
	if s == nil {
		if !c.Active {
			return nil
		}
		return fmt.Errorf("service %q: %w", c.Name, windows.ERROR_SERVICE_DOES_NOT_EXIST)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, serviceTimeout,
		fmt.Errorf("it took longer than %s", serviceTimeout))
	defer cancel()
	err = stopService(ctx, s)
	if err == nil && c.Active {
		err = startService(ctx, s)
	}
	if err != nil {
		return problem.New(fmt.Errorf("service %q: %w", c.Name, err),
			"check the state of the service: Get-Service "+c.Name,
			"check the events of the system: Get-WinEvent -LogName System -MaxEvents 20")
	}
	return nil
}

// startService waits while the Service Control Manager starts others, as after boot.
func startService(ctx context.Context, s *mgr.Service) error {
	for {
		err := s.Start()
		if err == nil || errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return awaitState(ctx, s, svc.Running)
		}
		if !errors.Is(err, windows.ERROR_SERVICE_DATABASE_LOCKED) || ctx.Err() != nil {
			return err
		}
		time.Sleep(servicePause)
	}
}

func stopService(ctx context.Context, s *mgr.Service) error {
	status, err := s.Query()
	if err != nil || status.State == svc.Stopped {
		return err
	}
	if status.State != svc.StopPending {
		_, err := s.Control(svc.Stop)
		if err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return fmt.Errorf("stopping it: %w", err)
		}
	}
	return awaitState(ctx, s, svc.Stopped)
}

// awaitState waits until the service is in a state. One that stops by itself never runs.
func awaitState(ctx context.Context, s *mgr.Service, want svc.State) error {
	for {
		status, err := s.Query()
		if err != nil {
			return fmt.Errorf("reading its state: %w", err)
		}
		switch {
		case status.State == want:
			return nil
		case want == svc.Running && status.State == svc.Stopped:
			return fmt.Errorf("it stopped with exit code %d", status.Win32ExitCode)
		case ctx.Err() != nil:
			return fmt.Errorf("it is in state %d: %w", status.State, context.Cause(ctx))
		}
		time.Sleep(servicePause)
	}
}

// enableService makes a service start when Windows boots, or only by hand.
func enableService(c change.EnableService) error {
	s, err := openService(c.Name, windows.SERVICE_QUERY_CONFIG|windows.SERVICE_CHANGE_CONFIG)
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("service %q: %w", c.Name, windows.ERROR_SERVICE_DOES_NOT_EXIST)
	}
	defer s.Close()
	start := uint32(mgr.StartManual)
	if c.Enabled {
		start = mgr.StartAutomatic
	}
	err = windows.ChangeServiceConfig(s.Handle, windows.SERVICE_NO_CHANGE, start,
		windows.SERVICE_NO_CHANGE, nil, nil, nil, nil, nil, nil, nil)
	if err != nil {
		return fmt.Errorf("changing the start type of service %q: %w", c.Name, err)
	}
	return nil
}
