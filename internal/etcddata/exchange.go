package etcddata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Exchange is a replacement of the data of this machine's etcd member. It is a file from before etcd
// stops until the member is healthy, so that a killed run is resumed by the same command, and so that no
// other command takes the machine for one whose etcd is merely down.
type Exchange struct {
	Command  string   `json:"command"`            // to resume it, such as "kubeadm etcd rejoin"
	Snapshot string   `json:"snapshot,omitempty"` // the file that is restored
	Token    string   `json:"token,omitempty"`    // of the new cluster
	Revision int64    `json:"revision,omitempty"` // that the restored data begin with
	Others   []string `json:"others,omitempty"`   // names of the members that were removed, or declared lost
	// Lost are the members that only the user says are lost, as etcd had no quorum to remove them: they may
	// come back.
	Lost     []state.Member `json:"lost,omitempty"`
	Stage    Stage          `json:"stage"`
	Manifest string         `json:"manifest"` // the backup of the manifest
	// Kept is where the previous data are: a directory beside those in use. It is empty if there were
	// none.
	Kept   string `json:"kept,omitempty"`
	Staged string `json:"staged,omitempty"` // where the new data are until they are those in use
}

// Stage is how far an exchange has come.
type Stage string

// The stages of an exchange, in their order. Undoing follows Starting or Serving if a component does not
// run with the new data, and any stage of a rejoin that recover undoes.
const (
	Exchanging Stage = "exchanging" // etcd is being stopped, and the data are renamed
	Starting   Stage = "starting"   // the new data are in place, and etcd has not been healthy with them
	Serving    Stage = "serving"    // etcd has been healthy with the new data: clients may have written
	Undoing    Stage = "undoing"    // the previous data are being put back
	Forcing    Stage = "forcing"    // the data stay, and etcd is being started with --force-new-cluster
	Forced     Stage = "forced"     // that has happened, and the flag is being removed
)

func recordPath(p node.Paths) string { return path.Join(p.Journal(), "exchanging-etcd-data.json") }

// Read returns the unfinished exchange of this machine, nil if there is none.
func Read(ctx context.Context, r state.Reader, p node.Paths) (*Exchange, error) {
	data, err := state.ReadOptional(ctx, r, recordPath(p))
	if err != nil || data == nil {
		return nil, err
	}
	var x Exchange
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, problem.During("reading "+recordPath(p), err,
			"the file says how far a replacement of etcd's data has come; restore it from a backup, or compare "+
				"the directories beside etcd's data by hand")
	}
	return &x, nil
}

// CheckNone returns an error if an exchange is unfinished: until it is finished, nothing else may change
// the static Pods of this machine.
func CheckNone(ctx context.Context, r state.Reader, p node.Paths) error {
	x, err := Read(ctx, r, p)
	if err != nil || x == nil {
		return err
	}
	return x.UnfinishedError()
}

// UnfinishedError is the error of a command that cannot run before the exchange is finished.
func (x *Exchange) UnfinishedError() error {
	return problem.New(fmt.Errorf("the data of this node's etcd member are being replaced, and that was interrupted"),
		"first resume it: "+x.Command)
}

