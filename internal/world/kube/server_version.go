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

// ServerVersion reads the version of the API server at /version, which needs no permissions. It
// retries as Object does.
func (k *Cluster) ServerVersion(ctx context.Context, as state.Identity) (string, error) {
	var found version.Info
	ask := func(ctx context.Context, c *client) error {
		status, text, err := c.readHealthAt(ctx, "/version")
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
	op := "getting the version of the API server"
	err := k.retry(ctx, request{as: as, op: op, isRetryable: isServerBusy, isRead: true, do: ask})
	return found.GitVersion, err
}
