package manifest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"kubeadm/internal/state"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	kubeSystem = metav1.NamespaceSystem
	kubePublic = metav1.NamespacePublic

	nodeCritical    = "system-node-critical"
	clusterCritical = "system-cluster-critical"
)

// hashAnnotation marks a configuration that kubeadm generated: as long as the hash matches the
// content, the configuration was not changed.
const hashAnnotation = "kubeadm.kubernetes.io/component-config.hash"

// YAML encodes the objects as a stream of YAML documents.
func YAML(objects ...state.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", state.RefOf(o, state.Identity{}), err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       data,
	}
}

func newServiceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: kubeSystem, Name: name},
	}
}

// IsGenerated reports whether the ConfigMap holds a configuration as kubeadm generated it, rather
// than one that a user wrote or changed.
func IsGenerated(c *corev1.ConfigMap) bool { return c.Annotations[hashAnnotation] == dataHash(c) }

// dataHash covers the values in the order of their keys.
func dataHash(c *corev1.ConfigMap) string {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		hash.Write([]byte(c.Data[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		hash.Write(c.BinaryData[key])
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil))
}
