package reconfiguration

import (
	"context"
	"errors"

	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/problem"
)

// CheckStored is an error if another client has changed the configuration that the cluster stores since this command
// began: commands of upstream's kubeadm and kubectl do not take the cluster's lock.
func CheckStored(ctx context.Context, e *engine.Env, here existing.Machine) error {
	intent := IntentOf(e)
	stored, err := existing.ReadStoredConfig(ctx, e.Reader(), here.As)
	if err != nil || stored == intent.Stored {
		return err
	}
	// An interrupted run may have stored a part of the change.
	if isOwn, err := (finder{e: e, here: here}).isOwn(ctx, intent.Change, stored); err != nil || isOwn {
		return err
	}
	return &problem.Problem{Stale: true,
		Err: errors.New("the configuration that the cluster stores was changed meanwhile, and is not overwritten"),
		Hints: append([]string{"see what differs: kubeadm reconfigure plan"},
			intent.StaleHints("to make this change in the present configuration, run this command again")...)}
}
