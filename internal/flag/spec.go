package flag

import "strings"

// Spec is what the command line says of a flag.
type Spec struct {
	Name       Name
	Short      string // one letter; empty for none
	Help       string // one sentence without a full stop
	Deprecated string // what to use instead; such a flag is accepted and not shown
}

// Of describes a flag. A name that no flag has is a mistake of the program, so it panics.
func Of(name Name) Spec {
	help, ok := helps()[name]
	if !ok {
		help, ok = fileHelps()[name]
	}
	if !ok {
		panic("flag: no help for --" + string(name))
	}
	return Spec{Name: name, Short: letters()[name], Help: strings.TrimSpace(help), Deprecated: replaced()[name]}
}

// letters are the flags that have a short form.
func letters() map[Name]string {
	return map[Name]string{Force: "f", Output: "o", Verbosity: "v"}
}

// replaced are the flags that are still accepted, and what took their place.
func replaced() map[Name]string {
	return map[Name]string{
		APIServerExtraArgs:    "use apiServer.extraArgs of a ClusterConfiguration with --config",
		ControllerManagerArgs: "use controllerManager.extraArgs of a ClusterConfiguration with --config",
		SchedulerExtraArgs:    "use scheduler.extraArgs of a ClusterConfiguration with --config",
	}
}
