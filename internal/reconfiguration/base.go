package reconfiguration

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/config"
	"kubeadm/internal/problem"
)

// BaseOf is a short text that identifies what the cluster stores.
func BaseOf(stored config.StoredConfig) string { return digest(fmt.Sprintf("%#v", stored))[:16] }

// checkBase is an error if the configuration that the user has edited is no longer what the cluster stores: what the user
// wants would take back what was changed since. It is none if an earlier run of the same change has stored that.
func (f finder) checkBase(ctx context.Context, q Request, stored, wanted config.StoredConfig, found *State) error {
	if q.Base == "" || q.Base == BaseOf(stored) {
		return nil
	}
	if found != nil {
		isAgain, err := f.isSame(ctx, found.After, wanted)
		if err == nil && isAgain {
			isAgain, err = f.isOwn(ctx, found, stored)
		}
		if err != nil || isAgain {
			return err
		}
	}
	return problem.New(errors.New("the configuration that the cluster stores was changed after it had been opened in the editor, and "+
		"what was edited would take that back"), "to edit the present configuration: kubeadm reconfigure apply --edit")
}
