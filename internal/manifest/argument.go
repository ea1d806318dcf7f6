package manifest

import (
	"cmp"
	"slices"

	"kubeadm/internal/node"
)

// arguments is "--name=value" of each argument: ours by name, then the user's in the
// user's order. An argument of the user's takes the place of ours of that name.
func arguments(ours, users []node.Arg) []string {
	own := slices.DeleteFunc(slices.Clone(ours), func(a node.Arg) bool {
		_, replaced := node.LastArg(users, a.Name)
		return replaced
	})
	slices.SortFunc(own, func(a, b node.Arg) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	var list []string
	for _, a := range append(own, users...) {
		list = append(list, "--"+a.Name+"="+a.Value)
	}
	return list
}

// command is a program with its arguments.
func command(program string, ours, users []node.Arg) []string {
	return append([]string{program}, arguments(ours, users)...)
}
