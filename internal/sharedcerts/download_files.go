package sharedcerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// FilesDownload says how a control plane node gets the files that another one has uploaded.
type FilesDownload struct {
	Read   func(ctx context.Context, e *engine.Env, ref state.Ref) (*unstructured.Unstructured, error)
	As     state.Identity
	Remedy string // for a file that is missing here and there
	// Replaces is set if files that differ from the uploaded ones are replaced. A copy is kept beside each.
	Replaces bool
}

// DownloadFiles writes the uploaded files that this machine lacks, decrypted with the node's certificate key.
// Only files that an argument of this cluster names are written. If the Secret is not there or cannot be
// decrypted, nothing is. It is an error, before anything is written, if a file is still missing.
func DownloadFiles(ctx context.Context, e *engine.Env, n *node.Node, d FilesDownload) error {
	wanted, err := preflight.UploadedFiles(n)
	if err != nil || len(wanted) == 0 {
		return err
	}
	if err := e.Do(ctx, manifest.AccountChanges(n)...); err != nil {
		return err
	}
	steps, _, err := d.planAll(ctx, e, n)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if len(s.changes) > 0 {
			s.tell("%s", s.text)
		}
		if err := e.Do(ctx, s.changes...); err != nil {
			return err
		}
	}
	return nil
}

// CheckDownload is the error that DownloadFiles would return, on a machine that is a node already. It returns the
// paths of the uploaded files.
func CheckDownload(ctx context.Context, e *engine.Env, n *node.Node, d FilesDownload) (map[string]bool, error) {
	_, uploaded, err := d.planAll(ctx, e, n)
	return uploaded, err
}

