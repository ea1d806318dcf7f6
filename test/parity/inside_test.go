package parity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kubeletVersion is the environment variable for another version of the kubelet.
const kubeletVersion = "PARITY_KUBELET"

// stubPrograms are the other programs on a machine: the test binary stands for them.
func stubPrograms() map[string]func(args []string) int {
	quiet := func([]string) int { return 0 }
	return map[string]func([]string) int{
		"kubelet": func([]string) int {
			fmt.Println("Kubernetes " + cmp.Or(os.Getenv(kubeletVersion), "v1.37.1"))
			return 0
		},
		"mount": quiet, "cp": quiet, "losetup": quiet, "iptables": quiet, "ip": quiet,
		"ethtool": quiet, "tc": quiet,
		"ebtables": quiet, "nsenter": quiet, "socat": quiet, "touch": quiet, "crictl": quiet,
		"conntrack": quiet,
	}
}

// runInside executes an order inside of the machine's namespaces and prints the results.
func runInside(file string) int {
	steps, err := executeOrder(file)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func executeOrder(file string) ([]commandResult, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var o order
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	if err := setUpMachine(o); err != nil {
		return nil, err
	}
	listeners, err := listenAll(o.Ports)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(listeners) // a listener that the garbage collector finds is closed
	server, err := o.serve()
	if err != nil {
		return nil, err
	}
	var all []commandResult
	for _, args := range o.Steps {
		s, err := o.runStep(args)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if server != nil {
		err = server.writeObjects(filepath.Join(o.Root, "cluster/after"))
	}
	return all, err
}

// serve starts the API server, if the order has one.
func (o order) serve() (*apiServer, error) {
	if !o.Cluster {
		return nil, nil
	}
	dir := filepath.Join(o.Root, "cluster/before")
	s, err := newAPIServer(filepath.Join(dir, "objects.yaml"))
	if err != nil {
		return nil, err
	}
	return s, s.serve("10.0.0.10:6443", dir)
}

type mount struct {
	from, to, kind string
	flags          uintptr
}

// setUpMachine mounts kernel file systems and the program, and sets up the network.
func setUpMachine(o order) error {
	in := func(name string) string { return filepath.Join(o.Root, name) }
	mounts := []mount{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", in("proc"), "proc", 0},
		{"/sys", in("sys"), "", syscall.MS_BIND | syscall.MS_REC},
		{"/dev", in("dev"), "", syscall.MS_BIND | syscall.MS_REC},
		{o.Program, in("usr/bin/kubeadm"), "", syscall.MS_BIND},
	}
	for _, tool := range o.Tools {
		mounts = append(mounts, mount{"/proc/self/exe", in("usr/bin/" + tool), "", syscall.MS_BIND})
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.to, err)
		}
	}
	if err := syscall.Sethostname([]byte(hostname)); err != nil {
		return err
	}
	if err := o.network(); err != nil {
		return err
	}
	if !o.Still {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0); err != nil {
			return err
		}
	}
	return nil
}

// listenAll occupies ports.
func listenAll(addresses []string) (all []net.Listener, err error) {
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// network creates an interface with two addresses and a default route without a gateway behind it.
func (o order) network() error {
	lines := []string{"link set lo up"}
	switch {
	case o.Unnumbered:
		lines = append(lines, "link add eth0 type veth peer name nowhere", "link set nowhere up",
			"link set eth0 up addrgenmode none", "route add default dev eth0")
	case !o.Offline:
		lines = append(lines, "link add eth0 type veth peer name nowhere", "link set nowhere up",
			"link set eth0 up",
			"addr add 10.0.0.10/24 dev eth0", "addr add fd00:10::10/64 dev eth0 nodad",
			"route add default via 10.0.0.1", "route add default via fd00:10::1",
			// By default the kernel takes three seconds to report an unreachable neighbour.
			"ntable change name arp_cache dev eth0 retrans 10 mcast_probes 1",
			"ntable change name ndisc_cache dev eth0 retrans 10 mcast_probes 1")
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("creating an interface: %w: %s", err, out)
	}
	return nil
}

// runStep runs a command on the machine.
func (o order) runStep(args []string) (commandResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/kubeadm", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: o.Root}
	cmd.Dir = "/root"
	cmd.Env = append([]string{"PATH=/usr/bin", "HOME=/root", "KUBEADM_INIT_DRYRUN_DIR=/dry",
		"KUBEADM_JOIN_DRYRUN_DIR=/dry"}, o.Env...)
	var out, errs bytes.Buffer
	if o.Input != "" {
		cmd.Stdin = strings.NewReader(o.Input)
	}
	cmd.Stdout, cmd.Stderr = &out, &errs
	if o.OneCPU {
		if err := keepOneCPU(); err != nil {
			return commandResult{}, err
		}
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return commandResult{}, err
	}
	return commandResult{Exit: cmd.ProcessState.ExitCode(), Out: out.String(), Err: errs.String()},
		nil
}

// keepOneCPU restricts this thread, and the programs that it starts, to one CPU.
func keepOneCPU() error {
	runtime.LockOSThread()
	var one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &one); err != nil {
		return err
	}
	for cpu := range 1024 {
		if one.Count() > 1 {
			one.Clear(cpu)
		}
	}
	return unix.SchedSetaffinity(0, &one)
}
