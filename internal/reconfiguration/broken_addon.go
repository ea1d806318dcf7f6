package reconfiguration

import (
	"errors"

	"kubeadm/internal/problem"
)

// BrokenAddon is the error of a change with which new Pods of CoreDNS or kube-proxy do not run.
type BrokenAddon struct{ Err error }

func (b *BrokenAddon) Error() string { return b.Err.Error() }

// Unwrap returns what is wrong with the Pods.
func (b *BrokenAddon) Unwrap() error { return b.Err }

// IsTakenBack reports whether the command that makes a change takes it back if an addon does not run with it. That is not
// so for an undo, nor with a new endpoint, which other machines may use already.
func (s *State) IsTakenBack() bool { return s.Undoes == "" && s.Endpoint == nil }

// ExplainBroken adds the next commands to the error of an addon that does not run with a change which is not taken back.
func (s *State) ExplainBroken(err error) error {
	switch {
	case !errors.As(err, new(*BrokenAddon)) || s.IsTakenBack():
		return err
	case s.Undoes != "":
		return problem.New(err, "to complete the undo once the cause is removed: kubeadm reconfigure undo",
			"to change the configuration otherwise: kubeadm reconfigure apply --config FILE")
	}
	return problem.New(err, "to complete the change once the cause is removed, run the same command",
		"to take the change back: kubeadm reconfigure undo")
}
