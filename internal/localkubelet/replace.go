package localkubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// defaultValidity is that of kube-controller-manager's --cluster-signing-duration.
const defaultValidity = 365 * 24 * time.Hour

// ReplaceClientCert signs a new client certificate for the kubelet with the cluster CA of this
// machine, installs it and restarts the kubelet. The name of the node is that of the certificate
// before, or n.Name if none is left. After a kill Repair can see what is left to do, as the kubelet is stopped first.
func ReplaceClientCert(ctx context.Context, e *engine.Env, n *node.Node) error {
	c, err := ReadManagedClientCert(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	if canSign, err := CanSign(ctx, e, n); err != nil || !canSign {
		if err == nil {
			profile, _ := pki.ProfileOf(pki.ClusterCA)
			err = newNoKeyError(n.Paths.Key(profile.Base))
		}
		return err
	}
	name := cmp.Or(c.NodeName(ctx, e.World), n.Name)
	if name == "" {
		return problem.New(errors.New("the name of this node is unknown: its kubelet has no client certificate left"),
			"create a token with kubeadm token create, and run: kubeadm certs renew kubelet.conf --token TOKEN")
	}
	p, err := SignFor(ctx, e, n, name)
	if err != nil {
		return err
	}
	e.Say("signing a new client certificate for the kubelet, user %s%s", userPrefix, name)
	return c.Use(ctx, e, p)
}

// CanSign reports whether this machine has the key of the cluster CA.
func CanSign(ctx context.Context, e *engine.Env, n *node.Node) (bool, error) {
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := certstore.ReadCA(ctx, e.World, n, profile)
	return err == nil && ca.CanIssue(), err
}

// SignFor signs a client certificate for the kubelet of a node of that name, with the cluster CA of this machine.
func SignFor(ctx context.Context, e *engine.Env, n *node.Node, name string) (p ClientPair, err error) {
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := certstore.ReadCA(ctx, e.World, n, profile)
	if err != nil {
		return p, err
	}
	valid := pki.NewValidity(e.World.Now(), cmp.Or(n.Cluster.CertValidity, defaultValidity))
	if p, err = SignClientCert(e, ca, pki.ClientSpec(userPrefix+name, []string{"system:nodes"}, valid)); err != nil {
		return p, err
	}
	p.CA, err = certstore.ReadTrusted(ctx, e.World, n.Paths, ca.Certificate)
	return p, err
}

// Use installs the pair and restarts the kubelet. The link or kubelet.conf is replaced while the
// kubelet is stopped.
func (c *ClientCert) Use(ctx context.Context, e *engine.Env, p ClientPair) error {
	use, err := c.prepare(ctx, e, p)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// An interrupt does not leave the node without a kubelet: its Pods would be evicted.
	whole := context.WithoutCancel(ctx)
	e.Say("restarting the kubelet")
	if err := Stop(whole, e); err != nil {
		return err
	}
	err = e.Do(whole, use)
	return errors.Join(err, Start(whole, e, cmp.Or(c.File, c.Path)))
}

// newNoKeyError is the error of a machine that cannot sign.
func newNoKeyError(file string) error {
	return problem.New(fmt.Errorf("%s is not on this machine, so it cannot sign a certificate", file),
		"create a token on a control plane node with kubeadm token create, and run here: kubeadm certs "+
			"renew kubelet.conf --token TOKEN")
}

// Repair replaces the kubelet's client certificate if the kubelet cannot log in with it, and starts a
// kubelet that does not run. Otherwise it changes nothing. It warns without the key of the cluster
// CA, without a kubelet.conf, and if certificate and key are in two files. It reports whether it has
// replaced a certificate that had expired or was missing, as after a long shutdown of the cluster.
func Repair(ctx context.Context, e *engine.Env, n *node.Node) (hadExpired bool, err error) {
	c, err := ReadClientCert(ctx, e.World, n.Paths)
	if err != nil {
		return false, err
	}
	if c == nil {
		e.Warn("%s does not exist; to generate it: kubeadm init phase kubeconfig kubelet",
			n.Paths.KubeletKubeconfig())
		return false, nil
	}
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := certstore.ReadCA(ctx, e.World, n, profile)
	if err != nil {
		return false, err
	}
	reason := c.Check(ca.Certificate, e.World.Now())
	if reason == nil {
		return false, startStopped(ctx, e, c)
	}
	if c.Certificate != nil && e.World.Now().Before(c.Certificate.NotBefore) {
		e.Warn("the kubelet's client certificate was not replaced: %v; compare this machine's clock with that of others: timedatectl",
			reason)
		return false, nil
	}
	e.Say("the kubelet cannot use its client certificate: %v", reason)
	err = c.CheckManaged()
	if err == nil && !ca.CanIssue() {
		err = newNoKeyError(n.Paths.Key(profile.Base))
	}
	if err != nil {
		e.Warn("the kubelet's client certificate was not replaced: %v; %s", err,
			problem.Hints(err)[0])
		return false, nil
	}
	if err := ReplaceClientCert(ctx, e, n); err != nil {
		return false, err
	}
	return c.Certificate == nil || e.World.Now().After(c.Certificate.NotAfter), nil
}

// startStopped starts a kubelet that does not run, as after a run that was killed.
func startStopped(ctx context.Context, e *engine.Env, c *ClientCert) error {
	s, err := e.World.Service(ctx, Service)
	if err != nil || !s.Exists || s.Active && !s.Since.IsZero() {
		return nil
	}
	return e.Do(ctx, change.SetService{Name: Service, Active: true,
		Reads: []string{cmp.Or(c.File, c.Path)}})
}
