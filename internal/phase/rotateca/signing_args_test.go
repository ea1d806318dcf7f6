package rotateca

import (
	"strings"
	"testing"

	"kubeadm/internal/node"
)

// The arguments are where an upgrade in the middle of a rotation, or after it, writes them.
func TestSigningArgsAreWhereAnUpgradeWritesThem(t *testing.T) {
	const head = "    - kube-controller-manager\n    - --cluster-name=kubernetes\n"
	const tail = "    - --controllers=*\n    - --use-service-account-credentials=true\n    - --v=2\n"
	const end = "    image: registry.k8s.io/kube-controller-manager:v1.37.1\n"
	args := signingArgs(node.DefaultPaths())
	list := func(isRotating bool) (text string) {
		for _, a := range args {
			value := a.usual
			if isRotating {
				value = a.rotating
			}
			text += "    - --" + a.name + "=" + value + "\n"
		}
		return text
	}
	usual, rotating := head+list(false)+tail+end, head+tail+list(true)+end
	for from, want := range map[string]map[bool]string{
		usual:    {true: rotating, false: usual},
		rotating: {true: rotating, false: usual},
		// of a manifest in which they were replaced in place
		head + list(true) + tail + end: {true: head + list(true) + tail + end, false: usual},
		// not one line for each
		strings.ReplaceAll(usual, "\n    - ", ", "): {
			true: strings.ReplaceAll(head+list(true)+tail+end, "\n    - ", ", ")},
	} {
		for isRotating, text := range want {
			if got := string(setSigningArgs([]byte(from), args, isRotating)); got != text {
				t.Errorf("of\n%s%t: got\n%swant\n%s", from, isRotating, got, text)
			}
		}
	}
}
