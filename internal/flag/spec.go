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
	for _, help := range helps {
		if help.of == name {
			return Spec{Name: name, Short: letter(name), Help: strings.TrimSpace(help.text), Deprecated: replaced(name)}
		}
	}
	panic("flag: no help for --" + string(name))
}

// letter is the short form of a flag, if it has one.
func letter(name Name) string {
	switch name {
	case Force:
		return "f"
	case Output:
		return "o"
	case Verbosity:
		return "v"
	}
	return ""
}

// replaced tells of a flag that is still accepted what took its place.
func replaced(name Name) string {
	switch name {
	case APIServerExtraArgs:
		return "use apiServer.extraArgs of a ClusterConfiguration with --config"
	case ControllerManagerArgs:
		return "use controllerManager.extraArgs of a ClusterConfiguration with --config"
	case SchedulerExtraArgs:
		return "use scheduler.extraArgs of a ClusterConfiguration with --config"
	}
	return ""
}
