package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// How long a reset looks for the other members where nobody answers: longer where this machine's
// member is known to have joined some.
const (
	findTimeout       = 5 * time.Second
	findTimeoutJoined = 30 * time.Second
)

// A removal is tried by way of the members that there are at the time. Each attempt outlasts the
// ten seconds for which etcd may refuse one for the sake of its quorum.
const (
	attemptTimeout = 20 * time.Second
	maxAttempts    = 10
)

// quorumLossTimeout is how long so many voters must be out of reach that etcd has no quorum before it is
// taken to be lost: a static Pod that ends is back within this.
const quorumLossTimeout = 40 * time.Second

// removeMember removes this machine's member from its etcd cluster, unless it is the last that votes. The
// others are asked to do it, as a member that removes itself cannot see whether that went well.
// While etcd elects a leader, or another control plane leaves too, it is tried again, for
// Timeouts.EtcdAPI in all. A quorum that is lost is not waited for that long; see settled.
func removeMember(ctx context.Context, e *flow.Env, o localMember) error {
	begun, limit := e.World.Now(), cmp.Or(e.Local.Timeouts.EtcdAPI, 2*time.Minute)
	var out outage
	for attempt := 1; ; attempt++ {
		roll, err := o.findMembers(ctx, e)
		if err != nil {
			return problem.New("looking for the other members", err,
				"if there are others, they count it as one that is down: remove it there with `etcdctl member remove`")
		}
		others := slices.DeleteFunc(slices.Clone(roll.Members), o.matches)
		self := slices.IndexFunc(roll.Members, o.matches)
		switch {
		case !hasVoter(others):
			e.Say("no other etcd member has a vote: this one's data go, and the cluster with them")
			return nil
		case self < 0:
			e.Say("etcd does not count this machine's member among its own any more")
			return nil
		}
		out.record(roll, e.World.Now())
		m := roll.Members[self]
		byHand := fmt.Sprintf("remove it on another control plane: etcdctl member remove %x", m.ID)
		if attempt == 1 {
			if err := checkMemberAddress(ctx, e, m); err != nil {
				return problem.New("", err, "if this machine had that address, "+byHand)
			}
			reportQuorum(e, roll, m)
			removeJournal(ctx, e)
			e.Say("removing this machine's member from etcd, by way of %s", memberNames(others))
		}
		err = attemptRemoval(ctx, e, change.SetMember{PeerURL: m.PeerURLs[0], State: change.Absent, Via: o.viaOthers(roll, others)})
		if err == nil {
			return nil
		}
		left := limit - e.World.Now().Sub(begun)
		if ctx.Err() != nil || errors.Is(err, change.ErrQuorum) || world.Hopeless(err) || attempt == maxAttempts || left <= 0 {
			return problem.New("", err, byHand)
		}
		e.Say("etcd has not removed the member yet, trying again: %v", err)
		if lost := e.Await(ctx, o.newRetryCondition(e, left, &out)); lost != nil {
			return problem.New("", fmt.Errorf("%w; %w", err, lost), byHand)
		}
	}
}

func hasVoter(members []state.Member) bool {
	return slices.ContainsFunc(members, func(m state.Member) bool { return !m.Learner })
}

func attemptRemoval(ctx context.Context, e *flow.Env, c change.SetMember) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, fmt.Errorf("no success within %s", attemptTimeout))
	defer cancel()
	return e.Do(ctx, c)
}

// outage is the time during which too few voters for a quorum answer.
type outage struct {
	since time.Time // zero while enough of them answer
}

// record takes the roll into account and returns how long the outage has lasted.
func (u *outage) record(roll etcdcluster.Health, now time.Time) time.Duration {
	switch {
	case roll.QuorumAnswers():
		u.since = time.Time{}
		return 0
	case u.since.IsZero():
		u.since = now
	}
	return now.Sub(u.since)
}

