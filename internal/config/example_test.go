package config_test

import (
	"fmt"
	"log"
	"strings"

	"kubeadm/internal/config"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Init resolves a configuration file, flags and facts about the machine to a Node. A field that
// does not exist has no effect: serviceSubnets is misspelt, so the default applies, with a warning.
func ExampleInit() {
	file := config.File{Name: "kubeadm.yaml", Data: []byte(`
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.0
networking:
  podSubnet: 10.244.0.0/16
  serviceSubnets: 10.96.0.0/16
`)}
	tool, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		log.Fatal(err)
	}
	node, run, err := config.Init(file, config.NewInitFlags(), config.Facts{
		Tool:      tool,
		Hostname:  "cp1",
		Addresses: []state.Address{{IP: "192.0.2.10", DefaultRoute: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Name, node.Address, node.Cluster.Version)
	fmt.Println("Pods:", node.Cluster.PodSubnet)
	fmt.Println("Services:", node.Cluster.ServiceSubnet)
	for _, warning := range run.Warnings {
		fmt.Println("warning names it:", strings.Contains(warning, "networking.serviceSubnets"))
	}
	// Output:
	// cp1 192.0.2.10 v1.36.0
	// Pods: 10.244.0.0/16
	// Services: 10.96.0.0/12
	// warning names it: true
}

// All faults of a configuration are reported together, each with its flag or field.
func ExampleInit_faults() {
	tool, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		log.Fatal(err)
	}
	flags := config.NewInitFlags()
	flags.PodSubnet = "10.244.0.0"
	flags.DNSDomain = "cluster_local"
	_, _, err = config.Init(config.File{}, flags, config.Facts{
		Tool:      tool,
		Hostname:  "cp1",
		Addresses: []state.Address{{IP: "192.0.2.10", DefaultRoute: true}},
		Random:    strings.NewReader(strings.Repeat("random", 100)),
	})
	for _, flag := range []string{"--pod-network-cidr", "--service-dns-domain", "--service-cidr"} {
		fmt.Println(flag, strings.Contains(err.Error(), flag))
	}
	// Output:
	// --pod-network-cidr true
	// --service-dns-domain true
	// --service-cidr false
}
