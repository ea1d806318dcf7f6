package manifest

import (
	"cmp"
	"slices"

	"kubeadm/internal/node"
)

// mergeArgs returns "--name=value" of each argument: the defaults sorted by name, then the user's
// in the user's order. An argument of the user replaces the default of the same name.
func mergeArgs(defaults, users []node.Arg) []string {
	own := slices.DeleteFunc(slices.Clone(defaults), func(a node.Arg) bool {
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