// New returns an exchange that has not begun. Its names are after the time, and those of nothing that
// exists.
func New(ctx context.Context, e *engine.Env, m Member, command string) (*Exchange, error) {
	present, err := state.HasEntry(ctx, e.World, m.MemberDir())
	if err != nil {
		return nil, err
	}
	entries, err := e.World.ReadDir(ctx, m.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	stamp := e.World.Now().UTC().Format("2006-01-02-15-04-05")
	isUsed := func(f state.FileInfo) bool { return strings.Contains(path.Base(f.Path), stamp) }
	for unique, n := stamp, 2; slices.ContainsFunc(entries, isUsed); n++ {
		stamp = fmt.Sprintf("%s-%d", unique, n)
	}
	x := &Exchange{Command: command,
		Manifest: path.Join(e.Local.Paths.Tmp(), "kubeadm-backup-manifests-"+stamp, "etcd.yaml"),
		Staged:   path.Join(m.DataDir, stagedPrefix+stamp)}
	if present {
		x.Kept = path.Join(m.DataDir, keptPrefix+stamp)
	}
	return x, nil
}

// Names of directories beside the data in use, before the time.
const (
	keptPrefix   = "kubeadm-kept-"
	stagedPrefix = "kubeadm-restored-"
)

// Begin stores the manifest of the member, and that the exchange has begun. New data that killed runs have
// staged, and that are not those of x, are of no use then.
func (x *Exchange) Begin(ctx context.Context, e *engine.Env, m Member, s Stage) error {
	if err := e.Do(ctx, change.MakeDir{Path: path.Dir(x.Manifest), Mode: 0o700},
		change.WriteFile{Path: x.Manifest, Data: m.Manifest, Mode: 0o600, Secret: true}); err != nil {
		return err
	}
	if err := x.Enter(ctx, e, s); err != nil {
		return err
	}
	entries, err := e.World.ReadDir(ctx, m.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range entries {
		if strings.HasPrefix(path.Base(f.Path), stagedPrefix) && path.Clean(f.Path) != x.Staged {
			if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
				return err
			}
		}
	}
	return err
}

// Enter stores that the exchange has reached a stage.
func (x *Exchange) Enter(ctx context.Context, e *engine.Env, s Stage) error {
	x.Stage = s
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	p := e.Local.Paths
	return e.Do(ctx, change.MakeDir{Path: p.Journal(), Mode: 0o700},
		change.WriteFile{Path: recordPath(p), Data: append(data, '\n'), Mode: 0o600, Secret: true})
}

// End removes the record: the exchange is complete, or undone.
func (x *Exchange) End(ctx context.Context, e *engine.Env) error {
	return e.Do(ctx, change.Remove{Path: recordPath(e.Local.Paths)})
}

const (
	etcdGracePeriod = 30 * time.Second // that of etcd's static Pod
	stopTimeout     = 2 * time.Minute
)

// Stop takes etcd's manifest away and waits until etcd has stopped for good: a kubelet that was restarted
// does not know the Pod, and one that cannot be restarted gets the time to read its manifests again.
// Nothing writes to the data then.
func (x *Exchange) Stop(ctx context.Context, e *engine.Env) error {
	e.Say("stopping etcd; its manifest is kept in %q", x.Manifest)
	file := e.Local.Paths.Manifest(manifest.Etcd)
	if err := e.Do(ctx, change.Remove{Path: file}); err != nil {
		return err
	}
	restarted, err := restartKubelet(ctx, e, path.Dir(file)) // which the removal has changed
	if err != nil {
		return err
	}
	if err := e.Do(ctx, change.RemoveContainers{Socket: e.Local.CRISocket, Component: manifest.Etcd,
		GracePeriod: etcdGracePeriod}); err != nil {
		return err
	}
	begun := e.World.Now()
	return e.Await(ctx, world.Condition{
		Name: "etcd to stop", Timeout: stopTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			all, err := r.Containers(ctx, e.Local.CRISocket)
			if err == nil && slices.ContainsFunc(all, func(c state.Container) bool {
				return c.Component == manifest.Etcd && c.Running
			}) {
				err = errors.New("its container is still running")
			}
			if err == nil && !restarted && r.Now().Sub(begun) < localkubelet.ManifestPeriod {
				err = errors.New("the kubelet may not have noticed yet that the manifest is gone")
			}
			return err
		},
	})
}

// PutAside renames the data in use to Kept. There may be none.
func (x *Exchange) PutAside(ctx context.Context, e *engine.Env, m Member) error {
	if x.Kept == "" {
		return nil
	}
	kept, err := state.HasEntry(ctx, e.World, x.Kept)
	if err != nil || kept {
		return err
	}
	e.Say("keeping the previous data of etcd in %q", x.Kept)
	return e.Do(ctx, change.Rename{From: m.MemberDir(), To: x.Kept})
}

// UseStaged renames the new data to be those in use. Their owner is the user as which etcd runs.
func (x *Exchange) UseStaged(ctx context.Context, e *engine.Env, m Member) error {
	from := path.Join(x.Staged, "member")
	staged, err := state.HasEntry(ctx, e.World, from)
	if err != nil {
		return err
	}
	if staged {
		if err := e.Do(ctx, change.Rename{From: from, To: m.MemberDir()}); err != nil {
			return err
		}
	}
	if err := x.RemoveStaged(ctx, e); err != nil {
		return err
	}
	return m.setOwner(ctx, e, m.MemberDir())
}

