package etcddata

import "context"

// Options are what the user says to a command that replaces the data of etcd.
type Options struct {
	Snapshot string // the file to restore
	Undo     bool   // put back the data that an unfinished restore has replaced
	// Lost are names or IDs of other members that the user says are lost, or stopped for good.
	Lost []string
	// Ask shows what is about to happen and returns an error unless the user agrees; nil if that is not
	// asked.
	Ask func(ctx context.Context, what string) error
}
