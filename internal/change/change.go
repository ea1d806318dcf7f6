// Package change defines every change that this program makes outside itself. A change is a
// value that describes the desired state: it can be shown, compared, recorded, skipped and
// inverted. It does nothing by itself; a world carries it out.
package change

import (
	"context"
	"errors"

	"kubeadm/internal/state"
)

// ErrIrreversible is returned by Inverse for a change that cannot be undone.
var ErrIrreversible = errors.New("this cannot be undone")

// Change is one change, described by the desired state.
type Change interface {
	// Target names what is changed, such as "file:/etc/kubernetes/admin.conf".
	// Two changes of one target never run at the same time.
	Target() string
	// String describes the change in the imperative, without secrets: "write file …".
	String() string
	// Done reports whether the desired state is reached already.
	Done(ctx context.Context, r state.Reader) (bool, error)
	// Inverse returns the change that restores the current state, or ErrIrreversible if there is
	// none.
	Inverse(ctx context.Context, r state.Reader) (Change, error)
}

// Previewable is implemented by changes whose content a dry run shows.
type Previewable interface {
	// Content returns the text that would be written; empty if it is secret or not readable.
	Content() string
}

// Cancelable is implemented by changes that may take long and can be canceled at any time
// without harm. All others are completed when the user interrupts the program.
type Cancelable interface {
	Change
	Cancelable()
}