// RemoveStaged removes new data that are not in use.
func (x *Exchange) RemoveStaged(ctx context.Context, e *engine.Env) error {
	return e.Do(ctx, change.Remove{Path: x.Staged})
}

// MakeDataDir creates the data directory if it is lost, for the user as which etcd runs.
func (m Member) MakeDataDir(ctx context.Context, e *engine.Env) error {
	present, err := state.HasEntry(ctx, e.World, m.DataDir)
	if err != nil || present {
		return err
	}
	if err := e.Do(ctx, change.MakeDir{Path: m.DataDir, Mode: 0o700}); err != nil {
		return err
	}
	return m.setOwner(ctx, e, m.DataDir)
}

func (m Member) setOwner(ctx context.Context, e *engine.Env, dir string) error {
	uid, gid, ok := m.owner()
	if !ok {
		return nil
	}
	return e.Do(ctx, change.SetOwner{Path: dir, UID: uid, GID: gid, Name: fmt.Sprintf("%d:%d", uid, gid),
		Recursive: true})
}

// PutBack makes the previous data those in use again. The new ones are kept under another name.
func (x *Exchange) PutBack(ctx context.Context, e *engine.Env, m Member) error {
	kept, err := x.HasKept(ctx, e)
	if err != nil || !kept {
		return err
	}
	present, err := state.HasEntry(ctx, e.World, m.MemberDir())
	if err != nil {
		return err
	}
	if present {
		if err := e.Do(ctx, change.Rename{From: m.MemberDir(), To: x.NotStarted()}); err != nil {
			return err
		}
	}
	return e.Do(ctx, change.Rename{From: x.Kept, To: m.MemberDir()})
}

// NotStarted is where PutBack keeps the new data: a directory beside those in use.
func (x *Exchange) NotStarted() string { return x.Kept + "-not-started" }

// HasKept reports whether there are previous data beside those in use.
func (x *Exchange) HasKept(ctx context.Context, e *engine.Env) (bool, error) {
	if x.Kept == "" {
		return false, nil
	}
	return state.HasEntry(ctx, e.World, x.Kept)
}

// Start writes the manifest of etcd and restarts the kubelet. kube-apiserver is stopped before, if etcd
// does not run yet: none that has seen the previous data, and holds them in its cache, may use the new
// ones.
func (x *Exchange) Start(ctx context.Context, e *engine.Env, data []byte) error {
	file := e.Local.Paths.Manifest(manifest.Etcd)
	present, err := state.ReadOptional(ctx, e.World, file)
	if err != nil {
		return err
	}
	if !bytes.Equal(present, data) {
		e.Say("starting etcd")
		if err := e.Do(ctx, change.RemoveContainers{Socket: e.Local.CRISocket,
			Component: release.APIServer, GracePeriod: change.ExitPeriod},
			change.WriteFile{Path: file, Data: data, Mode: 0o600}); err != nil {
			return err
		}
	}
	_, err = restartKubelet(ctx, e, file)
	return err
}

// restartKubelet restarts the kubelet if a file is newer than its start. It reports false if the user
// runs the kubelet by other means.
func restartKubelet(ctx context.Context, e *engine.Env, file string) (bool, error) {
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if err != nil || !kubelet.Active {
		return false, nil
	}
	return true, e.Do(ctx, change.SetService{Name: localkubelet.Service, Active: true, Reads: []string{file}})
}

// Healthy returns the wait for a component of this machine that was started by Start.
func Healthy(ctx context.Context, e *engine.Env, component string) (world.Condition, error) {
	data, err := state.ReadRequired(ctx, e.World, e.Local.Paths.Manifest(component))
	if err != nil {
		return world.Condition{}, err
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		return world.Condition{}, err
	}
	all, err := e.World.Containers(ctx, e.Local.CRISocket)
	if err != nil {
		return world.Condition{}, err
	}
	var exited []string
	for _, c := range all {
		if c.Component == component && !c.Running {
			exited = append(exited, c.ID)
		}
	}
	return health.StaticPod{Component: component, Pod: pod, Anonymous: true, IgnoreExits: exited,
		Matches: func(state.Container) bool { return true }}.
		Condition(&node.Node{Local: e.Local}, e.Local.Timeouts.Upgrade)
}
