package change

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
)

// Effect is what a change did to its target.
type Effect string

// The effects of changes. A target is unchanged if the change was not needed, emptied if a directory
// lost its contents and stays, and undone if what a change did was reverted.
const (
	Created       Effect = "created"
	Changed       Effect = "changed"
	Removed       Effect = "removed"
	Emptied       Effect = "emptied"
	LeftUnchanged Effect = "unchanged"
	Reverted      Effect = "undone"
	NotMade       Effect = "failed"
)

// EffectOf returns what a change does that is not done yet. Existed reports whether its target
// existed before.
func EffectOf(c Change, existed bool) Effect {
	switch c := c.(type) {
	case Remove:
		if c.Contents {
			return Emptied
		}
		return Removed
	case RemoveContainers:
		if !c.KeepPod {
			return Removed
		}
	case Unmount, RemoveImage, RemoveInterface, RemovePacketRules,
		RemoveVirtualServers, RemoveControlGroup, DeleteObject, EvictPod:
		return Removed
	case SetAccounts:
		if c.Absent {
			return Removed
		}
	case SetMember:
		switch c.State {
		case Absent:
			return Removed
		case Learner:
			return Created
		}
	case PullImage, RestoreSnapshot:
		return Created
	case WriteFile, WriteKeyPair, MakeDir, MakeLink, SaveSnapshot, SaveArchive, ApplyObject, MutateObject:
		if !existed {
			return Created
		}
	}
	return Changed
}

// Lookup reads the world for Change.Done, and notes whether that met a file or an object that does
// not exist: so the target need not be read once more.
type Lookup struct {
	state.Reader
	missed atomic.Bool
}

// Missed reports whether something that was read does not exist.
func (l *Lookup) Missed() bool { return l.missed.Load() }

func (l *Lookup) note(err error) {
	if errors.Is(err, fs.ErrNotExist) || apierrors.IsNotFound(err) {
		l.missed.Store(true)
	}
}

// ReadFile reads a file.
func (l *Lookup) ReadFile(ctx context.Context, path string) ([]byte, error) {
	data, err := l.Reader.ReadFile(ctx, path)
	l.note(err)
	return data, err
}

// Stat describes a file.
func (l *Lookup) Stat(ctx context.Context, path string) (state.FileInfo, error) {
	info, err := l.Reader.Stat(ctx, path)
	l.note(err)
	return info, err
}

// Lstat describes a file or a symbolic link.
func (l *Lookup) Lstat(ctx context.Context, path string) (state.FileInfo, error) {
	info, err := l.Reader.Lstat(ctx, path)
	l.note(err)
	return info, err
}

// Object reads an object.
func (l *Lookup) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	object, err := l.Reader.Object(ctx, ref)
	l.note(err)
	return object, err
}
