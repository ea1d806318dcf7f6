// Package v1 reads the configuration API kubeadm.k8s.io/v1, which is experimental and may change.
// It is v1beta4 with one more field: the merge method of an argument of a component.
package v1

import (
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/strict"
)

// The API version.
const (
	Version    = "v1"
	APIVersion = v1beta4.Group + "/" + Version
)

// mergeMethod is the field of an argument that v1beta4 does not have.
const mergeMethod = "mergeMethod"

// mergeMethods are its values; an empty value replaces the default argument.
func mergeMethods() []string { return []string{"append", "prepend"} }

// Convert converts the document to v1beta4. lost has a warning for each field that cannot be
// converted, wrong an error for each value that v1 does not allow.
func Convert(d strict.Document) (lowered strict.Document, lost, wrong []string) {
	lowered, taken := d.RemoveField(mergeMethod, "extraArgs", "kubeletExtraArgs")
	for _, t := range taken {
		method, isText := t.Value.(string)
		switch {
		case isText && method == "":
		case isText && slices.Contains(mergeMethods(), method):
			lost = append(lost, fmt.Sprintf(
				"%s: %q is not supported by %s, where an argument replaces the default: set the complete value",
				t.Path, method, v1beta4.Version))
		default:
			wrong = append(wrong,
				fmt.Sprintf("%s: must be one of %s, or be omitted", t.Path,
					strings.Join(mergeMethods(), ", ")))
		}
	}
	lowered.APIVersion = v1beta4.APIVersion
	return lowered, lost, wrong
}
