// Package rotateca replaces the CAs and the service account key of a running cluster in stages,
// without downtime. First every node trusts the old and the new CA, then the new one signs, and at
// last the old one is not trusted any more. Until then the rotation can be undone in the same steps.
// docs/decisions/0047 has the reasons.
package rotateca

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/nodename"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// New returns the phase that brings this node to a stage of a CA rotation.
func New(s rotation.Stage, o rotation.Options) engine.Phase {
	return engine.Phase{
		Name:  "rotate-ca",
		Short: "Bring this node to a stage of a CA rotation",
		Run: func(ctx context.Context, e *engine.Env) error {
			return run(ctx, e, s, o)
		},
	}
}

// run brings this node to the stage that a subcommand names. The first control plane node that
// begins a stage checks that all nodes have reached the one before.
func run(ctx context.Context, e *engine.Env, command rotation.Stage, o rotation.Options) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := nodename.CheckComplete(ctx, e.World, n.Paths); err != nil {
		return err
	}
	if n.Role != node.ControlPlane {
		return runWorker(ctx, machine{node: n, as: as, e: e}, command)
	}
	if err := nodeaddress.CheckComplete(ctx, e.World, n); err != nil {
		return err
	}
	if err := existing.CheckNodeChanges(ctx, e.Reader(), as, nil); err != nil {
		return err
	}
	if err := checkBefore(ctx, machine{node: n, as: as, e: e}, command, o); err != nil {
		return err
	}
	shared := as
	shared.Server = "" // that of the kubeconfig: often a load balancer
	lock := clusterlock.Lock{Node: n.Name, Purpose: "replacing CAs: stage " + string(command),
		As: []state.Identity{as, shared}}
	return lock.Hold(ctx, e, func(ctx context.Context, e *engine.Env) error {
		// Another node may have changed while this one waited for the lock.
		if err := existing.CheckNodeChanges(ctx, e.Reader(), as, nil); err != nil {
			return err
		}
		n, _, err := existing.ReadNode(ctx, e.Reader(), as, n.Local, release.Target{})
		if err != nil {
			return err
		}
		own := *e
		own.Node = engine.Resolved(n)
		e = &own
		m := machine{node: n, as: as, e: e}
		r, err := rotation.Read(ctx, e.Reader(), as)
		if err != nil {
			return err
		}
		switch {
		case r == nil && command != rotation.Trust: // another node has completed it meanwhile
			return errNoRotation(command)
		case r == nil:
			if r, err = start(ctx, e, m, o); err != nil {
				return err
			}
		}
		if err := checkAuthorities(r, o); err != nil {
			return err
		}
		m.State = r
		return runControlPlane(ctx, m, command, o)
	})
}

// checkAuthorities is an error if the user wants to replace more than this rotation does.
func checkAuthorities(r *rotation.State, o rotation.Options) error {
	if slices.ContainsFunc(o.Authorities,
		func(name string) bool { return !r.Replaces(name) }) {
		return problem.New(fmt.Errorf("a rotation of %s is already in progress: --ca cannot add to it",
			strings.Join(r.Authorities, ",")), "finish or undo it first, or leave out --ca")
	}
	return nil
}

// checkBefore refuses what would be refused later, before anything is changed.
func checkBefore(ctx context.Context, m machine, command rotation.Stage, o rotation.Options) error {
	r, err := rotation.Read(ctx, m.e.Reader(), m.as)
	switch {
	case err != nil:
		return err
	case r == nil && command != rotation.Trust:
		return errNoRotation(command)
	case r == nil:
		_, err := checkStart(ctx, m.e, m.node, o.Authorities)
		return err
	}
	m.State = r
	if err := checkAuthorities(r, o); err != nil {
		return err
	}
	s, err := m.nextStage(ctx, command)
	if err != nil {
		return err
	}
	if s.IsLast() {
		return nil
	}
	if err := checkArguments(ctx, m.e, m.node, r.Authorities); err != nil {
		return problem.New(err, "if other nodes have begun the rotation, set the argument as on "+
			"those nodes, or run this on them: kubeadm certs rotate-ca undo")
	}
	has, err := m.hasKeys(ctx)
	if err == nil && !has {
		_, err = m.readUploadedKeys(ctx)
	}
	if err != nil {
		return err
	}
	return checkKubelet(ctx, m.e, m.node, r.Authorities)
}

