package config

import (
	"fmt"

	v1 "kubeadm/internal/config/v1"
	"kubeadm/internal/config/v1beta3"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/strict"
)

// decode stores the document, of any supported version, as v1beta4.
func (t *documentTarget) decode(d strict.Document) strict.Mismatches {
	ours := d.Group() == v1beta4.Group
	if ours && d.Version() == v1.Version {
		lowered, lost, wrong := v1.Convert(d)
		if len(wrong) > 0 {
			return strict.Mismatches{Wrong: wrong}
		}
		d, t.lost = lowered, lost
	}
	if !ours || d.Version() != v1beta3.Version {
		return d.Decode(t.into, hintsFor(t.kind))
	}
	switch into := t.into.(type) {
	case *v1beta4.InitConfiguration:
		return decodeAndConvert(d, into, (*v1beta3.InitConfiguration).Convert)
	case *v1beta4.JoinConfiguration:
		return decodeAndConvert(d, into, (*v1beta3.JoinConfiguration).Convert)
	case *v1beta4.ClusterConfiguration:
		return decodeAndConvert(d, into,
			func(old *v1beta3.ClusterConfiguration) v1beta4.ClusterConfiguration {
				t.controlPlane = old.APIServer.TimeoutForControlPlane
				return old.Convert()
			})
	}
	return strict.Mismatches{Wrong: []string{fmt.Sprintf("%s has no %s", v1beta3.APIVersion,
		d.Kind)}}
}

// decodeAndConvert decodes a document in its own version and stores the converted value.
func decodeAndConvert[Old, New any](d strict.Document, into *New,
	to func(*Old) New) strict.Mismatches {
	old := new(Old)
	hints := hintsFor(d.Kind)
	hints.Newer, hints.NewerVersion = into, v1beta4.APIVersion
	const shape = "v1beta4 has a list here, v1beta3 a mapping of names to values"
	hints.Shapes = map[string]string{extraArgs: shape, kubeletExtraArgs: shape}
	mismatches := d.Decode(old, hints)
	if len(mismatches.Wrong) == 0 {
		*into = to(old)
	}
	return mismatches
}
