// Package config turns the user's YAML, or the flags that replace it, into the desired state: a
// node.Node. No other package reads that YAML. The package reads no files and no state of the
// machine: the caller passes both as [File] and [Facts].
//
// # For a command line
//
// Every command that can be configured has a value for its flags and a function:
//
//	flags := config.NewInitFlags()               // the defaults that help shows
//	set.StringVar(&flags.PodSubnet, "pod-network-cidr", flags.PodSubnet, …)
//	…
//	if file.Given() {
//		err := flags.RefuseMixed(names of the flags that were set)
//	}
//	intent, run, err := config.Init(file, flags, facts)
//
// Without a file the flags are converted to the documents of a file; both are then handled in the
// same way. With a file only the flags in [Common] (and the few others that RefuseMixed allows)
// take effect. The first result is the desired state; [RunOptions] has the options of the run and the
// warnings, even if there is an error.
//
// A join resolves its Node in two steps: [Join] returns the node.Local that is needed for
// discovery; the configuration that the cluster stores is added afterwards (joined.go).
//
// # From YAML to a Node
//
//	read      documents, API versions, kinds, fields, types           file.go, version.go, hint.go, strict/
//	convert   documents of other API versions                         decode.go, v1beta3/, v1/
//	default   what does not depend on the machine                     v1beta4/default.go
//	fill      what does: name, address, socket, tokens                fill.go, component.go
//	check     all rules; all faults are reported together             check_*.go
//	resolve   the version, then the Node                              cluster.go, local.go
//
// One API version, v1beta4, is the canonical form. Documents of other versions are converted to
// it when they are read, so no other code handles them. [Migrate] takes the same steps as the
// commands and stops before the Node.
package config
