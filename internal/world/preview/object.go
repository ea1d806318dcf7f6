package preview

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// Object reads what this preview "wrote", or else the real object. A cluster that would only
// come to life by this run holds nothing yet.
func (w *World) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	o, err := w.over.Object(ctx, ref)
	if err == nil || w.has(change.DeleteObject{Ref: ref}.Target()) {
		return o, err
	}
	if !w.unborn(ctx, ref.As) {
		if o, err = w.World.Object(ctx, ref); !apierrors.IsNotFound(err) && !w.entitled(err) {
			return o, err
		}
	}
	return w.believed.Object(ctx, ref)
}

// List reads the real objects together with those this preview "wrote".
func (w *World) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	mine, err := w.over.List(ctx, q)
	if err != nil || w.unborn(ctx, q.As) {
		return mine, err
	}
	real, err := w.World.List(ctx, q)
	if w.entitled(err) {
		return mine, nil
	}
	real = slices.DeleteFunc(real, func(o unstructured.Unstructured) bool {
		return w.has(state.RefOf(&o, q.As).Target())
	})
	return append(real, mine...), err
}

// Livez says yes for a cluster that this run would bring to life.
func (w *World) Livez(ctx context.Context, as state.Identity) error {
	if w.unborn(ctx, as) {
		return nil
	}
	return w.World.Livez(ctx, as)
}

// bring puts into the overlay what the change alters rather than replaces.
func (w *World) bring(ctx context.Context, c change.Change) error {
	var ref state.Ref
	switch c := c.(type) {
	case change.ApplyObject:
		ref = state.RefOf(c.Object, c.As)
	case change.MutateObject:
		ref = state.RefOf(c.Object, c.As)
	case change.LabelNode:
		ref = c.Ref()
	case change.SetMember:
		if !w.has(membersRead) {
			all, _ := w.Members(ctx, c.Via)
			w.over.MemberList = slices.Clone(all)
			w.mark(membersRead)
		}
		return nil
	case change.SetAccounts:
		return w.bringFiles(ctx, c.PasswdFile(), c.GroupFile(), path.Join(c.Dir, "login.defs"))
	case change.SetOwner:
		return w.bringFiles(ctx, c.Path)
	default:
		return nil
	}
	now, err := w.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.over.Do(ctx, change.ApplyObject{Object: now, As: ref.As})
}

// bringFiles copies files, or folders without what is in them, from below with their modes and owners.
func (w *World) bringFiles(ctx context.Context, names ...string) error {
	for _, name := range names {
		info, err := w.Stat(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		f := memory.File{Mode: info.Mode, ModTime: info.ModTime, UID: info.UID, GID: info.GID}
		if !info.Mode.IsDir() {
			if f.Data, err = w.ReadFile(ctx, name); err != nil {
				return err
			}
		}
		if err := w.over.Put(name, f); err != nil {
			return err
		}
	}
	return nil
}

// unborn tells whether an administrator's cluster would only come to life by this run: his
// credentials were only "written", or the API server does not answer yet where it was waited for.
// A make-believe cluster is never born.
func (w *World) unborn(ctx context.Context, as state.Identity) bool {
	if w.stoodIn() != nil || as.Kubeconfig == "" {
		return w.stoodIn() != nil
	}
	if w.has(change.FileTarget(as.Kubeconfig)) {
		return true
	}
	return w.has(waited) && w.World.Livez(ctx, as) != nil
}

// entitled tells whether somebody was refused who would have got his rights from this run. What
// he would see then is not known; taken is that it is not there.
func (w *World) entitled(err error) bool {
	return apierrors.IsForbidden(err) && w.has(gaveRights)
}
