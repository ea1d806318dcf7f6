// Package memory is a machine and a cluster that exist only in memory: the overlay of a dry run,
// and the base of the simulated machine of tests.
package memory

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
)

// World holds the state of a machine and a cluster. The maps may be read and filled while no
// change is carried out.
type World struct {
	mu           sync.Mutex
	lastMemberID uint64        // highest ID of an etcd member so far
	revision     int64         // how often an object was stored
	stored       map[Key]int64 // the revision of each object

	Files              map[string]File
	Services           map[string]state.Service
	ServiceLogs        map[string]string // by unit
	SyncTime           time.Duration     // how long a write to a disk takes
	MountList          []string
	ImageList          map[string]bool // references of images in the container runtime
	Pods               []state.Sandbox
	PodNetworks        map[string]string // files of network namespaces by sandbox ID
	MemberList         []state.Member
	UnreachableMembers []uint64 // IDs of members that do not answer
	PeersOnly          []uint64 // of these, those that answer at their peer URL
	// OwnLists are the lists of members that know other members than the cluster does, by ID.
	OwnLists       map[uint64][]state.Member
	MemberProblems []string // that each member reports: alarms, no leader
	// MemberStatuses are statuses of members, by ID. Others have a healthy one.
	MemberStatuses map[uint64]state.MemberStatus
	NoHistory      bool // a compaction of etcd frees nothing
	// SnapshotInfos say what snapshots contain, by the path of the file. Others are of this cluster.
	SnapshotInfos     map[string]etcdsnapshot.Info
	Objects           map[Key]*unstructured.Unstructured
	LinkList          []state.Link
	Rules             map[string]string // packet filter rules by program
	VirtualServerList []state.VirtualServer
	Clock             func() time.Time
}

// NewTickingClock returns a clock that advances by a millisecond at each call.
func NewTickingClock(from time.Time) func() time.Time {
	var calls atomic.Int64
	return func() time.Time { return from.Add(time.Duration(calls.Add(1)) * time.Millisecond) }
}

// New returns an empty world, at a time at which the certificates of tests are valid.
func New() *World {
	return &World{
		Clock:     NewTickingClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)),
		Files:     map[string]File{},
		Services:  map[string]state.Service{},
		ImageList: map[string]bool{},
		Objects:   map[Key]*unstructured.Unstructured{},
		stored:    map[Key]int64{},
		Rules:     map[string]string{},
	}
}

// Clone copies the world, with a clock that ticks from now.
func (w *World) Clone() *World {
	now := w.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &World{
		lastMemberID: w.lastMemberID, revision: w.revision, stored: maps.Clone(w.stored), SyncTime: w.SyncTime, NoHistory: w.NoHistory,
		Clock: NewTickingClock(now),
		Files: maps.Clone(w.Files), Services: maps.Clone(w.Services),
		ServiceLogs: maps.Clone(w.ServiceLogs), ImageList: maps.Clone(w.ImageList),
		PodNetworks: maps.Clone(w.PodNetworks), Rules: maps.Clone(w.Rules),
		MemberStatuses: maps.Clone(w.MemberStatuses), SnapshotInfos: maps.Clone(w.SnapshotInfos),
		MountList: slices.Clone(w.MountList), Pods: slices.Clone(w.Pods),
		MemberList:         slices.Clone(w.MemberList),
		UnreachableMembers: slices.Clone(w.UnreachableMembers),
		PeersOnly:          slices.Clone(w.PeersOnly),
		OwnLists:           maps.Clone(w.OwnLists),
		MemberProblems:     slices.Clone(w.MemberProblems),
		LinkList:           slices.Clone(w.LinkList),
		VirtualServerList:  slices.Clone(w.VirtualServerList),
		Objects:            make(map[Key]*unstructured.Unstructured, len(w.Objects)),
	}
	for k, o := range w.Objects {
		c.Objects[k] = o.DeepCopy()
	}
	return c
}

// Now returns the time of Clock.
func (w *World) Now() time.Time { return w.Clock() }

// Service returns the state of a unit.
func (w *World) Service(_ context.Context, name string) (state.Service, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Services[name], nil
}

// ServiceLog is the end of the unit's log in ServiceLogs, whose lines have no times.
func (w *World) ServiceLog(_ context.Context, name string, _ time.Time, limit int) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.ServiceLogs[name]
	return log[max(0, len(log)-limit):], nil
}

// SyncTimes are SyncTime, if the directory exists.
func (w *World) SyncTimes(ctx context.Context, dir string) ([]time.Duration, error) {
	if _, err := w.Stat(ctx, dir); err != nil {
		return nil, err
	}
	return []time.Duration{w.SyncTime, w.SyncTime, w.SyncTime}, nil
}

// Mounts lists mount points at and below dir.
func (w *World) Mounts(_ context.Context, dir string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.MountList),
		func(m string) bool { return m != dir && !isBelow(m, dir) }), nil
}

// Image reports whether an image is present in the container runtime.
func (w *World) Image(_ context.Context, _, ref string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ImageList[ref], nil
}

