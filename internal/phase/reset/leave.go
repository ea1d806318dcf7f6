package reset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/survey"
)

// leave takes this machine's member out of its etcd cluster, unless it is the last that votes. The others are
// asked to do it, as a member that removes itself cannot see whether that went well.
func leave(ctx context.Context, e *flow.Env, o own) error {
	roll, err := o.callRoll(ctx, e)
	if err != nil {
		return problem.New("looking for the other members", err,
			"if there are others, they count it as one that is down: remove it there with `etcdctl member remove`")
	}
	others := slices.DeleteFunc(slices.Clone(roll.Members), o.is)
	if !slices.ContainsFunc(others, func(m change.Member) bool { return !m.Learner }) {
		e.Say("no other etcd member has a vote: this one's data go, and the cluster with them")
		return nil
	}
	self := slices.IndexFunc(roll.Members, o.is)
	if self < 0 {
		e.Say("etcd does not count this machine's member among its own any more")
		return nil
	}
	m := roll.Members[self]
	weigh(e, roll, m)
	disown(ctx, e)
	e.Say("removing this machine's member from etcd, by way of %s", names(others))
	if err := e.Do(ctx, change.SetMember{PeerURL: m.PeerURLs[0], State: change.Absent, Via: o.through(roll, others)}); err != nil {
		return problem.New("", err, fmt.Sprintf("remove it on another control plane: etcdctl member remove %x", m.ID))
	}
	return nil
}

// Foresee tells before anything is done what it will mean for the others that this machine leaves etcd, as far as it sees them.
func Foresee(ctx context.Context, e *flow.Env) {
	pod, err := staticPod(ctx, e, manifest.Etcd)
	if err != nil {
		return
	}
	o := memberOf(e, pod)
	roll, err := o.callRoll(ctx, e)
	if err != nil {
		return // nothing is known of others; the phase says so
	}
	if self := slices.IndexFunc(roll.Members, o.is); self >= 0 && len(roll.Members) > 1 {
		weigh(e, roll, roll.Members[self])
	}
}

// weigh tells how the others go on without the member, and warns where they cannot. That is for the user to decide.
func weigh(e *flow.Env, roll survey.Roll, m change.Member) {
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

// own is this machine's etcd member, as far as its own files describe it.
type own struct {
	peers   []string    // URLs under which the others know it
	clients []string    // URLs at which it serves clients
	initial []string    // peer URLs of the members that there were when its manifest was written
	via     change.Etcd // with the credentials alone
}

func memberOf(e *flow.Env, pod *corev1.Pod) own {
	paths := e.Local.Paths
	if file, ok := strings.CutSuffix(argument(pod, "trusted-ca-file"), "/etcd/ca.crt"); ok {
		paths.Certificates = file // whatever the user says of certificates that are to be removed
	}
	o := own{
		peers:   list(argument(pod, "initial-advertise-peer-urls")),
		clients: list(argument(pod, "advertise-client-urls")),
		via:     survey.LocalEtcd(paths),
	}
	for _, member := range list(argument(pod, "initial-cluster")) {
		if _, url, ok := strings.Cut(member, "="); ok {
			o.initial = append(o.initial, url)
		}
	}
	return o
}

// is tells whether m is the member.
func (o own) is(m change.Member) bool {
	return slices.ContainsFunc(m.PeerURLs, func(url string) bool { return slices.Contains(o.peers, url) })
}

// apiLimit is how long the API server may take, which is asked last and may be the one that is broken.
const apiLimit = 5 * time.Second

// callRoll asks who the members are and how they do: first the member itself, then those it was made to join,
// and then those that the API server knows. A list that one of them knows by itself is good enough.
func (o own) callRoll(ctx context.Context, e *flow.Env) (survey.Roll, error) {
	via := o.via
	via.Stale = true
	via.Endpoints = slices.Concat(o.clients, o.joined())
	roll, failed := survey.CallRoll(ctx, e.World, via)
	if failed == nil {
		return roll, nil
	}
	as, err := e.Admin(ctx)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, apiLimit)
		defer cancel()
		via.Endpoints, err = survey.EtcdEndpoints(limited, e.World, as)
	}
	if err == nil {
		roll, err = survey.CallRoll(ctx, e.World, via)
	}
	if err != nil {
		err = fmt.Errorf("%w; %w", failed, err)
	}
	return roll, err
}

// joined are the client URLs of the initial members, which serve clients as the member does: at the same port.
func (o own) joined() []string {
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

// through is by way of the others: those that are well, or of all if none is.
func (o own) through(roll survey.Roll, others []change.Member) change.Etcd {
	var all, well []string
	for _, m := range others {
		all = append(all, m.ClientURLs...)
		if roll.Silent[m.ID] == nil {
			well = append(well, m.ClientURLs...)
		}
	}
	via := o.via
	if via.Endpoints = well; len(well) == 0 {
		via.Endpoints = all
	}
	return via
}

func names(members []change.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, survey.NameOf(m))
	}
	return strings.Join(all, ", ")
}

// argument is the value of --name=value in the Pod's command.
func argument(pod *corev1.Pod, name string) string {
	for _, c := range pod.Spec.Containers {
		for _, a := range slices.Concat(c.Command, c.Args) {
			if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return value
			}
		}
	}
	return ""
}

// list is what stands between commas.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
