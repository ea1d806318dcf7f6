package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// archiveOptions are the flags that say how an archive with the keys of the cluster is encrypted.
type archiveOptions struct {
	unencrypted                    bool
	recipientsFile, passphraseFile string
}

func (o *archiveOptions) values() flagTargets {
	return flagTargets{flag.Unencrypted: &o.unencrypted, flag.RecipientsFile: &o.recipientsFile,
		flag.PassphraseFile: &o.passphraseFile}
}

// check refuses flags that do not fit together, or have no effect because there is no archive.
func (o *archiveOptions) check(isArchive bool) error {
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
	case len(given) > 0 && !isArchive:
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
				"set --%s to a file with one age recipient per line (age1...); SSH keys are not supported", flag.RecipientsFile))
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
type keyOptions struct {
	IdentityFile   string `flag:"identity-file"`
	PassphraseFile string `flag:"passphrase-file"`
}

// name is the flag that is set, or empty.
func (o *keyOptions) name() flag.Name {
	switch {
	case o.IdentityFile != "":
		return flag.IdentityFile
	case o.PassphraseFile != "":
		return flag.PassphraseFile
	}
	return ""
}

// notEncryptedError is the error of a file that needs no key although the user gives one.
func (o *keyOptions) notEncryptedError() error {
	return problem.New(fmt.Errorf("the file is not encrypted, but --%s is set", o.name()),
		fmt.Sprintf("leave out --%s only if you know that the file is yours: an encrypted one may have been exchanged", o.name()))
}

// key reads the key that the flags name, or the passphrase from the terminal.
func (o *keyOptions) key(ctx context.Context, p *program) (none etcdsnapshot.Key, err error) {
	if o.IdentityFile != "" && o.PassphraseFile != "" {
		return none, problem.New(fmt.Errorf("--%s and --%s cannot be used together", flag.IdentityFile,
			flag.PassphraseFile), "leave out one of them")
	}
	if o.IdentityFile != "" {
		text, err := p.World().ReadFile(ctx, o.IdentityFile)
		if err == nil {
			none, err = etcdsnapshot.NewIdentities(text)
		}
		if err != nil {
			return none, problem.During("reading the identity", err,
				fmt.Sprintf("set --%s to a file with an age identity", flag.IdentityFile))
		}
		return none, nil
	}
	text, err := readPassphrase(ctx, p, o.PassphraseFile, false)
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
			return "", problem.New(errors.New("no encryption of the archive is set, and there is no terminal on which to ask for a passphrase"),
				fmt.Sprintf("set --%s or --%s; or, to write every secret of the cluster in clear text, --%s",
					flag.RecipientsFile, flag.PassphraseFile, flag.Unencrypted))
		}
		return "", problem.New(etcdsnapshot.ErrEncrypted, fmt.Sprintf("set --%s or --%s", flag.IdentityFile, flag.PassphraseFile))
	}
	first, err := p.askHidden(ctx, "Passphrase: ")
	if err != nil || !isNew {
		return first, err
	}
	second, err := p.askHidden(ctx, "Repeat the passphrase: ")
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

// readArchive decrypts an archive, verifies all of it and describes it.
func readArchive(ctx context.Context, p *program, status *snapshotStatus, o *keyOptions) (err error) {
	var key etcdsnapshot.Key
	if status.Encrypted {
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
	m := archive.Manifest
	status.DescribedBy, status.Info, status.Files = "manifest", m.Snapshot, m.Files
	status.Kubeadm, status.Node, status.Time = m.Kubeadm, m.Node, &metav1.Time{Time: m.Time.UTC()}
	return nil
}

// readHead reads the first bytes of a file, by which an archive is told from a snapshot.
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
