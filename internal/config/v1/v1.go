// Package v1 reads the configuration API kubeadm.k8s.io/v1, which is not settled yet: a
// program of that name may read it otherwise tomorrow. It is v1beta4 with one more
// field: an argument of a component can be merged with the built-in one of its name.
package v1

import (
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config/strict"
	"kubeadm/internal/config/v1beta4"
)

// The API version.
const (
	Version    = "v1"
	APIVersion = v1beta4.Group + "/" + Version
)

// mergeMethod is the field that an argument has here and not in v1beta4.
const mergeMethod = "mergeMethod"

// mergeMethods are its values; empty replaces the built-in argument.
func mergeMethods() []string { return []string{"append", "prepend"} }

// Convert is the document in v1beta4. What v1beta4 cannot express is lost, a sentence for each such
// field; wrong are values that v1 does not have.
func Convert(d strict.Document) (lowered strict.Document, lost, wrong []string) {
	lowered, taken := d.RemoveField(mergeMethod, "extraArgs", "kubeletExtraArgs")
	for _, t := range taken {
		method, isText := t.Value.(string)
		switch {
		case isText && method == "":
		case isText && slices.Contains(mergeMethods(), method):
			lost = append(lost, fmt.Sprintf("%s: %q is lost, for %s replaces built-in arguments: write the whole value that is wanted",
				t.Path, method, v1beta4.Version))
		default:
			wrong = append(wrong, fmt.Sprintf("%s: must be one of %s, or be left out", t.Path, strings.Join(mergeMethods(), ", ")))
		}
	}
	lowered.APIVersion = v1beta4.APIVersion
	return lowered, lost, wrong
}