func errNoRotation(command rotation.Stage) error {
	return problem.New(fmt.Errorf("no rotation is in progress, so there is nothing to %s",
		command), "start one on a control plane node: kubeadm certs rotate-ca trust")
}

// start begins a rotation.
func start(ctx context.Context, e *engine.Env, m machine, o rotation.Options) (*rotation.State, error) {
	names, err := checkStart(ctx, e, m.node, o.Authorities)
	if err != nil {
		return nil, err
	}
	r, err := newRotation(ctx, e, m.node, names)
	if err != nil {
		return nil, err
	}
	store, err := r.NewStoreChange(m.as)
	if err != nil {
		return nil, err
	}
	return r, e.Do(ctx, append(change.ApplyAll(m.as, manifest.CARotationAccess.Objects()...),
		store)...)
}

func runControlPlane(ctx context.Context, m machine, command rotation.Stage, o rotation.Options) error {
	s, err := m.nextStage(ctx, command)
	if err != nil {
		return err
	}
	if m.Completed { // a run was killed while it removed the state
		return m.complete(ctx, s)
	}
	if s != m.Stage {
		if err := m.begin(ctx, s, o); err != nil {
			return err
		}
	}
	if err := m.forgetSwitch(ctx, s); err != nil {
		return err
	}
	target := s
	if command == rotation.Trust && s == rotation.Sign { // of a node that has joined since
		if target, err = m.trustStage(ctx); err != nil {
			return err
		}
	}
	hasKeys, err := m.hasKeys(ctx)
	if err != nil {
		return err
	}
	if !hasKeys && !target.IsLast() {
		if err := m.downloadKeys(ctx); err != nil {
			return err
		}
	}
	if err := m.updateCluster(ctx, s); err != nil {
		return err
	}
	if err := m.bringControlPlane(ctx, target); err != nil {
		return err
	}
	if err := m.warnOfHostUse(ctx, target); err != nil {
		return err
	}
	report, err := m.NewReportChange(m.node.Name, target, m.as)
	if err != nil {
		return err
	}
	if err := m.e.Do(ctx, report); err != nil {
		return err
	}
	return m.end(ctx, s, command == rotation.Trust && hasKeys)
}

// trustStage is the stage of this node after "trust", if the cluster has already reached Sign:
// this node keeps its signing key.
func (m machine) trustStage(ctx context.Context) (rotation.Stage, error) {
	for _, a := range rotation.Authorities() {
		if !m.Replaces(a.Name) {
			continue
		}
		_, err := readKey(ctx, m.e.World, a, m.New[a.Name], m.node.Paths.Certificate(a.Key))
		if errors.Is(err, errKeyMissing) {
			return rotation.Trust, nil
		}
		if err != nil {
			return "", err
		}
	}
	return rotation.Sign, nil
}

