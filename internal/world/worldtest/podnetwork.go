package worldtest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// PodNetworkConfig is the input of the suite: interfaces of which only the first is to be removed,
// and a program whose rules have a chain KUBE-FORWARD and a chain CONTRACT of others. A world with
// Missing does not have that program.
type PodNetworkConfig struct {
	Links    []string
	Programs []string
	Missing  string
}

// PodNetwork checks reading and removing what kube-proxy and CNI plugins set up.
func PodNetwork(t *testing.T, w world.World, given PodNetworkConfig) {
	t.Run("links", func(t *testing.T) {
		for _, name := range given.Links {
			wantDone(t, w, change.RemoveInterface{Name: name}, false)
		}
		remove := change.RemoveInterface{Name: given.Links[0]}
		mustDo(t, w, remove)
		mustDo(t, w, remove)
		for _, name := range given.Links[1:] {
			wantDone(t, w, change.RemoveInterface{Name: name}, false)
		}
		if _, err := remove.Inverse(newContext(t), w); err == nil {
			t.Error("the removal of an interface has an inverse")
		}
	})
	for _, program := range given.Programs {
		t.Run(program, func(t *testing.T) {
			remove := change.RemovePacketRules{Program: program}
			before := readRules(t, w, program)
			wantDone(t, w, remove, false)
			mustDo(t, w, remove)
			after := readRules(t, w, program)
			if want := remove.Without(before); withoutComments(after) != withoutComments(want) {
				t.Errorf("left:\n%s\nwant:\n%s", after, want)
			}
			if strings.Contains(after, "-A KUBE-FORWARD") || !strings.Contains(after, "CONTRACT") {
				t.Errorf("left:\n%s", after)
			}
			mustDo(t, w, remove)
			if again := readRules(t, w, program); withoutComments(again) != withoutComments(after) {
				t.Errorf("the second removal left:\n%s", again)
			}
		})
	}
	t.Run("missing program", func(t *testing.T) {
		_, err := w.PacketRules(newContext(t), given.Missing)
		wantNotExist(t, err)
		mustDo(t, w, change.RemovePacketRules{Program: given.Missing})
	})
	t.Run("virtual servers", func(t *testing.T) {
		all, err := w.VirtualServers(newContext(t))
		if err != nil {
			t.Fatal(err)
		}
		remove := change.RemoveVirtualServers{IPs: []string{"10.96.0.1"}}
		mustDo(t, w, remove)
		left, err := w.VirtualServers(newContext(t))
		want := slices.DeleteFunc(slices.Clone(all), remove.Matches)
		if err != nil || !slices.Equal(left, want) {
			t.Errorf("left: %v and %v, want %v", left, err, want)
		}
	})
}

func readRules(t *testing.T, w world.World, program string) string {
	t.Helper()
	rules, err := w.PacketRules(newContext(t), program)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// withoutComments removes comments, which have the time, and counters of chains.
func withoutComments(rules string) string {
	var lines []string
	for line := range strings.Lines(rules) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " [")
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// NamespaceMount checks unmounting a file, and nothing but that file.
func NamespaceMount(t *testing.T, w world.World, file string) {
	unmount := change.Unmount{Dir: file, Itself: true}
	before := listMounts(t, w, "/")
	wantDone(t, w, unmount, false)
	mustDo(t, w, unmount)
	want := slices.DeleteFunc(slices.Clone(before), func(m string) bool { return m == file })
	if got := listMounts(t, w, "/"); !slices.Equal(got, want) {
		t.Errorf("mounted before: %q, after: %q", before, got)
	}
}

// RemovedImages checks removing an image that is present.
func RemovedImages(t *testing.T, w world.World, given RuntimeConfig) {
	all, err := w.ImageRefs(newContext(t), given.Socket)
	if err != nil || !slices.Contains(all, given.Present) {
		t.Fatalf("got %q and %v, want %s among them", all, err, given.Present)
	}
	remove := change.RemoveImage{Socket: given.Socket, Ref: given.Present}
	wantDone(t, w, remove, false)
	mustDo(t, w, remove)
	mustDo(t, w, remove)
	if left, err := w.ImageRefs(newContext(t), given.Socket); err != nil ||
		slices.Contains(left, given.Present) || len(left) >= len(all) {
		t.Errorf("left: %q, %v", left, err)
	}
}

// Evictions checks evicting Pods: one that runs, one that is gone and one that was re-created.
func Evictions(t *testing.T, w world.World, as state.Identity, running state.Object) {
	evict := change.EvictPod{Namespace: running.GetNamespace(), Name: running.GetName(),
		UID: "other", As: as}
	wantDone(t, w, evict, true)
	evict.UID = string(running.GetUID())
	wantDone(t, w, evict, false)
	mustDo(t, w, evict)
	mustDo(t, w, evict)
}

// ControlGroups checks removing a control group and those below it, and nothing beside it. The parent
// directory has the groups "removed", with "removed/below/deep", and "kept".
func ControlGroups(t *testing.T, w world.World, parent string) {
	remove := change.RemoveControlGroup{Path: path.Join(parent, "removed")}
	wantDone(t, w, remove, false)
	mustDo(t, w, remove)
	mustDo(t, w, remove)
	wantDone(t, w, change.RemoveControlGroup{Path: path.Join(parent, "kept")}, false)
	if _, err := w.Stat(newContext(t), path.Join(parent, "removed/below")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("the group below it: %v", err)
	}
}
