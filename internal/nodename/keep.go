package nodename

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Wanted is what a command needs to keep the name of this node.
type Wanted struct {
	Intent
	Node *node.Node // this node by its files
	As   state.Identity
}

// Intent is what the user wants, for the phases.
type Intent struct {
	// Host is the name of this machine.
	Host string
	// Files are the environment files of the kubelet that change; none if it is told its name already.
	Files []File
	// Replaced are those, and the ones that an interrupted run has replaced: what is restored if the kubelet does not
	// become healthy.
	Replaced []File
}

// IntentOf is the intent of the command that a phase belongs to.
func IntentOf(e *engine.Env) Intent { return engine.IntentOf[Intent](e) }

// FindKeep finds what tells the kubelet of this machine the name of its Node, which is that in its client certificate.
func FindKeep(ctx context.Context, e *engine.Env, here existing.Machine) (w Wanted, err error) {
	client, err := localkubelet.ReadClientCert(ctx, e.World, here.Paths)
	if err != nil {
		return w, err
	}
	local := here.Local
	if client != nil {
		local.Name = client.NodeName(ctx, e.World)
	}
	if client == nil || local.Name == "" {
		return w, newUnknownError(here.Paths)
	}
	if wrong := validation.IsDNS1123Subdomain(local.Name); len(wrong) > 0 {
		return w, fmt.Errorf("the client certificate of the kubelet is for %s, which cannot be the name of a Node: %s",
			untrusted.Quote(local.Name), strings.Join(wrong, "; "))
	}
	if err := CheckComplete(ctx, e.World, local.Paths); err != nil {
		return w, err
	}
	w.Node, w.As, w.Host = &node.Node{Local: local}, here.As, here.Hostname
	hasEtcd, err := state.Exists(ctx, e.World, local.Paths.Manifest(manifest.Etcd))
	if err != nil {
		return w, err
	}
	if !hasEtcd {
		w.Node.Cluster.Etcd.External = &node.ExternalEtcd{}
	}
	if err := w.findFiles(ctx, e.World); err != nil {
		return w, err
	}
	interrupted, err := readRecord(ctx, e.World, local.Paths)
	w.Replaced = withInterrupted(w.Files, interrupted)
	return w, err
}

// findFiles finds the environment files that set another name. If none does, that of kubeadm gets the argument.
func (w *Wanted) findFiles(ctx context.Context, r state.Reader) error {
	local := w.Node.Local
	k, err := ReadKubelet(ctx, r, local)
	if err != nil || k.File != "" && !k.IsEmpty && k.Name == local.Name {
		return err
	}
	if k.IsUnit {
		return newUnitError(k, local.Name)
	}
	for i, file := range local.Paths.KubeletEnvFiles() {
		before, err := state.ReadOptional(ctx, r, file)
		if err != nil {
			return err
		}
		now := []byte(replaceOverride(string(before), local.Name))
		if i == 0 && k.File == "" {
			if now, err = config.HostnameOverride(local.Name).Edit(before); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if string(now) != string(before) {
			w.Files = append(w.Files, File{Path: file, Before: string(before), Existed: before != nil, Now: string(now)})
		}
	}
	return nil
}

// newUnitError is the error of a kubelet that has its name from the unit of its service.
func newUnitError(k Kubelet, name string) error {
	return problem.New(fmt.Errorf("%s sets the name of the kubelet, --hostname-override, and kubeadm does not edit that file",
		untrusted.Line(k.File)), "set --hostname-override="+untrusted.Line(name)+" there",
		"then run: systemctl daemon-reload && systemctl restart kubelet")
}