// ImageRefs lists the images in the container runtime.
func (w *World) ImageRefs(context.Context, string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var refs []string
	for _, ref := range slices.Sorted(maps.Keys(w.ImageList)) {
		if w.ImageList[ref] {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// Sandboxes lists the Pod sandboxes.
func (w *World) Sandboxes(context.Context, string) ([]state.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.Pods), nil
}

// SandboxNetworks returns the network namespaces of the Pod sandboxes that are left.
func (w *World) SandboxNetworks(context.Context, string) (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := map[string]string{}
	for _, s := range w.Pods {
		if file, ok := w.PodNetworks[s.ID]; ok {
			left[s.ID] = file
		}
	}
	return left, nil
}

// removePods removes Pods with their network namespaces and the interfaces in them.
func (w *World) removePods(c change.RemoveContainers) {
	w.Pods = slices.DeleteFunc(w.Pods, func(s state.Sandbox) bool {
		if file, ok := w.PodNetworks[s.ID]; ok && c.Matches(s) {
			delete(w.Files, file)
			w.MountList = slices.DeleteFunc(w.MountList, func(m string) bool { return m == file })
			w.LinkList = slices.DeleteFunc(w.LinkList, func(l state.Link) bool {
				return l.Namespace == path.Base(file)
			})
		}
		return c.Matches(s)
	})
}

// Do carries out one change.
func (w *World) Do(ctx context.Context, c change.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c := c.(type) {
	case change.WriteFile, change.WriteKeyPair, change.MakeDir, change.MakeLink, change.Remove,
		change.Rename, change.SetOwner:
		return w.changeFile(c)
	case change.SetAccounts:
		return w.setAccounts(c)
	case change.SetService:
		w.setService(c)
	case change.EnableService, change.SetSysctl, change.SetModule, change.SetSwap:
		w.changeSystem(c)
	case change.Unmount:
		return w.unmount(c)
	case change.PullImage:
		w.ImageList[c.Ref] = true
	case change.RemoveImage:
		delete(w.ImageList, c.Ref)
	case change.RemoveControlGroup:
		maps.DeleteFunc(w.Files,
			func(name string, _ File) bool { return name == c.Path || isBelow(name, c.Path) })
	case change.RemoveInterface:
		return w.removeLink(c)
	case change.RemovePacketRules:
		if rules, ok := w.Rules[c.Program]; ok {
			w.Rules[c.Program] = c.Without(rules)
		}
	case change.RemoveVirtualServers:
		w.VirtualServerList = slices.DeleteFunc(w.VirtualServerList, c.Matches)
	case change.EvictPod:
		delete(w.Objects, keyOf(c.Ref()))
	case change.RemoveContainers:
		if !c.KeepPod {
			w.removePods(c)
		}
	case change.SetMember, change.SaveSnapshot, change.SaveArchive, change.RestoreSnapshot, change.Defragment,
		change.CompactHistory, change.DisarmAlarm:
		return w.changeEtcd(ctx, c)
	case change.ApplyObject:
		return w.createOrUpdate(state.RefOf(c.Object, c.As), c.Object, c.MergeInto)
	case change.MutateObject:
		ref := state.RefOf(c.Object, c.As)
		if _, ok := w.Objects[keyOf(ref)]; !ok && !c.Creates() {
			return apierrors.NewNotFound(schema.GroupResource{Group: ref.GVK.Group,
				Resource: ref.GVK.Kind}, ref.Name)
		}
		return w.createOrUpdate(state.RefOf(c.Object, c.As), c.Object,
			func(existing *unstructured.Unstructured) (*unstructured.Unstructured, error) {
				after := existing.DeepCopy()
				return after, c.Mutate(after)
			})
	case change.DeleteObject:
		if u, ok := w.Objects[keyOf(c.Ref)]; ok && c.Matches(u) {
			delete(w.Objects, keyOf(c.Ref))
		}
	case change.LabelAndTaintNode:
		if _, ok := w.Objects[keyOf(c.Ref())]; !ok {
			return apierrors.NewNotFound(corev1.Resource("nodes"), c.Name)
		}
		return w.createOrUpdate(c.Ref(), nil, c.Apply)
	default:
		return fmt.Errorf("the world in memory cannot carry out a %T", c)
	}
	return nil
}

func (w *World) changeFile(c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile:
		return w.writeFile(c)
	case change.WriteKeyPair:
		if err := c.Cert.CheckSecret(); err != nil {
			return err
		}
		if err := w.writeFile(c.Key); err != nil {
			return err
		}
		return w.writeFile(c.Cert)
	case change.MakeDir:
		return w.makeDirs(w.resolve(c.Path, true), c.Mode)
	case change.MakeLink:
		return w.makeLink(c)
	case change.Remove:
		return w.remove(c)
	case change.Rename:
		return w.rename(c)
	case change.SetOwner:
		return w.setOwner(c)
	}
	return nil
}

func (w *World) setService(c change.SetService) {
	s, ok := w.Services[c.Name]
	if !ok && !c.Active {
		return
	}
	s.Exists, s.Active, s.Since = true, c.Active, time.Time{}
	if c.Active {
		s.Since = w.Now()
	}
	w.Services[c.Name] = s
}

func (w *World) unmount(c change.Unmount) error {
	for _, f := range c.Flags {
		if !slices.Contains([]string{"MNT_FORCE", "MNT_DETACH", "MNT_EXPIRE", "UMOUNT_NOFOLLOW"},
			f) {
			return fmt.Errorf("%q is not a flag of umount2(2)", f)
		}
	}
	w.MountList = slices.DeleteFunc(w.MountList, c.Matches)
	return nil
}

func isBelow(p, dir string) bool {
	return p != dir && strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
