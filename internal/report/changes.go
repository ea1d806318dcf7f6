package report

import (
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
)

// Changes are the targets of changes and what happened to each.
type Changes struct {
	Files        []FileChange   `json:"files,omitempty"`
	Objects      []ObjectChange `json:"objects,omitempty"`
	OtherChanges []OtherChange  `json:"otherChanges,omitempty"`
}

// FileChange is what happened to a file or directory.
type FileChange struct {
	Path   string        `json:"path"`
	Effect change.Effect `json:"effect"`
}

// ObjectChange is what happened to an object of the cluster.
type ObjectChange struct {
	Group     string        `json:"group,omitempty"` // empty for the core group
	Kind      string        `json:"kind"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name"`
	Effect    change.Effect `json:"effect"`
}

// OtherChange is what happened to an image, a service, an etcd member and the like.
type OtherChange struct {
	Type   string        `json:"type"` // "image", "service", "member", …
	Name   string        `json:"name,omitempty"`
	Effect change.Effect `json:"effect"`
}

// changesOf returns what an event says of the target of its change; nothing for other events.
func changesOf(e engine.Event) (c Changes) {
	effect := e.Effect
	switch e.Kind {
	case engine.Did:
	case engine.Unchanged:
		effect = change.LeftUnchanged
	case engine.ChangeFailed:
		effect = change.NotMade
	case engine.Undone:
		effect = change.Reverted
	default:
		return c
	}
	if pair, ok := e.Change.(change.WriteKeyPair); ok {
		for _, f := range pair.Files() {
			c.Files = append(c.Files, FileChange{Redact(f.Path), effect})
		}
		return c
	}
	// The form of a target is documented at change.FileTarget and state.Ref.Target.
	kind, name, _ := strings.Cut(Redact(e.Change.Target()), ":")
	switch kind {
	case "file":
		c.Files = []FileChange{{name, effect}}
	case "object":
		groupKind, path, _ := strings.Cut(name, ":")
		o := ObjectChange{Effect: effect}
		o.Kind, o.Group, _ = strings.Cut(groupKind, ".")
		o.Namespace, o.Name, _ = strings.Cut(path, "/")
		c.Objects = []ObjectChange{o}
	default:
		c.OtherChanges = []OtherChange{{kind, name, effect}}
	}
	return c
}

// add adds what happened later, to the same targets or to others.
func (c *Changes) add(later Changes) {
	for _, l := range later.Files {
		c.Files = addChange(c.Files, l, func(f *FileChange) *change.Effect { return &f.Effect })
	}
	for _, l := range later.Objects {
		c.Objects = addChange(c.Objects, l,
			func(o *ObjectChange) *change.Effect { return &o.Effect })
	}
	for _, l := range later.OtherChanges {
		c.OtherChanges = addChange(c.OtherChanges, l,
			func(o *OtherChange) *change.Effect { return &o.Effect })
	}
}

// addChange adds a change to a list with one entry for each target. EffectOf is where the effect of
// an entry is; everything else in it names the target.
func addChange[C comparable](all []C, later C, effectOf func(*C) *change.Effect) []C {
	effect := *effectOf(&later)
	for i := range all {
		same := all[i]
		if *effectOf(&same) = effect; same == later {
			before := effectOf(&all[i])
			if *before == change.Created && effect == change.Removed {
				return slices.Delete(all, i, i+1) // it was there only while the command ran
			}
			*before = combineEffects(*before, effect)
			return all
		}
	}
	return append(all, later)
}

// combineEffects returns the effect of two changes of one target: a created file that is changed
// once more has been created by this run, and a removed one that is written again was changed.
func combineEffects(first, then change.Effect) change.Effect {
	switch {
	case then == change.LeftUnchanged && first != change.NotMade,
		first == change.Created && then == change.Changed:
		return first
	case first == change.Removed && then == change.Created:
		return change.Changed
	}
	return then
}
