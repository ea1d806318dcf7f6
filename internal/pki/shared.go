package pki

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParseShared parses the files that control planes share, by the names under which they travel. It is an error
// unless each of them holds what its name promises, each key is that of the certificate beside it, and sa.pub
// that of sa.key. Empty files are left out.
func ParseShared(files map[string][]byte) (map[string]File, error) {
	parsed := map[string]File{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(files[name]) == 0 {
			continue
		}
		f, err := parseNamed(name, files[name])
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
		if cert, ok := parsed[base+".crt"]; isKey && ok && !Owns(f.Keys[0], cert.Certificates[0]) {
			errs = append(errs, fmt.Errorf("%s is not the key of the certificate in %s.crt", name, base))
		}
		if strings.HasSuffix(name, "ca.crt") && name != SealedExternalEtcdCA && !f.Certificates[0].IsCA {
			errs = append(errs, fmt.Errorf("%s is not a certificate authority", name))
		}
	}
	private, hasPrivate := parsed[ServiceAccountKey]
	public, hasPublic := parsed[ServiceAccountPublicKey]
	if hasPrivate && hasPublic && !public.Verifies(private.Keys[0]) {
		errs = append(errs, fmt.Errorf("%s is not the public key of %s", ServiceAccountPublicKey, ServiceAccountKey))
	}
	return parsed, errors.Join(errs...)
}

// parseNamed reads a file, which must hold what its name promises.
func parseNamed(name string, data []byte) (File, error) {
	f, err := ParseFile(data)
	switch {
	case err != nil:
		return f, err
	case strings.HasSuffix(name, ".crt") && len(f.Certificates) == 0:
		return f, errors.New("it holds no certificate")
	case strings.HasSuffix(name, ".key") && len(f.Keys) == 0:
		return f, errors.New("it holds no private key")
	case len(f.Certificates)+len(f.Keys)+len(f.PublicKeys) == 0:
		return f, errors.New("it holds no key")
	case strings.HasSuffix(name, ".key") && name != SealedExternalEtcdKey:
		_, err = ParseKey(data) // kubeadm and the components sign with it
	}
	return f, err
}
