package nodeaddress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// ReadNodeIPs returns the addresses that the kubelet is told; none if it chooses one itself, as with "0.0.0.0" or "::".
func ReadNodeIPs(ctx context.Context, r state.Reader, p node.Paths) ([]string, error) {
	told, err := readToldIPs(ctx, r, p)
	return told.ips, err
}

// toldIPs are the addresses that the kubelet is told.
type toldIPs struct {
	ips []string // none if it chooses one itself
	// unread is the argument if no address can be read from it.
	unread string
	// file has the argument.
	file kubeletfile.ArgumentFile
	// units are the files of the kubelet's unit.
	units []string
}

func readToldIPs(ctx context.Context, r state.Reader, p node.Paths) (told toldIPs, err error) {
	files, err := kubeletfile.ReadArgumentFiles(ctx, r, p)
	if err != nil {
		return told, err
	}
	for _, f := range files { // the last one counts
		if f.IsUnit {
			told.units = append(told.units, f.Path)
		}
		if ips, unread := findNodeIPs(f.Text); ips != nil || unread != "" {
			told.ips, told.unread, told.file = ips, unread, f
		}
	}
	told.ips = slices.DeleteFunc(told.ips, func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.IsUnspecified()
	})
	return told, nil
}

// checkUnit is an error if the unit of the kubelet's service tells it a previous address: kubeadm does not edit that.
func (i Intent) checkUnit(told toldIPs) error {
	if !told.file.IsUnit || !slices.ContainsFunc(told.ips, i.IsFrom) {
		return nil
	}
	file, ips := untrusted.Line(told.file.Path), strings.Join(told.ips, ",")
	return problem.New(fmt.Errorf("%s sets the address of the kubelet, --node-ip=%s, and kubeadm does not edit that file", file, ips),
		fmt.Sprintf("set the argument in %s to --node-ip=%s", file, i.Replace(ips)),
		"then run: systemctl daemon-reload, and this command again")
}

// Kubelet is what changes of this machine's kubelet.
type Kubelet struct {
	// Files are those that it reads at its start, with what they become.
	Files []File
	// RequestsServing is set if the kubelet requests a serving certificate for its new address, which an administrator
	// has to approve. One that it signs itself has no address.
	RequestsServing bool
	// Units are the files of its unit, which it reads at its start too. They do not change.
	Units []string
	// IsExternal is set if a cloud provider sets the addresses of the Node.
	IsExternal bool
	told       toldIPs
}

// warnOfUnread warns of an argument with an address that is not known here.
func (k Kubelet) warnOfUnread(e *engine.Env) {
	if k.told.unread != "" {
		e.Warn("%s sets the address of the kubelet by %s: kubeadm does not judge which one that is, and leaves the argument as it is",
			untrusted.Line(k.told.file.Path), untrusted.Line(k.told.unread))
	}
}

// File is a file before and after.
type File struct {
	Path        string
	Before, Now []byte
}

// FindKubelet finds what changes of this machine's kubelet. It is told its address if it was before, or if it would
// choose the previous one, which the machine still has.
func (i Intent) FindKubelet(ctx context.Context, e *engine.Env) (k Kubelet, err error) {
	p := i.Present.Paths
	told, err := readToldIPs(ctx, e.World, p)
	if err == nil {
		err = i.checkUnit(told)
	}
	if err != nil {
		return k, err
	}
	k.Units, k.told = told.units, told
	own, err := e.World.Addresses(ctx)
	if err != nil {
		return k, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	isChosen := !slices.ContainsFunc(i.From, func(ip string) bool { return IsOn(own, ip) }) && i.isFirst(own)
	for n, file := range p.KubeletEnvFiles() {
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return k, err
		}
		k.IsExternal = k.IsExternal || strings.Contains(string(data), "--cloud-provider=external")
		now := []byte(i.KubeletEnv(string(data)))
		if n == 0 && len(told.ips) == 0 && told.unread == "" && !isChosen && !i.KeepsNode {
			args, err := config.ParseKubeletArgs([]string{"node-ip=" + i.To})
			if err == nil {
				now, err = args.Edit(data)
			}
			if err != nil {
				return k, fmt.Errorf("%s: %w", file, err)
			}
		}
		if data != nil || len(now) > 0 {
			k.Files = append(k.Files, File{Path: file, Before: data, Now: now})
		}
	}
	file := p.KubeletKubeconfig()
	data, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return k, err
	}
	now, err := i.Kubeconfig(data, file)
	if err != nil {
		return k, err
	}
	k.Files = append(k.Files, File{Path: file, Before: data, Now: now})
	k.RequestsServing, err = i.checkKubeletConfig(ctx, e.World, p)
	return k, err
}

// isFirst reports whether the new address is the first one of its family on the first interface with a default route:
// the one that a kubelet chooses.
func (i Intent) isFirst(own []state.Address) bool {
	to, err := netip.ParseAddr(i.To)
	at := slices.IndexFunc(own, func(a state.Address) bool {
		ip, err := netip.ParseAddr(a.IP)
		return err == nil && a.DefaultRoute && ip.Unmap().Is4() == to.Unmap().Is4()
	})
	return err == nil && at >= 0 && isSame(own[at].IP, to)
}

// checkKubeletConfig is an error if the configuration file of the kubelet has a previous address. Patches may have set
// it, or the instance configuration, which is merged into the file after them.
func (i Intent) checkKubeletConfig(ctx context.Context, r state.Reader, p node.Paths) (requestsServing bool, err error) {
	file, instanceFile := p.KubeletConfig(), p.KubeletInstanceConfig()
	data, err := state.ReadRequired(ctx, r, file)
	if err != nil {
		return false, err
	}
	instanceData, err := state.ReadOptional(ctx, r, instanceFile)
	if err != nil {
		return false, err
	}
	var c, instance kubeletconfig.KubeletConfiguration
	if err := yaml.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("reading %s: %w", file, err)
	}
	if err := yaml.Unmarshal(instanceData, &instance); err != nil {
		return false, problem.During("reading "+instanceFile, err, "correct the file")
	}
	const rewrite, restart = "kubeadm upgrade node phase kubelet-config", "; systemctl restart kubelet"
	for _, field := range []struct{ name, value, instance string }{
		{"address", c.Address, instance.Address},
		{"healthzBindAddress", c.HealthzBindAddress, instance.HealthzBindAddress},
	} {
		has, value, remedy := file, field.value, "change it in the patch that sets it, then apply that: "+rewrite+" --patches DIR"+restart
		switch {
		case i.IsFrom(field.instance):
			has, value, remedy = instanceFile, field.instance, "change it in that file, then apply that: "+rewrite+restart
		case !i.IsFrom(value):
			continue
		case field.instance != "":
			remedy = fmt.Sprintf("apply the value in %s: %s%s", instanceFile, rewrite, restart)
		}
		if !i.IsPrepared { // no kubelet can run with it
			remedy = "change it in that file, and in the patch that sets it"
			if has == instanceFile || field.instance != "" {
				remedy = fmt.Sprintf("change it in %s and in %s", instanceFile, file)
			}
		}
		return false, problem.New(fmt.Errorf("%s has %s: %s, which is the previous address", has, field.name, value),
			remedy, "then run this command again")
	}
	return c.ServerTLSBootstrap, nil
}