// nextStage returns the stage that a subcommand stands for now.
func (m machine) nextStage(ctx context.Context, command rotation.Stage) (rotation.Stage, error) {
	follows := func(next, before rotation.Stage) (rotation.Stage, error) {
		behind, err := m.listBehind(ctx, before)
		if err == nil && len(behind) > 0 {
			err = behindError(behind, before)
		}
		if err != nil {
			return "", err
		}
		return next, nil
	}
	refuse := func(hint string) (rotation.Stage, error) {
		return "", problem.New(fmt.Errorf("the rotation is in stage %q, which %q cannot follow", m.Stage, command), hint)
	}
	switch {
	case command == m.Stage:
		return m.Stage, nil
	case command == rotation.Undo && m.Stage == rotation.Trust:
		return rotation.Undo, nil
	case command == rotation.Undo && m.Stage == rotation.Sign:
		return rotation.UndoSign, nil
	case command == rotation.Undo && m.Stage == rotation.UndoSign:
		// Without the time a run was killed before it has stored it, and begin could not check tokens.
		if m.Switched == nil {
			return rotation.UndoSign, nil // also on a node that has reached it, which then says who has not
		}
		if behind, err := m.listBehind(ctx, rotation.UndoSign); err != nil || len(behind) > 0 {
			return rotation.UndoSign, err
		}
		return rotation.Undo, nil
	case command == rotation.Undo:
		return refuse("old keys have already been removed: finish this rotation, then start another one")
	case command == rotation.Trust && m.Stage == rotation.UndoSign:
		return rotation.UndoSign, nil
	case m.Stage == rotation.Undo || m.Stage == rotation.UndoSign:
		return refuse("run this on each node until the rotation is undone: kubeadm certs rotate-ca undo")
	case command == rotation.Trust && m.Stage == rotation.Sign:
		return rotation.Sign, nil
	case command == rotation.Trust:
		return refuse("run this on each node: kubeadm certs rotate-ca finish")
	case command == rotation.Sign && m.Stage == rotation.Trust:
		return follows(rotation.Sign, rotation.Trust)
	case command == rotation.Finish && m.Stage == rotation.Sign:
		if s, err := follows(rotation.Finish, rotation.Sign); err != nil || m.Switched != nil {
			return s, err
		}
		return refuse("run this once more on a control plane node: kubeadm certs rotate-ca sign")
	case command == rotation.Finish:
		return refuse("the new CA must sign first: run kubeadm certs rotate-ca sign on each node")
	}
	return refuse("run this on each node: kubeadm certs rotate-ca finish")
}

// listBehind returns the nodes that have not reached a stage. It lists all Nodes.
func (m machine) listBehind(ctx context.Context, s rotation.Stage) ([]string, error) {
	all, err := m.ReadProgress(ctx, m.e.Reader(), m.as)
	return rotation.ListBehind(all, s, false), err
}

// begin brings the cluster to a stage, if no running Pod would be cut off by it.
func (m machine) begin(ctx context.Context, s rotation.Stage, o rotation.Options) error {
	found, err := m.checkBegin(ctx, s)
	if err != nil {
		return err
	}
	if len(found) > 0 && !o.IgnoreRunningPods {
		return joinErrors(found)
	}
	for _, err := range found {
		m.e.Warn("%v", err)
	}
	m.e.Say("beginning stage %q", s)
	m.Stage = s
	if !s.IsLast() {
		m.Switched = nil
	}
	store, err := m.NewStoreChange(m.as)
	if err != nil {
		return err
	}
	return m.e.Do(ctx, store)
}

// joinErrors joins one or more errors in a line.
func joinErrors(all []error) error {
	joined := all[0]
	for _, err := range all[1:] {
		joined = fmt.Errorf("%w; %w", joined, err)
	}
	return joined
}

