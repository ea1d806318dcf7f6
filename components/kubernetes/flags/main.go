// Command flags lists every flag of the components of one Kubernetes release and of its etcd,
// hidden and deprecated ones too: a line each with the component, the flag and the type of its
// value. internal/release has such lists.
//
// It is compiled with the module file of a release, from the directory components/kubernetes:
//
//	go run -modfile=v1.37.mod -tags=selinux,notest,grpcnotrace ./flags
package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app/options"
)

func main() {
	lines := slices.Concat(
		listFlags("kube-apiserver", commandFlags(apiserver.NewAPIServerCommand())),
		listFlags("kube-controller-manager", commandFlags(controllermanager.NewControllerManagerCommand())),
		listFlags("kube-scheduler", commandFlags(scheduler.NewSchedulerCommand())),
		listFlags("kubelet", kubeletFlags()),
		etcdFlags(),
	)
	fmt.Println(strings.Join(lines, "\n"))
}

// commandFlags returns the flags of a command and those that component-base adds.
func commandFlags(c *cobra.Command) *pflag.FlagSet {
	c.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	logs.AddFlags(c.PersistentFlags())
	all := c.Flags()
	all.AddFlagSet(c.PersistentFlags())
	return all
}

func kubeletFlags() *pflag.FlagSet {
	all := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	config, err := kubelet.NewKubeletConfiguration()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flags:", err)
		os.Exit(1)
	}
	kubelet.NewKubeletFlags().AddFlags(all)
	kubelet.AddKubeletConfigFlags(all, config)
	kubelet.AddGlobalFlags(all)
	return all
}

func listFlags(component string, flags *pflag.FlagSet) (lines []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		lines = append(lines, fmt.Sprintf("%s %s %s", component, f.Name, f.Value.Type()))
	})
	slices.Sort(lines)
	return lines
}

// etcdFlags lists the flags of package embed, and those of etcd's main package, which exports
// none. Types of the latter are left out, since most of those flags are ignored.
func etcdFlags() (lines []string) {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(flags)
	flags.VisitAll(func(f *flag.Flag) {
		kind := strings.TrimSuffix(strings.ToLower(reflect.TypeOf(f.Value).Elem().Name()), "value")
		lines = append(lines, fmt.Sprintf("etcd %s %s", f.Name, kind))
	})
	for _, name := range []string{
		"config-file", "discovery-fallback", "initial-cluster-state", "v2-deprecation", "version",
		"cluster-active-size", "cluster-remove-delay", "cluster-sync-interval", "config", "force", "max-result-buffer",
		"max-retry-attempts", "peer-heartbeat-interval", "peer-election-timeout", "retry-interval", "snapshot", "v", "vv",
	} {
		lines = append(lines, "etcd "+name+" any")
	}
	slices.Sort(lines)
	return lines
}
