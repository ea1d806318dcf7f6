package config

import "kubeadm/internal/config/strict"

// reportUnknownFields warns of unknown and duplicate fields, which have no effect. With --strict
// they are errors.
func (f File) reportUnknownFields(d strict.Document, m strict.Mismatches, wrong *faults, run *Run) {
	for _, field := range m.Ignored {
		if f.Strict {
			wrong.add("%s: %s", d, field.Fault())
			continue
		}
		text := d.String() + ": " + field.Warning()
		run.warn(text)
		run.Ignored = append(run.Ignored, text)
	}
}