// newRetryCondition holds once another attempt to remove the member is worth it: etcd has a quorum, or no
// other member with a vote is left. It gives up once the outage has lasted for quorumLossTimeout: members
// that elect a leader answer, those of a lost quorum do not.
func (o localMember) newRetryCondition(e *flow.Env, limit time.Duration, out *outage) world.Condition {
	return world.Condition{
		Name:    "a quorum of etcd's members",
		Timeout: limit,
		Check: func(ctx context.Context, _ state.Reader) error {
			roll, err := o.checkMembers(ctx, e)
			if err != nil || !hasVoter(slices.DeleteFunc(slices.Clone(roll.Members), o.matches)) {
				return err
			}
			lasted := out.record(roll, e.World.Now())
			if err = roll.Quorum(); err != nil && lasted >= quorumLossTimeout {
				return world.GiveUp(fmt.Errorf("etcd has had no quorum for %s: %w", lasted.Round(time.Second), err))
			}
			return err
		},
	}
}

// findMembers is checkMembers, repeated for a while if nobody answers.
func (o localMember) findMembers(ctx context.Context, e *flow.Env) (etcdcluster.Health, error) {
	roll, err := o.checkMembers(ctx, e)
	if err == nil {
		return roll, nil
	}
	limit := findTimeout
	if len(o.initialClientURLs()) > 0 {
		limit = findTimeoutJoined
	}
	err = e.Await(ctx, world.Condition{
		Name:    "etcd to tell who its members are",
		Timeout: limit,
		Check: func(ctx context.Context, _ state.Reader) (err error) {
			roll, err = o.checkMembers(ctx, e)
			return err
		},
	})
	return roll, err
}

// checkMemberAddress is an error if the member serves at an address that this machine does not have. Then
// the machine is a copy, and the member is the original's.
func checkMemberAddress(ctx context.Context, e *flow.Env, m state.Member) error {
	here, err := e.World.Addresses(ctx)
	if err != nil {
		return fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	var unknown []error
	for _, peer := range m.PeerURLs {
		u, err := url.Parse(peer)
		if err != nil {
			continue
		}
		addresses := []string{u.Hostname()}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			if addresses, err = e.World.Lookup(ctx, u.Hostname()); err != nil {
				unknown = append(unknown, err)
			}
		}
		for _, text := range addresses {
			ip, err := netip.ParseAddr(text)
			if err == nil && (ip.IsLoopback() || slices.ContainsFunc(here, func(a state.Address) bool { return isAddress(a.IP, ip) })) {
				return nil
			}
		}
	}
	return errors.Join(append(unknown, fmt.Errorf("etcd member %s serves at %q, and this machine has no such address: it may be a copy of the member's machine",
		etcdcluster.MemberName(m), m.PeerURLs))...)
}

func isAddress(text string, ip netip.Addr) bool {
	other, err := netip.ParseAddr(text)
	return err == nil && other.Unmap() == ip.Unmap()
}

// Foresee says before anything is done what it will mean for the others that this machine leaves etcd, as far as it sees them.
func Foresee(ctx context.Context, e *flow.Env) {
	pod, err := readStaticPod(ctx, e, manifest.Etcd)
	if err != nil {
		return
	}
	o := newLocalMember(e, pod)
	roll, err := o.checkMembers(ctx, e)
	if err != nil {
		return // nothing is known of others; the phase says so
	}
	self := slices.IndexFunc(roll.Members, o.matches)
	if self >= 0 && len(roll.Members) > 1 && checkMemberAddress(ctx, e, roll.Members[self]) == nil {
		reportQuorum(e, roll, roll.Members[self])
	}
}

// reportQuorum tells how the others go on without the member, and warns where they cannot. That is for the user to decide.
func reportQuorum(e *flow.Env, roll etcdcluster.Health, m state.Member) {
	if m.Learner {
		return
	}
	err := roll.Quorum(m.ID)
	if err == nil {
		e.Say("etcd goes on without this machine's member: the others have a quorum")
		return
	}
	e.Warn("without this member etcd decides nothing, and the API server takes no changes, until others are back: %v", err)
	e.Warn("should they be gone for good, one that is left can begin anew with its data: etcd --force-new-cluster")
}

