package dryrun

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// Object reads what this dry run "wrote", or else the real object. A cluster that this run would
// create has no real objects.
func (w *World) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	o, err := w.overlay.Object(ctx, ref)
	if err == nil || w.has(change.DeleteObject{Ref: ref}.Target()) {
		return o, err
	}
	if !w.isNotCreatedYet(ctx, ref.As) {
		if o, err = w.World.Object(ctx, ref); !apierrors.IsNotFound(err) &&
			!w.isForbiddenUntilBound(err) {
			return o, err
		}
	}
	return w.simulated.Object(ctx, ref)
}

// List reads the real objects, or those of a simulated cluster, together with those this dry run
// "wrote".
func (w *World) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	mine, err := w.overlay.List(ctx, q)
	isSimulated := w.simulatedInfo() != nil
	if err != nil || !isSimulated && w.isNotCreatedYet(ctx, q.As) {
		return mine, err
	}
	list := w.World.List
	if isSimulated {
		list = w.simulated.List
	}
	keep := q.Keep
	q.Keep = func(o *unstructured.Unstructured) bool {
		return !w.has(state.RefOf(o, q.As).Target()) && (keep == nil || keep(o))
	}
	present, err := list(ctx, q)
	if w.isForbiddenUntilBound(err) {
		return mine, nil
	}
	return append(present, mine...), err
}

// PodLog reads the log of a Pod that exists.
func (w *World) PodLog(ctx context.Context, of state.PodLog) (string, error) {
	if w.isNotCreatedYet(ctx, of.As) {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, of.Pod)
	}
	return w.World.PodLog(ctx, of)
}

// Livez succeeds for a cluster that this run would create.
func (w *World) Livez(ctx context.Context, as state.Identity) error {
	if w.isNotCreatedYet(ctx, as) {
		return nil
	}
	return w.World.Livez(ctx, as)
}

// copyToOverlay copies what the change modifies rather than replaces.
func (w *World) copyToOverlay(ctx context.Context, c change.Change) error {
	var ref state.Ref
	unreadable := false
	switch c := c.(type) {
	case change.ApplyObject:
		ref, unreadable = state.RefOf(c.Object, c.As), c.Unreadable
	case change.MutateObject:
		ref = state.RefOf(c.Object, c.As)
	case change.LabelAndTaintNode:
		ref = c.Ref()
	case change.SetMember:
		if !w.has(membersRead) {
			all, _ := w.Members(ctx, c.Via)
			w.overlay.MemberList = slices.Clone(all)
			w.mark(membersRead)
		}
		return nil
	case change.SetAccounts:
		return w.copyFilesToOverlay(ctx, c.PasswdFile(), c.GroupFile(),
			path.Join(c.Dir, "login.defs"))
	case change.SetOwner:
		return w.copyFilesToOverlay(ctx, c.Path)
	case change.Rename:
		return w.copyFilesToOverlay(ctx, c.From)
	case change.SetSwap:
		return w.copyFilesToOverlay(ctx, state.SwapsFile)
	default:
		return nil
	}
	now, err := w.Object(ctx, ref)
	if apierrors.IsNotFound(err) || unreadable && apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.overlay.PutObject(now) // an object keeps its UID and its status
}

// copyFilesToOverlay copies files, or directories without their contents, with their modes and
// owners.
func (w *World) copyFilesToOverlay(ctx context.Context, names ...string) error {
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
		if err := w.overlay.PutFile(name, f); err != nil {
			return err
		}
	}
	return nil
}

// isNotCreatedYet reports whether the cluster would be created by this run: the kubeconfig was
// only "written", or the API server does not answer although it was waited for. A simulated
// cluster has no real objects either. The API server is asked once: each of some seventy objects
// would otherwise wait for it.
func (w *World) isNotCreatedYet(ctx context.Context, as state.Identity) bool {
	if w.simulatedInfo() != nil || as.Kubeconfig == "" {
		return w.simulatedInfo() != nil
	}
	if w.has(change.FileTarget(as.Kubeconfig)) {
		if _, err := w.World.Stat(ctx, as.Kubeconfig); errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return w.has(waited) && !w.isLive(ctx, as)
}

// livezTimeout is how long an API server may take to say that it is healthy.
const livezTimeout = 10 * time.Second

// isLive reports whether the real API server answered when it was asked first.
func (w *World) isLive(ctx context.Context, as state.Identity) bool {
	w.liveness.Lock()
	defer w.liveness.Unlock()
	if live, known := w.live[as.Key()]; known {
		return live
	}
	limited, cancel := context.WithTimeout(world.WithRetry(ctx, 0), livezTimeout)
	defer cancel()
	err := w.World.Livez(limited, as)
	if ctx.Err() == nil {
		w.live[as.Key()] = err == nil
	}
	return err == nil
}

// isForbiddenUntilBound reports whether the API server denied a user to whom this run would give
// permissions. What that user would read is unknown; the dry run assumes that it does not exist.
func (w *World) isForbiddenUntilBound(err error) bool {
	return apierrors.IsForbidden(err) && w.has(boundClusterRole)
}
