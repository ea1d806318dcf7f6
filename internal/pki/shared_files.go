package pki

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the files of an external etcd in the Secret of the uploaded certificates.
const (
	UploadedExternalEtcdCA          = "external-etcd-ca.crt"
	UploadedExternalEtcdCertificate = "external-etcd.crt"
	UploadedExternalEtcdKey         = "external-etcd.key"
)

// UploadedName returns the name of a shared file in that Secret: its path below the
// certificates directory with "-" in place of "/".
func UploadedName(path string) string { return strings.ReplaceAll(path, "/", "-") }

// ParseSharedFiles parses the files that control planes share, by their names in the Secret
// kubeadm-certs. Each file must contain what its name says, each key must belong to its
// certificate, and sa.pub to sa.key. Empty files are left out.
func ParseSharedFiles(files map[string][]byte) (map[string]File, error) {
	parsed := map[string]File{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(files[name]) == 0 {
			continue
		}
		f, err := ParseFile(files[name])
		switch key := strings.HasSuffix(name, ".key"); {
		case err != nil:
		case strings.HasSuffix(name, ".crt") && len(f.Certificates) == 0:
			err = errors.New("it contains no certificate")
		case key && len(f.Keys) == 0:
			err = errors.New("it contains no private key")
		case len(f.Certificates)+len(f.Keys)+len(f.PublicKeys) == 0:
			err = errors.New("it contains no key")
		case key && name != UploadedExternalEtcdKey:
			// kubeadm and the components sign with it, so Ed25519 is not enough
			_, err = ParseKey(files[name])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		parsed[name] = f
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		f := parsed[name]
		base, isKey := strings.CutSuffix(name, ".key")
		if cert, ok := parsed[base+".crt"]; isKey && ok &&
			!IsKeyOf(f.Keys[0], cert.Certificates[0].PublicKey) {
			errs = append(errs, fmt.Errorf("%s does not match the certificate in %s.crt", name,
				base))
		}
		if strings.HasSuffix(name, "ca.crt") && name != UploadedExternalEtcdCA &&
			!f.Certificates[0].IsCA {
			errs = append(errs, fmt.Errorf("%s is not a certificate authority", name))
		}
	}
	private, hasPrivate := parsed[ServiceAccountKey]
	public, hasPublic := parsed[ServiceAccountPublicKey]
	if hasPrivate && hasPublic && !public.HasPublicKeyOf(private.Keys[0]) {
		errs = append(errs, fmt.Errorf("%s is not the public key of %s", ServiceAccountPublicKey,
			ServiceAccountKey))
	}
	return parsed, errors.Join(errs...)
}
