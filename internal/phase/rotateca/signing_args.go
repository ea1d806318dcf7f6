package rotateca

import (
	"bytes"
	"context"
	"slices"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// signingArg is an argument of kube-controller-manager.
type signingArg struct{ name, usual, rotating string }

// signingArgs are the arguments of kube-controller-manager that name the pair: their values outside
// of a rotation and during one.
func signingArgs(p node.Paths) []signingArg {
	cert, key := p.RotationSigner()
	return []signingArg{
		{"cluster-signing-cert-file", p.Cert("ca"), cert},
		{"cluster-signing-key-file", p.Key("ca"), key},
	}
}

// replaceSigner makes kube-controller-manager sign with the pair of the rotation, or with ca.crt
// again.
func (m machine) replaceSigner(ctx context.Context, s rotation.Stage) error {
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	file := m.node.Paths.Manifest(release.ControllerManager)
	data, err := state.ReadRequired(ctx, m.e.World, file)
	if err != nil {
		return err
	}
	data = setSigningArgs(data, signingArgs(m.node.Paths), !s.IsLast())
	_, err = m.replacement().Replace(ctx, m.e,
		staticpod.Manifest{Component: release.ControllerManager, Data: data})
	return err
}

// setSigningArgs returns the manifest with the arguments of a rotation, or with the usual ones. Each
// is where an upgrade writes it, which otherwise takes the manifest for one that was changed
// manually: during a rotation they are extra arguments, which come last; usually they are defaults,
// which are sorted.
func setSigningArgs(manifest []byte, args []signingArg, isRotating bool) []byte {
	for _, arg := range args {
		from, to := arg.usual, arg.rotating
		if !isRotating {
			from, to = to, from
		}
		old, line := []byte("--"+arg.name+"="+from), []byte("--"+arg.name+"="+to)
		if !bytes.Contains(manifest, old) {
			continue
		}
		manifest = moveArg(bytes.ReplaceAll(manifest, old, line), line, isRotating)
	}
	return manifest
}

// moveArg moves an argument behind all others, or before the first one that sorts after it. A
// manifest that has not one line for each argument stays as it is.
func moveArg(manifest, arg []byte, toEnd bool) []byte {
	lines := bytes.SplitAfter(manifest, []byte("\n"))
	at := slices.IndexFunc(lines, func(line []byte) bool {
		return bytes.Equal(bytes.TrimSpace(line), slices.Concat([]byte("- "), arg))
	})
	if at < 0 {
		return manifest
	}
	moved := lines[at]
	indent, _, _ := bytes.Cut(moved, arg)
	isArg := func(line []byte) bool {
		return bytes.HasPrefix(line, slices.Concat(indent, []byte("--")))
	}
	first, end := at, at
	for first > 0 && isArg(lines[first-1]) {
		first--
	}
	lines = slices.Delete(lines, at, at+1)
	for end < len(lines) && isArg(lines[end]) {
		end++
	}
	to := end
	if !toEnd {
		for i := end - 1; i >= first; i-- {
			if bytes.Compare(lines[i], moved) > 0 {
				to = i
			}
		}
	}
	return bytes.Join(slices.Insert(lines, to, moved), nil)
}
