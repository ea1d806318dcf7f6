// Package config turns the YAML that users write, or the flags that stand in for
// it, into what they want: a node.Node. Nobody else sees that YAML. The package
// reads no file and asks no machine: what it needs of the outside is handed in as
// [File] and [Facts].
//
// # For a command line
//
// Every command that can be configured has a value for its flags and a function:
//
//	flags := config.NewInitFlags()               // holds the defaults that help shows
//	set.StringVar(&flags.PodSubnet, "pod-network-cidr", flags.PodSubnet, …)
//	…
//	if file.Given() {
//		err := flags.RefuseMixed(names of the flags that were given)
//	}
//	intent, run, err := config.Init(file, flags, facts)
//
// Without a file the flags are turned into the documents that a file would hold,
// and from there on both go the same way. With a file only the flags in [Common]
// (and the few others that RefuseMixed lets pass) count. The result says what to
// bring about; [Run] says how to go about it, and what to warn of, even when there
// is an error.
//
// A join gets to know the cluster halfway: [Join] yields the node.Local with which
// to find it, and [Joined] adds what the cluster has stored.
//
// # From YAML to a Node
//
//	read      documents, API versions, kinds, fields, types           file.go, version.go, hint.go, strict/
//	convert   what is of another API version                           convert.go, v1beta3/, v1/
//	default   what needs no look at the machine                       v1beta4/default.go
//	fill in   what does: name, address, socket, tokens                 fill.go, kubelet.go, kubeproxy.go
//	check     every rule on one page, all faults reported together    check_*.go
//	resolve   the version, then the Node                              cluster.go, local.go
//
// One API version, v1beta4, is the canonical form. Documents of another are turned into
// it as they are read, so that nothing else knows of them. [Migrate] goes the same way
// as the commands and stops before the Node.
package config
