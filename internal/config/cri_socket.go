package config

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fillSocket finds the socket of the container runtime of a machine that is not a node yet. On a node,
// existing.RuntimeSocket reads that of its kubelet.
func fillSocket(socket *string, facts Facts, at *field.Path, run *RunOptions) field.ErrorList {
	runtimes := facts.Runtimes
	switch {
	case *socket == "" && len(runtimes) > 1:
		return field.ErrorList{field.Required(at,
			"found several container runtimes, set one of "+strings.Join(runtimes, ", "))}
	case *socket == "":
		*socket = cmp.Or(append(slices.Clone(runtimes), facts.Platform.DefaultCRISocket())...)
	case path.IsAbs(*socket) && !facts.Platform.IsWindows():
		run.warn(fmt.Sprintf("container runtime socket %q is a path: use the URL unix://%s",
			*socket, *socket))
		*socket = "unix://" + *socket
	}
	return nil
}
