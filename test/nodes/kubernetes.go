package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const initConfigFile = "/root/kubeadm.yaml"

// Init runs kubeadm init with the configuration on the node and returns what it printed.
func (n *Node) Init(ctx context.Context, config string, out io.Writer,
	flags ...string) (Result, error) {
	if err := n.WriteFile(initConfigFile, []byte(config), 0o600); err != nil {
		return Result{}, err
	}
	cmd := n.Command(append([]string{"kubeadm", "init", "--config", initConfigFile}, flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run(ctx)
}

// Join runs the join command, as JoinCommands returns it, on the node.
func (n *Node) Join(ctx context.Context, command []string, out io.Writer) (Result, error) {
	cmd := n.Command(append(slices.Clone(command),
		"--ignore-preflight-errors="+IgnoredPreflight)...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run(ctx)
}

// JoinCommands finds the join commands in the output of kubeadm init. The one for control planes
// is nil unless certificates were uploaded.
func JoinCommands(output string) (worker, controlPlane []string, err error) {
	output = strings.ReplaceAll(output, "\\\n", " ")
	for text := range strings.Lines(output) {
		fields := strings.Fields(text)
		if len(fields) < 3 || fields[0] != "kubeadm" || fields[1] != "join" {
			continue
		}
		switch {
		case !slices.Contains(fields, "--control-plane"):
			worker = fields
		case slices.Contains(fields, "--certificate-key"):
			controlPlane = fields
		}
	}
	if worker == nil {
		return nil, nil, errors.New("kubeadm init printed no join command for workers")
	}
	return worker, controlPlane, nil
}

// AwaitNodes waits until count nodes have registered.
func (n *Node) AwaitNodes(ctx context.Context, count int) error {
	return pollUntil(ctx, fmt.Sprintf("%d nodes", count), pollLimit,
		func(ctx context.Context) error {
			list, err := listNodes(ctx, n)
			if err == nil && len(list.Items) != count {
				err = fmt.Errorf("%d nodes have joined", len(list.Items))
			}
			return err
		})
}

// AwaitReady waits until count nodes have registered and all of them are Ready.
func (n *Node) AwaitReady(ctx context.Context, count int) error {
	return pollUntil(ctx, fmt.Sprintf("%d ready nodes", count), pollLimit,
		func(ctx context.Context) error {
			list, err := listNodes(ctx, n)
			if err != nil {
				return err
			}
			if len(list.Items) != count {
				return fmt.Errorf("%d nodes have joined", len(list.Items))
			}
			for _, item := range list.Items {
				if err := item.checkReady(); err != nil {
					return err
				}
			}
			return nil
		})
}

// AwaitDNS waits until CoreDNS is available.
func (n *Node) AwaitDNS(ctx context.Context) error {
	return pollUntil(ctx, "CoreDNS", pollLimit, func(ctx context.Context) error {
		_, err := n.Kubectl(ctx, "--namespace=kube-system", "wait", "--for=condition=Available",
			"--timeout=20s", "deployment/coredns")
		return err
	})
}
