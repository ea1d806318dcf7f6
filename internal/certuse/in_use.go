// Package certuse finds out which certificates the components of this machine use: those of the files, or
// older ones.
package certuse

import (
	"context"
	"crypto/x509"
	"errors"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// InUse is a certificate that a component of this control plane node uses.
type InUse struct {
	Component   string
	Address     string            // "host:port" at which it is served; empty if it is a client's
	File        string            // where the component reads it
	Certificate *x509.Certificate // nil if it cannot be found out
	// Stale says why it is not that of the file, or why that is not known; nil if it is.
	Stale error
	// Unknown is set if nothing is known, as a read failed: Stale says which.
	Unknown bool
	// NotRunning is set if the component does not run: then nothing is known but the file.
	NotRunning bool
}

// ListInUse finds out which certificates the components of this machine use. It changes nothing and
// does not wait. Beside an error it returns what is known of the other components.
func ListInUse(ctx context.Context, e *engine.Env, n *node.Node) ([]InUse, error) {
	uses, err := ListUses(ctx, e, n)
	var all []InUse
	for _, u := range uses {
		found := InUse{Component: u.Component, Address: u.Server, File: u.Path}
		if u.Server == "" {
			if found.Stale = u.checkStarted(ctx, e.World, n); found.Stale == nil {
				found.Certificate = u.Certificate
			}
		} else if found.Certificate, found.Stale = e.World.ServedCertificate(ctx,
			u.Server); found.Stale == nil && !found.Certificate.Equal(u.Certificate) {
			found.Stale = errors.New("it serves a different one")
		}
		found.NotRunning = errors.Is(found.Stale, notRunning) ||
			errors.Is(found.Stale, state.ErrNoServer)
		found.Unknown = found.Stale != nil && found.Certificate == nil && !found.NotRunning &&
			!errors.As(found.Stale, new(StaleError))
		all = append(all, found)
	}
	return all, err
}
