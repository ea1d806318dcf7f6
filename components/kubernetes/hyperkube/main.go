// Command hyperkube is all of one Kubernetes release in a single static program: which of its parts runs
// is chosen by the name it is called by, or by its first argument when called as hyperkube.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs name time zones, and a scratch image has no zone files

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts is every program in here by its name. A part ends the process itself when it fails.
func parts() map[string]func() {
	return map[string]func(){
		"etcd":                    func() { etcdmain.Main(os.Args) },
		"etcdctl":                 ctlv3.MustStart,
		"kube-apiserver":          func() { serve(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() { serve(controllermanager.NewControllerManagerCommand()) },
		"kube-proxy":              func() { serve(proxy.NewProxyCommand()) },
		"kube-scheduler":          func() { serve(scheduler.NewSchedulerCommand()) },
		"kubectl":                 runKubectl,
		"kubelet":                 func() { serve(kubelet.NewKubeletCommand(context.Background())) },
	}
}

func main() {
	all := parts()
	if part, ok := all[filepath.Base(os.Args[0])]; ok {
		part()
		return
	}
	if len(os.Args) > 1 {
		if part, ok := all[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			part()
			return
		}
	}
	names := slices.Sorted(maps.Keys(all))
	fmt.Fprintf(os.Stderr, "usage: hyperkube PART [ARGUMENT...]\nparts: %s\n", strings.Join(names, " "))
	os.Exit(2)
}

func serve(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