// localMember is this machine's etcd member, as far as its own files describe it.
type localMember struct {
	peers   []string   // URLs under which the others know it
	clients []string   // URLs at which it serves clients
	initial []string   // peer URLs of the members that there were when its manifest was written
	via     state.Etcd // with the credentials alone
}

func newLocalMember(e *flow.Env, pod *corev1.Pod) localMember {
	paths := e.Local.Paths
	if file, ok := strings.CutSuffix(argumentValue(pod, "trusted-ca-file"), "/etcd/ca.crt"); ok {
		paths.Certificates = file // whatever the user says of certificates that are to be removed
	}
	o := localMember{
		peers:   splitCommas(argumentValue(pod, "initial-advertise-peer-urls")),
		clients: splitCommas(argumentValue(pod, "advertise-client-urls")),
		via:     etcdcluster.LocalClient(paths),
	}
	for _, member := range splitCommas(argumentValue(pod, "initial-cluster")) {
		if _, url, ok := strings.Cut(member, "="); ok {
			o.initial = append(o.initial, url)
		}
	}
	return o
}

// matches tells whether m is the member.
func (o localMember) matches(m state.Member) bool {
	return slices.ContainsFunc(m.PeerURLs, func(url string) bool { return slices.Contains(o.peers, url) })
}

// apiTimeout is how long the API server may take, which is asked last and may be the one that is broken.
const apiTimeout = 5 * time.Second

// checkMembers asks who the members are and how they do: first the member itself, then those it was made to join,
// and then those that the API server knows. A list that one of them knows by itself is good enough.
func (o localMember) checkMembers(ctx context.Context, e *flow.Env) (etcdcluster.Health, error) {
	via := o.via
	via.Stale = true
	via.Endpoints = slices.Concat(o.clients, o.initialClientURLs())
	roll, failed := etcdcluster.CheckHealth(ctx, e.World, via)
	if failed == nil {
		return roll, nil
	}
	as, err := e.Admin(ctx)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		via.Endpoints, err = etcdcluster.FindEndpoints(limited, e.World, as)
	}
	if err == nil {
		roll, err = etcdcluster.CheckHealth(ctx, e.World, via)
	}
	if err != nil {
		err = fmt.Errorf("%w; %w", failed, err)
	}
	return roll, err
}

// initialClientURLs are the client URLs of the initial members, which serve clients as the member does: at the same port.
func (o localMember) initialClientURLs() []string {
	if len(o.clients) == 0 {
		return nil
	}
	port := o.clients[0][strings.LastIndex(o.clients[0], ":"):]
	var urls []string
	for _, url := range o.initial {
		if at := strings.LastIndex(url, ":"); at > len("https:") && !slices.Contains(o.peers, url) {
			urls = append(urls, url[:at]+port)
		}
	}
	return urls
}

// viaOthers is by way of the others, first of those that are healthy.
func (o localMember) viaOthers(roll etcdcluster.Health, others []state.Member) state.Etcd {
	var healthy, rest []string
	for _, m := range others {
		if roll.Silent[m.ID] == nil {
			healthy = append(healthy, m.ClientURLs...)
		} else {
			rest = append(rest, m.ClientURLs...)
		}
	}
	via := o.via
	via.Endpoints = append(healthy, rest...)
	return via
}

func memberNames(members []state.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, etcdcluster.MemberName(m))
	}
	return strings.Join(all, ", ")
}

// argumentValue returns the value of --name=value in the command of the Pod's component. A sidecar may have a flag of that
// name too, so other containers count only where none is named after the component.
func argumentValue(pod *corev1.Pod, name string) string {
	containers := pod.Spec.Containers
	if c, err := manifest.ComponentContainer(pod, pod.Name); err == nil {
		containers = []corev1.Container{*c}
	}
	for _, c := range containers {
		for _, a := range slices.Concat(c.Command, c.Args) {
			if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return value
			}
		}
	}
	return ""
}

// splitCommas is what stands between commas.
func splitCommas(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
