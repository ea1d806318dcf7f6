package dryrun

import (
	"context"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Links lists the network interfaces that would be left.
func (w *World) Links(ctx context.Context) ([]state.Link, error) {
	all, err := w.World.Links(ctx)
	return slices.DeleteFunc(all, func(l state.Link) bool {
		return w.has(change.RemoveInterface{Name: l.Name}.Target())
	}), err
}

// PacketRules lists the rules of a program that would be left.
func (w *World) PacketRules(ctx context.Context, program string) (string, error) {
	rules, err := w.World.PacketRules(ctx, program)
	if c := (change.RemovePacketRules{Program: program}); w.has(c.Target()) {
		return c.Without(rules), err
	}
	return rules, err
}

// VirtualServers lists the virtual servers that would be left.
func (w *World) VirtualServers(ctx context.Context) ([]state.VirtualServer, error) {
	left, err := w.World.VirtualServers(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.servers {
		left = slices.DeleteFunc(left, c.Matches)
	}
	return left, err
}
