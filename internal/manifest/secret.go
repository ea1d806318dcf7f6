package manifest

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/node"
)

// CertsSecret is the Secret, in kube-system, with the encrypted certificates that control planes
// share.
const CertsSecret = "kubeadm-certs"

// FilesSecret is the Secret, in kube-system, with the encrypted files referenced by component arguments.
const FilesSecret = "kubeadm-files"

// certsLifetime is the lifetime of uploaded certificates.
const certsLifetime = 2 * time.Hour

// TokenSecretName is the name of the Secret of the bootstrap token with that ID.
func TokenSecretName(id string) string { return bootstrapapi.BootstrapTokenSecretPrefix + id }

// NewTokenSecret is the Secret of a bootstrap token. Its TTL counts from now.
func NewTokenSecret(t node.BootstrapToken, now time.Time) *corev1.Secret {
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey:     []byte(t.ID),
		bootstrapapi.BootstrapTokenSecretKey: []byte(t.Secret),
	}
	if t.Description != "" {
		data[bootstrapapi.BootstrapTokenDescriptionKey] = []byte(t.Description)
	}
	expires := t.Expires
	if expires.IsZero() && t.TTL > 0 {
		expires = now.Add(t.TTL)
	}
	if !expires.IsZero() {
		data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(expires.UTC().Format(time.RFC3339))
	}
	for _, usage := range t.Usages {
		data[bootstrapapi.BootstrapTokenUsagePrefix+usage] = []byte("true")
	}
	if len(t.Groups) > 0 {
		data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte(strings.Join(t.Groups, ","))
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: kubeSystem, Name: TokenSecretName(t.ID)},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data:       data,
	}
}

// NewCertsOwner is a token without usages: when it expires, the token cleaner deletes it and the
// garbage collector deletes the Secret that it owns.
func NewCertsOwner(id, secret string, now time.Time) *corev1.Secret {
	return newOwner(CertsSecret, id, secret, now)
}

// NewCARotationOwner is NewCertsOwner for NewCARotationSecret.
func NewCARotationOwner(id, secret string, now time.Time) *corev1.Secret {
	return newOwner(CARotation, id, secret, now)
}

func newOwner(of, id, secret string, now time.Time) *corev1.Secret {
	return NewTokenSecret(node.BootstrapToken{
		ID: id, Secret: secret, TTL: certsLifetime,
		Description: "Deletes the Secret " + of + " when it expires",
	}, now)
}

// NewCertsSecret is the Secret with the encrypted files, by the names of pki.UploadedName. owner is
// NewCertsOwner as the API server returned it, with its UID.
func NewCertsSecret(sealed map[string][]byte, owner metav1.Object) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kubeSystem,
			Name:      CertsSecret,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Secret", Name: owner.GetName(), UID: owner.GetUID(),
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Data: sealed,
	}
}

// NewFilesSecret is the Secret with the encrypted files, by meaningless names. Its owner is that of
// NewCertsSecret.
func NewFilesSecret(encrypted map[string][]byte, owner metav1.Object) *corev1.Secret {
	s := NewCertsSecret(encrypted, owner)
	s.Name = FilesSecret
	return s
}

// CARotation is the name, in kube-system, of the ConfigMap with the state of a CA rotation, and of
// the Secret with its encrypted keys.
const CARotation = "kubeadm-ca-rotation"

// NewCARotation is the ConfigMap with the state of a CA rotation.
func NewCARotation(state string) *corev1.ConfigMap {
	return configMap(kubeSystem, CARotation, map[string]string{"rotation": state})
}

// Reconfiguration is the name, in kube-system, of the Secret with the state of the latest change of the
// cluster's configuration, and of the ConfigMap with what nodes may read of it.
const Reconfiguration = "kubeadm-reconfiguration"

// NewReconfiguration is the ConfigMap with what nodes may read of that state.
func NewReconfiguration(state string) *corev1.ConfigMap {
	return configMap(kubeSystem, Reconfiguration, map[string]string{ReconfigurationKey: state})
}

// NewReconfigurationSecret is the Secret with the whole state: arguments and environment variables that a
// change removes may be secrets.
func NewReconfigurationSecret(state string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: kubeSystem, Name: Reconfiguration},
		Data:       map[string][]byte{ReconfigurationKey: []byte(state)},
	}
}

// ReconfigurationKey is the key of the state in both.
const ReconfigurationKey = "reconfiguration"

// NewCARotationSecret is the Secret with the keys of a CA rotation, encrypted, by the names of
// pki.UploadedName. It is deleted together with its owner, as NewCertsSecret.
func NewCARotationSecret(sealed map[string][]byte, owner metav1.Object) *corev1.Secret {
	s := NewCertsSecret(sealed, owner)
	s.Name = CARotation
	return s
}
