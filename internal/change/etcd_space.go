package change

import (
	"context"
	"fmt"

	"kubeadm/internal/state"
)

// Defragment rewrites the database of one etcd member, which returns its free pages to the file system.
// The member answers nothing meanwhile. It needs disk space for the copy.
type Defragment struct {
	Member  state.Member
	MinFree int64      // bytes that must be free to be worth the interruption
	Via     state.Etcd // the credentials
	// Successor is the ID of the member to which the leadership is moved first; 0 if Member does not lead,
	// or no other one can. Without that, writes wait until the others have elected one.
	Successor uint64
}

// Target names the database of the member.
func (c Defragment) Target() string { return fmt.Sprintf("database:%x", c.Member.ID) }

func (c Defragment) String() string {
	return fmt.Sprintf("defragment the database of etcd member %s", c.name())
}

func (c Defragment) name() string {
	if c.Member.Name == "" {
		return fmt.Sprintf("%x", c.Member.ID)
	}
	return c.Member.Name
}

// Done reports whether less than MinFree is free.
func (c Defragment) Done(ctx context.Context, r state.Reader) (bool, error) {
	status, err := r.MemberStatus(ctx, c.Via, c.Member)
	return err == nil && status.DBSize-status.DBInUse < max(c.MinFree, 1), err
}

// Cancelable marks that an interrupt ends the wait. The member finishes its work.
func (c Defragment) Cancelable() {}

// Inverse is ErrIrreversible.
func (c Defragment) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}

// CompactHistory removes the revisions of etcd's keys before one, and waits until their pages are free.
type CompactHistory struct {
	Revision int64
	Via      state.Etcd
}

// Target names the history of the keys.
func (c CompactHistory) Target() string { return "history:etcd" }

func (c CompactHistory) String() string {
	return fmt.Sprintf("compact etcd's history before revision %d", c.Revision)
}

// Done is false: no member reports up to which revision it is compacted. A repeated request does no
// harm.
func (c CompactHistory) Done(context.Context, state.Reader) (bool, error) { return false, nil }

// Cancelable marks that an interrupt ends the wait.
func (c CompactHistory) Cancelable() {}

// Inverse is ErrIrreversible.
func (c CompactHistory) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}

// DisarmAlarm clears an alarm that a member has raised. etcd clears none by itself.
type DisarmAlarm struct {
	Member uint64
	Kind   string // "NOSPACE"
	Via    state.Etcd
}

// Target names the alarm.
func (c DisarmAlarm) Target() string { return fmt.Sprintf("alarm:%s:%x", c.Kind, c.Member) }

func (c DisarmAlarm) String() string {
	return fmt.Sprintf("disarm the alarm %s of etcd member %x", c.Kind, c.Member)
}

// Done is false: the alarms of a member are part of its status, which the caller has read. A repeated
// request does no harm.
func (c DisarmAlarm) Done(context.Context, state.Reader) (bool, error) { return false, nil }

// Cancelable marks that an interrupt ends the wait.
func (c DisarmAlarm) Cancelable() {}

// Inverse is ErrIrreversible: the alarm says what was true before.
func (c DisarmAlarm) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
