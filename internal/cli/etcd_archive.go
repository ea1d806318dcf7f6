package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// archiveOptions are the flags that say whether a snapshot is saved with the keys of the cluster, and how
// it is encrypted then.
type archiveOptions struct {
	withKeys, unencrypted          bool
	recipientsFile, passphraseFile string
}

func (o *archiveOptions) values() flagTargets {
	return flagTargets{flag.WithKeys: &o.withKeys, flag.Unencrypted: &o.unencrypted,
		flag.RecipientsFile: &o.recipientsFile, flag.PassphraseFile: &o.passphraseFile}
}

// check refuses flags that do not fit together.
func (o *archiveOptions) check() error {
	var given []string
	for _, f := range []struct {
		name flag.Name
		set  bool
	}{{flag.RecipientsFile, o.recipientsFile != ""}, {flag.PassphraseFile, o.passphraseFile != ""},
		{flag.Unencrypted, o.unencrypted}} {
		if f.set {
			given = append(given, "--"+string(f.name))
		}
	}
	switch {
	case len(given) > 0 && !o.withKeys:
		return problem.New(fmt.Errorf("%s has no effect without --%s", given[0], flag.WithKeys),
			fmt.Sprintf("set --%s, or leave out %s", flag.WithKeys, given[0]))
	case len(given) > 1:
		return problem.New(fmt.Errorf("%s cannot be used together", strings.Join(given, " and ")),
			"leave out all but one of them")
	}
	return nil
}

// protection is how the flags say that the archive is encrypted. Without a flag, the passphrase is read
// from the terminal.
func (o *archiveOptions) protection(ctx context.Context, p *program) (none etcdsnapshot.Protection, err error) {
	switch {
	case !o.withKeys:
		return none, nil
	case o.unencrypted:
		warn(p, "etcd", "the archive has every secret of the cluster in clear text: whoever can read it controls the cluster")
		return none, nil
	case o.recipientsFile != "":
		text, err := p.World().ReadFile(ctx, o.recipientsFile)
		if err == nil {
			none, err = etcdsnapshot.NewRecipients(text)
		}
		if err != nil {
			return none, problem.During("reading the recipients", err, fmt.Sprintf(
				"set --%s to a file with recipients of age, one a line: age1... or an SSH public key is not accepted", flag.RecipientsFile))
		}
		return none, nil
	}
	text, err := readPassphrase(ctx, p, o.passphraseFile, true)
	if err != nil {
		return none, err
	}
	return etcdsnapshot.NewPassphrase(text)
}

// keyOptions are the flags that say how an archive is decrypted.
type keyOptions struct{ identityFile, passphraseFile string }

func (o *keyOptions) values() flagTargets {
	return flagTargets{flag.IdentityFile: &o.identityFile, flag.PassphraseFile: &o.passphraseFile}
}

// key reads the key that the flags name, or the passphrase from the terminal.
func (o *keyOptions) key(ctx context.Context, p *program) (none etcdsnapshot.Key, err error) {
	if o.identityFile != "" && o.passphraseFile != "" {
		return none, problem.New(fmt.Errorf("--%s and --%s cannot be used together", flag.IdentityFile,
			flag.PassphraseFile), "leave out one of them")
	}
	if o.identityFile != "" {
		text, err := p.World().ReadFile(ctx, o.identityFile)
		if err == nil {
			none, err = etcdsnapshot.NewIdentities(text)
		}
		if err != nil {
			return none, problem.During("reading the identity", err,
				fmt.Sprintf("set --%s to a file with an identity of age", flag.IdentityFile))
		}
		return none, nil
	}
	text, err := readPassphrase(ctx, p, o.passphraseFile, false)
	if err != nil {
		return none, err
	}
	return etcdsnapshot.NewPassphraseKey(text)
}

// readPassphrase reads a passphrase from a file or else from the terminal, there twice if it is a new one.
func readPassphrase(ctx context.Context, p *program, file string, isNew bool) (string, error) {
	if file != "" {
		data, err := p.World().ReadFile(ctx, file)
		text := strings.TrimRight(string(data), "\r\n")
		if err == nil && (text == "" || strings.ContainsAny(text, "\r\n")) {
			err = errors.New("it must have one line that is not empty")
		}
		if err != nil {
			return "", problem.During("reading the passphrase", err,
				fmt.Sprintf("set --%s to a file with one line", flag.PassphraseFile))
		}
		return text, nil
	}
	if p.HideInput == nil {
		if isNew {
			return "", problem.New(errors.New("it is not known how to encrypt the archive, and no terminal can be asked for a passphrase"),
				fmt.Sprintf("set --%s or --%s; or, to write every secret of the cluster in clear text, --%s",
					flag.RecipientsFile, flag.PassphraseFile, flag.Unencrypted))
		}
		return "", problem.New(etcdsnapshot.ErrEncrypted, fmt.Sprintf("set --%s or --%s", flag.IdentityFile, flag.PassphraseFile))
	}
	first, err := askHidden(p, "Passphrase: ")
	if err != nil || !isNew {
		return first, err
	}
	second, err := askHidden(p, "Repeat the passphrase: ")
	switch {
	case err != nil:
		return "", err
	case first == "":
		return "", errors.New("the passphrase is empty")
	case first != second:
		return "", problem.New(errors.New("the two passphrases differ"), "re-run the command")
	}
	return first, nil
}

