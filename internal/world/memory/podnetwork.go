package memory

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Links lists the network interfaces.
func (w *World) Links(context.Context) ([]state.Link, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.LinkList), nil
}

// PacketRules lists the rules of a program, which is installed if it has an entry in Rules.
func (w *World) PacketRules(_ context.Context, program string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rules, ok := w.Rules[program]
	if !ok {
		return "", fmt.Errorf("%s was not found in PATH: %w", program, fs.ErrNotExist)
	}
	return rules, nil
}

// VirtualServers lists the virtual servers of IPVS.
func (w *World) VirtualServers(context.Context) ([]state.VirtualServer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.VirtualServerList), nil
}

func (w *World) removeLink(c change.RemoveInterface) error {
	w.LinkList = slices.DeleteFunc(w.LinkList,
		func(l state.Link) bool { return l.Name == c.Name })
	return nil
}