// planAll plans what is done with each file, and returns the paths of the uploaded ones. It is an error if one is
// missing then.
func (d FilesDownload) planAll(ctx context.Context, e *engine.Env, n *node.Node) ([]fileStep, map[string]bool, error) {
	wanted, err := preflight.UploadedFiles(n)
	if err != nil || len(wanted) == 0 {
		return nil, nil, err
	}
	uploaded, err := d.readUploaded(ctx, e, n, wanted)
	if err != nil {
		return nil, nil, err
	}
	var accounts change.Accounts
	if len(uploaded) > 0 && manifest.IsRootless(n) {
		system := manifest.SystemAccounts() // which are created before the files
		if accounts, err = change.ReadAccounts(ctx, e.World, system.Dir); err == nil {
			accounts, err = system.Edit(accounts)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	var steps []fileStep
	var errs []error
	written := map[string]bool{}
	for _, f := range uploaded {
		at, err := f.placement(n, accounts)
		if err == nil {
			var s fileStep
			s, err = d.plan(ctx, e, f, at)
			steps = append(steps, s)
		}
		errs, written[f.Path] = append(errs, err), true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	found := preflight.Run(ctx, e.Reader(), preflight.DownloadedFiles(wanted, written, d.Remedy), e.Local.IgnoredChecks)
	for _, w := range found.Warnings() {
		e.WarnCheck(w.Check, w.Message())
	}
	return steps, written, found.Err()
}

// fileStep is what is done with one file, and what is told of it; without changes nothing.
type fileStep struct {
	changes []change.Change
	tell    func(format string, args ...any)
	text    string
}

// readUploaded returns the uploaded files that are wanted, in that order. What cannot be used is a warning.
func (d FilesDownload) readUploaded(ctx context.Context, e *engine.Env, n *node.Node,
	wanted []preflight.ArgumentFile) ([]argumentFile, error) {
	key, err := pki.ParseCertificateKey(n.CertificateKey)
	if err != nil {
		return nil, err
	}
	u, err := d.Read(ctx, e, state.RefOf(manifest.NewFilesSecret(nil, &corev1.Secret{}), d.As))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // as in clusters of upstream's kubeadm
		if d.Replaces { // the user asks for the files
			e.WarnOnce("there is no Secret %s in namespace %q: an upload expires after two hours; to upload the files again "+
				"on a node that has them: kubeadm reconfigure apply --upload-certs", manifest.FilesSecret, "kube-system")
		}
		return nil, nil
	case apierrors.IsUnauthorized(err):
		e.WarnOnce("the files referenced by component arguments cannot be downloaded: the API server no longer accepts " +
			"the bootstrap token")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", manifest.FilesSecret, err)
	}
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", manifest.FilesSecret, untrusted.Error(err))
	}
	found := map[string]argumentFile{}
	var closed []string
	for _, name := range slices.Sorted(maps.Keys(s.Data)) {
		plain, err := key.Decrypt(s.Data[name])
		if err != nil {
			closed = append(closed, name)
			continue
		}
		f, err := decodeArgumentFile(plain)
		i := slices.IndexFunc(wanted, func(w preflight.ArgumentFile) bool { return w.Path == f.Path })
		switch _, again := found[f.Path]; {
		case err != nil:
			e.WarnOnce("%s of Secret %s is not used: %v", untrusted.Line(name), manifest.FilesSecret, err)
		case i < 0:
			e.WarnOnce("%s of Secret %s is not used: it is for %s, which no argument of a component names",
				untrusted.Line(name), manifest.FilesSecret, untrusted.Line(f.Path))
		case again:
			e.WarnOnce("%s of Secret %s is not used: another one is for %s too", untrusted.Line(name),
				manifest.FilesSecret, untrusted.Line(f.Path))
		default:
			f.from = wanted[i]
			found[f.Path] = f
		}
	}
	if len(closed) > 0 {
		e.WarnOnce("%s of Secret %s cannot be decrypted: they were uploaded with another certificate key, or altered",
			untrusted.Line(strings.Join(closed, ", ")), manifest.FilesSecret)
	}
	var all []argumentFile
	for _, w := range wanted {
		if f, is := found[w.Path]; is {
			all = append(all, f)
		}
	}
	return all, nil
}

// plan returns the changes after which the file is as the uploaded one, or none if it stays.
func (d FilesDownload) plan(ctx context.Context, e *engine.Env, f argumentFile,
	at *change.Placement) (s fileStep, err error) {
	named := fmt.Sprintf("%s (%s)", untrusted.Line(f.Path), untrusted.Line(f.from.Argument))
	file := change.WriteFile{Path: f.Path, Data: f.data, Mode: f.Mode, Secret: true, Placement: at,
		RemoveTemporary: true} // safe, as this run holds the lock of the machine
	info, err := e.World.Stat(ctx, f.Path)
	if err != nil {
		if link := checkNoLink(ctx, e.World, f.Path); link != nil {
			return s, link
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fileStep{[]change.Change{file}, e.Say, "writing " + named + ", which another control plane node has uploaded"}, nil
	}
	if err != nil {
		return s, state.ExplainMisplaced(ctx, e.World, f.Path, err)
	}
	if !info.Mode.IsRegular() {
		e.WarnOnce("%s is kept: it is not a regular file", named)
		return s, nil
	}
	old, err := e.World.ReadFile(ctx, f.Path)
	if err != nil || bytes.Equal(old, f.data) {
		return s, err
	}
	if e.World.WasCreated(file.Target()) { // the user may have given it another owner or mode since
		file.Mode, file.Placement = info.Mode.Perm(), &change.Placement{UID: info.UID, GID: info.GID, DirMode: at.DirMode}
		return fileStep{[]change.Change{file}, e.Say, "writing " + named + " again, which was uploaded once more"}, nil
	}
	if !d.Replaces {
		e.WarnOnce("%s is kept, but is not as another control plane node has uploaded it, and %s starts with this machine's "+
			"own file; to replace it, copy it from that node, then restart %s", named, f.from.Component(), f.from.Component())
		return s, nil
	}
	if err := checkNoLink(ctx, e.World, f.Path); err != nil {
		return s, err
	}
	file.Mode = info.Mode.Perm()
	file.Placement = &change.Placement{UID: info.UID, GID: info.GID, DirMode: at.DirMode}
	kept := file
	kept.Data, kept.Mode = old, file.Mode&^0o077
	if kept.Path, err = findCopyName(ctx, e.World, info, old); err != nil {
		return s, err
	}
	reads := "reads it when it starts"
	if f.from.IsReread {
		reads = "reads it without a restart"
	}
	return fileStep{[]change.Change{kept, file}, e.Warn, fmt.Sprintf("%s is replaced, and the previous file is kept as %s; %s %s",
		named, untrusted.Line(kept.Path), f.from.Component(), reads)}, nil
}

// findCopyName returns the name of the copy of a file: with the time when the file was changed, so that a run
// that is resumed makes no second copy.
func findCopyName(ctx context.Context, r state.Reader, info state.FileInfo, data []byte) (string, error) {
	for at := info.ModTime.UTC(); ; at = at.Add(time.Second) {
		name := info.Path + ".kubeadm-" + at.Format("2006-01-02-15-04-05")
		there, err := state.ReadOptional(ctx, r, name)
		if err != nil || there == nil || bytes.Equal(there, data) {
			return name, err
		}
	}
}

// checkNoLink is an error if a symbolic link is on the way to the file, before anything is changed. The world
// refuses one too.
func checkNoLink(ctx context.Context, r state.Reader, file string) error {
	for i := 1; i <= len(file); i++ {
		if i < len(file) && file[i] != '/' {
			continue
		}
		info, err := r.Lstat(ctx, file[:i])
		if err != nil { // as there can be no link below
			return nil
		}
		if info.Mode.Type() == fs.ModeSymlink {
			return change.NewLinkError(file, file[:i])
		}
	}
	return nil
}
