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

// hashAnnotation marks a configuration that we generated: while it fits the content,
// nobody has changed it since.
const hashAnnotation = "kubeadm.kubernetes.io/component-config.hash"

// YAML is the objects as a stream of YAML documents.
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

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func core(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
func apps(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "apps/v1", Kind: kind} }

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: core("ConfigMap"), ObjectMeta: named(namespace, name), Data: data}
}

// markGenerated says on a ConfigMap that its content is ours.
func markGenerated(c *corev1.ConfigMap) {
	c.Annotations = map[string]string{hashAnnotation: dataHash(c)}
}

// Generated tells whether the ConfigMap holds a configuration as we generated it. One
// that was written or changed by somebody else is theirs.
func Generated(c *corev1.ConfigMap) bool { return c.Annotations[hashAnnotation] == dataHash(c) }

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
