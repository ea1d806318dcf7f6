package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/state"
)

// ServerVersion is what the API server says at /version, which it tells everyone. It is as patient as
// Object.
func (k *Cluster) ServerVersion(ctx context.Context, as state.Identity) (string, error) {
	var found version.Info
	ask := func(ctx context.Context, c *client) error {
		status, text, err := c.health(ctx, "/version")
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("it answered %d %s", status, http.StatusText(status))
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil || found.GitVersion == "" {
			return errors.New("its answer has no version")
		}
		return nil
	}
	op := "asking the API server for its version"
	err := k.try(ctx, attempt{as: as, op: op, again: overloaded, reads: true, do: ask})
	return found.GitVersion, err
}