// checkBegin returns the errors of running Pods and of tokens that a stage would cut off. Before
// the stage Sign it restarts the addons.
func (m machine) checkBegin(ctx context.Context, s rotation.Stage) (found []error, err error) {
	if s.IsLast() {
		if err := m.checkKubeletIssuers(ctx, s); err != nil {
			return nil, err
		}
		return m.checkTokens(ctx, s)
	}
	if s != rotation.Sign || !m.Replaces(rotation.ClusterAuthority) {
		return nil, nil
	}
	since, err := m.awaitRootCAs(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := m.restartAddons(ctx); err != nil {
		return nil, err
	}
	pods, err := m.checkPods(ctx, since)
	if err != nil || pods == nil {
		return nil, err
	}
	return []error{pods}, nil
}

// end completes a stage on the last control plane node, and says what to do next.
func (m machine) end(ctx context.Context, s rotation.Stage, uploads bool) error {
	all, err := m.ReadProgress(ctx, m.e.Reader(), m.as)
	if err != nil {
		return err
	}
	planes, others := rotation.ListBehind(all, s, true), rotation.ListBehind(all, s, false)
	var keyless []string
	for _, n := range all {
		if n.ControlPlane && n.Stage == "" {
			keyless = append(keyless, untrusted.Line(n.Name))
		}
	}
	if uploads && len(keyless) > 0 {
		if err := m.offerKeys(ctx, keyless); err != nil {
			return err
		}
		others = slices.DeleteFunc(others,
			func(name string) bool { return slices.Contains(keyless, name) })
		planes = slices.DeleteFunc(planes,
			func(name string) bool { return slices.Contains(keyless, name) })
	}
	if len(planes)+len(keyless) == 0 && s == rotation.Trust && m.Replaces(rotation.ClusterAuthority) {
		// Pods that the user restarts now are to find both CAs.
		if _, err := m.awaitRootCAs(ctx, false); err != nil {
			return err
		}
	}
	if len(planes)+len(keyless) == 0 && (s == rotation.Sign || s == rotation.UndoSign) && m.Switched == nil {
		now := metav1.Time{Time: m.e.World.Now()}.Rfc3339Copy() // as it is stored
		m.Switched = &now
		store, err := m.NewStoreChange(m.as)
		if err != nil {
			return err
		}
		if err := m.e.Do(ctx, store); err != nil {
			return err
		}
	}
	if len(others)+len(keyless) == 0 && s.IsLast() {
		if err := m.recordCompletion(ctx); err != nil {
			return err
		}
		return m.complete(ctx, s)
	}
	m.sayNext(s, planes, others)
	return nil
}

// offerKeys uploads the keys and prints the command for the other control plane nodes.
func (m machine) offerKeys(ctx context.Context, planes []string) error {
	text := m.node.CertificateKey
	key, err := pki.ParseCertificateKey(text)
	if text == "" {
		key, err = pki.NewCertificateKey(m.e.Rand("ca-rotation/certificate-key"))
		text = key.Hex()
	}
	if err != nil {
		return fmt.Errorf("--certificate-key: %w", err)
	}
	if err := m.uploadKeys(ctx, key); err != nil {
		return err
	}
	m.e.Result("The keys stay uploaded for two hours. Run this on each of the other control plane "+
		"nodes, one at a time (%s):\n\n\tkubeadm certs rotate-ca trust --certificate-key %s\n",
		strings.Join(planes, ", "), text)
	return nil
}

// sayNext says which nodes have to follow, and what comes then.
func (m machine) sayNext(s rotation.Stage, planes, others []string) {
	workers := slices.DeleteFunc(slices.Clone(others),
		func(name string) bool { return slices.Contains(planes, name) })
	command := "kubeadm certs rotate-ca " + s.Command()
	if len(planes) > 0 {
		m.e.Print("Next, run this on each of the other control plane nodes, one at a time (" +
			strings.Join(planes, ", ") + "):\n\n\t" + command + "\n")
	}
	if len(workers) > 0 {
		m.e.Print("Then run this on each of these nodes (" + strings.Join(workers, ", ") + "):\n\n\t" +
			command + "\n")
	}
	if s.IsLast() {
		m.e.Print("At the end, run it once more on a control plane node.\n")
		return
	}
	m.e.Print(map[rotation.Stage]string{
		rotation.Trust: "When all nodes are done, copy admin.conf again to wherever it is used, restart " +
			"your Pods that connect to the API server, and run this on a control plane node:\n\n" +
			"\tkubeadm certs rotate-ca sign\n",
		rotation.Sign: "When all nodes are done, copy admin.conf again to wherever it is used, and " +
			"replace client certificates and tokens of your own. Once the Pods have new tokens, by default after an hour, run this on a control plane node:\n\n" +
			"\tkubeadm certs rotate-ca finish\n",
		rotation.UndoSign: "When all nodes are done, copy admin.conf again to wherever it is used. Once " +
			"the Pods have new tokens, by default after an hour, run this on each node once more:\n\n" +
			"\tkubeadm certs rotate-ca undo\n",
	}[s])
}
