package real_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
)

var _ world.World = (*real.World)(nil)

func TestFiles(t *testing.T) {
	worldtest.Files(t, real.New(), newTempDir(t))
}

func TestAccounts(t *testing.T) { worldtest.Accounts(t, real.New(), newTempDir(t)) }

func TestOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	worldtest.Owners(t, real.New(), newTempDir(t))
	worldtest.DirectoryOwners(t, real.New(), newTempDir(t))
}

func TestRenames(t *testing.T) { worldtest.Renames(t, real.New(), newTempDir(t)) }

func TestLinks(t *testing.T) {
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	worldtest.Links(t, real.New(), newTempDir(t),
		worldtest.LinkConfig{Make: link, SystemDir: "/proc"}) // which cannot be emptied
	if os.Getuid() == 0 {
		worldtest.LinkedDirectoryOwners(t, real.New(), newTempDir(t), link)
	}
}

func TestWaits(t *testing.T) { worldtest.Await(t, real.New()) }

func TestDisks(t *testing.T) { worldtest.Disks(t, real.New(), newTempDir(t)) }

func TestClock(t *testing.T) { worldtest.Clock(t, real.New()) }

func TestDoors(t *testing.T) { worldtest.UnknownChanges(t, real.New()) }

func TestHost(t *testing.T) { worldtest.Host(t, real.New()) }

func TestPrograms(t *testing.T) {
	bin := newTempDir(t)
	script := "#!/bin/sh\n[ \"$*\" = --version ] && echo Kubernetes v1.37.1\n"
	if err := os.WriteFile(filepath.Join(bin, "kubelet"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	worldtest.Programs(t, real.New(), "cp", "v1.37.1")
	t.Setenv("PATH", "/nonexistent")
	worldtest.NoKubelet(t, real.New())
}

func TestNetwork(t *testing.T) {
	taken := mustListen(t, "127.0.0.1:0")
	defer taken.Close()
	// Other programs use 127.0.0.1 only.
	free := mustListen(t, fmt.Sprintf("127.77.%d.%d:0", os.Getpid()>>8&255, os.Getpid()&255))
	free.Close()
	worldtest.Network(t, real.New(),
		worldtest.NetworkConfig{Name: "localhost", Taken: taken.Addr().String(),
			Free: free.Addr().String()})
}

// TestEveryChangeHasItsPart carries out each kind of change with an unusable target: the error
// must be that of its part.
func TestEveryChangeHasItsPart(t *testing.T) {
	nobody := state.Identity{Kubeconfig: filepath.Join(newTempDir(t), "absent.conf")}
	file := filepath.Join(newTempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "y"}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for kind, c := range map[string]change.Change{
		"write":     change.WriteFile{Path: filepath.Join(file, "below")},
		"directory": change.MakeDir{Path: file},
		"rmdir":     change.Remove{Path: file, OnlyEmpty: true},
		"chown":     change.SetOwner{Path: filepath.Join(file, "below")},
		"passwd":    change.SetAccounts{Dir: file},
		"cgroup":    change.RemoveControlGroup{Path: filepath.Join(file, "below")},
		"D-Bus":     change.EnableService{Name: "kubeadm-no-such-unit", Enabled: true},
		"sysctl":    change.SetSysctl{Name: "net.ipv4.no_such_setting", Value: "1"},
		"modprobe":  change.SetModule{Name: "kubeadm-no-such-module", Loaded: true},
		"swapon":    change.SetSwap{Area: file, On: true},
		"umount2":   change.Unmount{Dir: file, Flags: []string{"NONE"}},
		"link":      change.RemoveInterface{Name: "lo"},
		"rmi":       change.RemoveImage{Socket: "unix:///nonexistent/crio.sock"},
		"evict":     change.EvictPod{Namespace: "x", Name: "y", As: nobody},
		"pull":      change.PullImage{Socket: "unix:///nonexistent/crio.sock"},
		"remove":    change.RemoveContainers{Socket: "unix:///nonexistent/crio.sock"},
		"member": change.SetMember{PeerURL: "https://127.0.0.1:1", State: change.Absent,
			Via: state.Etcd{CAFile: nobody.Kubeconfig}},
		"apply":  change.ApplyObject{Object: config, As: nobody},
		"mutate": change.MutateObject{Object: config, As: nobody},
		"delete": change.DeleteObject{Ref: state.RefOf(config, nobody)},
		"label":  change.LabelAndTaintNode{Name: "x", As: nobody},
	} {
		err := real.New().Do(ctx, c)
		if err == nil || strings.Contains(err.Error(), "carry out") {
			t.Errorf("%s: got %v, want the error of its part", kind, err)
		}
	}
}

func mustListen(t *testing.T, at string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newTempDir returns the path of an empty directory without symbolic links.
func newTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
