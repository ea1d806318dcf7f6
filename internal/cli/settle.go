package cli

import (
	"context"
	"crypto"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
)

// settle puts what an unfinished run of the same command made up in place of what this one did,
// so that tokens and keys that were shown already stay good.
func (p *program) settle(ctx context.Context, e *flow.Env, n *node.Node) (*node.Node, error) {
	own := *n
	own.Tokens = slices.Clone(n.Tokens)
	for i := range own.Tokens {
		if err := settleToken(ctx, e, &own.Tokens[i], fmt.Sprintf("bootstrap-token/%d", i)); err != nil {
			return nil, err
		}
	}
	if !own.UploadCerts || own.CertificateKey != "" {
		return &own, nil
	}
	var err error
	own.CertificateKey, err = e.Once(ctx, "certificate-key", p.newCertificateKey)
	return &own, err
}

// settleVersion is the intent with the version that an earlier run of the same command was told to be behind a label: by now
// it may be another one. again resolves the intent where whoever is asked for a version answers with that one.
func settleVersion(ctx context.Context, e *flow.Env, n *node.Node, again func(release.Fetch) (*node.Node, error)) (*node.Node, error) {
	if n.Cluster.Label == "" {
		return n, nil
	}
	version, err := e.Once(ctx, "kubernetes-version/"+n.Cluster.Label, func() (string, error) { return n.Cluster.Version, nil })
	if err != nil || version == n.Cluster.Version {
		return n, err
	}
	e.Say("%s is %s by now; going on with %s", n.Cluster.Label, n.Cluster.Version, version)
	return again(func(string) (string, error) { return version, nil })
}

func settleToken(ctx context.Context, e *flow.Env, t *node.BootstrapToken, name string) error {
	if t.Random {
		text, err := e.Once(ctx, name, func() (string, error) { return t.String(), nil })
		if err == nil {
			t.ID, t.Secret, err = node.ParseToken(text)
		}
		if err != nil {
			return fmt.Errorf("keeping the bootstrap token: %w", err)
		}
	}
	if t.TTL <= 0 || !t.Expires.IsZero() {
		return nil
	}
	now := e.World.Now()
	// The end is that of this token with this TTL: a run that is resumed with others gets another.
	token, err := digest(t.String())
	if err != nil {
		return err
	}
	text, err := e.Once(ctx, fmt.Sprintf("%s/expires/%s/%s", name, token, t.TTL), func() (string, error) { return now.Add(t.TTL).UTC().Format(time.RFC3339), nil })
	if err != nil {
		return fmt.Errorf("keeping the end of the bootstrap token: %w", err)
	}
	// A run that is gone on with much later must not make a token that is already dead.
	if end, err := time.Parse(time.RFC3339, text); err == nil && end.After(now) {
		t.Expires = end
	}
	return nil
}

// keys gives private keys of the cluster's algorithm. Those that the run needs are made at once, beside whatever else goes on.
func (p *program) keys(ctx context.Context, s *session, n *node.Node) func() (crypto.Signer, error) {
	return pki.NewStock(p.Random("keys"), n.Cluster.Algorithm, s.missingKeys(ctx, n)).Key
}

// missingKeys counts the keys that the run is to make: those that a control plane needs and this machine lacks.
func (s *session) missingKeys(ctx context.Context, n *node.Node) int {
	missing := 0
	for _, f := range keyFiles(n) {
		if !s.sel.Runs(f.phase) {
			continue
		}
		if _, err := s.real.Stat(ctx, f.path); err != nil {
			missing++
		}
	}
	return missing
}

// keyFile is a file with a key of its own, and the phase that makes it.
type keyFile struct{ phase, path string }

// keyFiles are those that are made here: what all control planes share comes from elsewhere where this one joins others.
func keyFiles(n *node.Node) []keyFile {
	var files []keyFile
	add := func(group, name, path string) {
		address := group + "/" + name
		if n.Joins() { // where these phases are one
			address = "control-plane-prepare/" + group
		}
		files = append(files, keyFile{address, path})
	}
	if !n.Joins() {
		add("certs", "sa", n.Paths.Certificate(pki.ServiceAccountKey))
	}
	local, _ := node.LocalEtcd(n)
	for _, c := range pki.Profiles() {
		if (local || !c.LocalEtcdOnly()) && !(n.Joins() && c.IsCA()) {
			add("certs", c.Name, n.Paths.Key(c.Base))
		}
	}
	for _, k := range pki.KubeconfigProfiles() {
		if k.OnJoin || !n.Joins() {
			add("kubeconfig", k.Name, n.Paths.Kubeconfig(k.File))
		}
	}
	return files
}

// add puts the arguments after those that the configuration has.
func (x extraArgs) add(c *node.Cluster) {
	for _, of := range []struct {
		component *node.Component
		args      map[string]string
	}{{&c.APIServer, x.apiServer}, {&c.ControllerManager, x.controllerManager}, {&c.Scheduler, x.scheduler}} {
		for _, name := range slices.Sorted(maps.Keys(of.args)) {
			of.component.Args = append(of.component.Args, node.Arg{Name: name, Value: of.args[name]})
		}
	}
}
