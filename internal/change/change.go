// Package change holds every way in which this program alters anything outside
// itself. A change is a value that says what should be true afterwards: it can be
// shown, compared, recorded, passed over and inverted. It does nothing by itself;
// a world carries it out.
package change

import (
	"context"
	"errors"
	"kubeadm/internal/state"
)

// ErrOneWay is returned by Inverse for a change that nothing can put back.
var ErrOneWay = errors.New("this cannot be undone")

// Change is one alteration, stated as what should be true afterwards.
type Change interface {
	// Target names what the change touches, such as "file:/etc/kubernetes/admin.conf".
	// Two changes of one target never happen at the same time.
	Target() string
	// String says it in the infinitive, without secrets: "write file …".
	String() string
	// Done tells whether it is already true.
	Done(ctx context.Context, r state.Reader) (bool, error)
	// Inverse is the change that puts back what is there now; ErrOneWay if nothing can.
	Inverse(ctx context.Context, r state.Reader) (Change, error)
}

// Shown is implemented by changes whose content a preview shows.
type Shown interface {
	// Content is what would be written, as text; empty when it is secret or says nothing.
	Content() string
}

// Breakable is implemented by changes that may take long and may be broken off half-way
// without harm. All others are brought to their end when the user interrupts.
type Breakable interface {
	Change
	Breakable()
}