// askHidden asks for a line that the terminal does not show.
func askHidden(p *program, question string) (string, error) {
	restore, err := p.HideInput()
	if err != nil {
		return "", fmt.Errorf("hiding the input: %w", err)
	}
	defer restore()
	fmt.Fprint(p.Err, question)
	answer, err := p.answers.ReadString('\n')
	fmt.Fprintln(p.Err)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	return strings.TrimRight(answer, "\r\n"), nil
}

// saveArchive saves the snapshot with the keys of the cluster, and removes the snapshot alone.
func saveArchive(ctx context.Context, e *engine.Env, here etcdNode, c change.SaveArchive) error {
	info, err := e.World.ReadSnapshot(ctx, c.Snapshot)
	if err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	files, err := collectKeys(ctx, e, here)
	if err != nil {
		return problem.During("reading the keys of the cluster", err)
	}
	c.Manifest = etcdsnapshot.Manifest{Node: here.Name, Time: e.World.Now().UTC(), Kubeadm: e.Tool.String(),
		Snapshot: info, Files: files}
	c.NotBefore = e.World.Now()
	if err := e.Do(ctx, c); err != nil {
		return err
	}
	return e.Do(ctx, change.Remove{Path: c.Snapshot})
}

// collectKeys reads the files from which a cluster can be rebuilt. It warns of what is not there.
func collectKeys(ctx context.Context, e *engine.Env, here etcdNode) ([]etcdsnapshot.ArchivedFile, error) {
	var files []etcdsnapshot.ArchivedFile
	add := func(name, file string) error {
		data, err := e.World.ReadFile(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			e.Warn("%s does not exist, so it is not in the archive: keep what replaces it, such as an external CA, elsewhere", file)
			return nil
		}
		if err != nil {
			return err
		}
		files = append(files, etcdsnapshot.ArchivedFile{Name: name, Path: file, Data: data})
		return nil
	}
	named := map[string]string{} // files by their names in the archive, in the order of names
	var names []string
	for _, f := range pki.SharedFiles(!here.client.External) {
		named[etcdsnapshot.PKIPrefix+f] = here.Paths.Certificate(f)
		names = append(names, etcdsnapshot.PKIPrefix+f)
	}
	if here.client.EncryptionConfig != "" {
		named[etcdsnapshot.EncryptionName] = here.client.EncryptionConfig
		names = append(names, etcdsnapshot.EncryptionName)
	}
	if here.client.External {
		for base, file := range map[string]string{"ca.crt": here.client.CAFile, "client.crt": here.client.CertFile,
			"client.key": here.client.KeyFile} {
			if file != "" {
				named["external-etcd/"+base] = file
			}
		}
		for _, base := range []string{"ca.crt", "client.crt", "client.key"} {
			if named["external-etcd/"+base] != "" {
				names = append(names, "external-etcd/"+base)
			}
		}
	}
	for _, name := range names {
		if err := add(name, named[name]); err != nil {
			return nil, err
		}
	}
	for _, stored := range []struct{ object, key string }{{manifest.KubeadmConfigMap, manifest.KubeadmConfigKey},
		{manifest.KubeletConfigMap, manifest.KubeletConfigKey}, {manifest.KubeProxyConfigMap, manifest.KubeProxyConfigKey}} {
		limited, cancel := context.WithTimeout(ctx, nodeNamesLimit)
		found, err := existing.ReadConfigMap(limited, e.World, here.As, stored.object)
		cancel()
		switch {
		case err != nil:
			e.Warn("the ConfigMap %s is only in the snapshot: %v", stored.object, err)
		case found != nil:
			files = append(files, etcdsnapshot.ArchivedFile{Name: etcdsnapshot.ConfigPrefix + stored.object + ".yaml",
				Data: []byte(found.Data[stored.key])})
		}
	}
	return files, nil
}

// readArchive decrypts an archive, verifies all of it and describes it.
func readArchive(ctx context.Context, p *program, status *snapshotStatus, o *keyOptions) error {
	head, err := readHead(ctx, p.World(), status.File)
	if err != nil {
		return err
	}
	var key etcdsnapshot.Key
	if status.Encrypted = etcdsnapshot.IsEncrypted(head); status.Encrypted {
		if key, err = o.key(ctx, p); err != nil {
			return err
		}
	}
	f, err := p.World().OpenFile(ctx, status.File)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	archive, err := etcdsnapshot.OpenArchive(f, key)
	if err != nil {
		return err
	}
	if _, err := archive.Read(ctx, io.Discard); err != nil {
		return err
	}
	status.describe(archive.Manifest)
	return nil
}

// readHead reads the begin of a file, by which an archive is told from a snapshot.
func readHead(ctx context.Context, r state.Reader, file string) ([]byte, error) {
	f, err := r.OpenFile(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, etcdsnapshot.HeadLength)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

// offerKeyFiles lets the shell complete the files of keys.
func offerKeyFiles() cobra.CompletionFunc { return offerFiles(cobra.ShellCompDirectiveDefault) }

// archiveSuffix is the end of the name of an archive.
func archiveSuffix(p etcdsnapshot.Protection) string {
	if p.IsEncrypted() {
		return etcdsnapshot.ArchiveSuffix + etcdsnapshot.EncryptedSuffix
	}
	return etcdsnapshot.ArchiveSuffix
}

// snapshotBeside is the path of the snapshot while its archive is made.
func snapshotBeside(archive string) string {
	if base, ok := strings.CutSuffix(strings.TrimSuffix(archive, etcdsnapshot.EncryptedSuffix), etcdsnapshot.ArchiveSuffix); ok {
		return base + etcdsnapshot.SnapshotSuffix
	}
	return path.Clean(archive) + etcdsnapshot.SnapshotSuffix
}
