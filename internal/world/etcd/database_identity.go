package etcd

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/pki"
	"kubeadm/internal/untrusted"
)

// protobufMagic begins objects that the API server has stored as protobuf, as it does by default.
var protobufMagic = []byte("k8s\x00")

// readConfigMap returns the data of a ConfigMap as the API server stores it, or nothing.
func readConfigMap(value []byte) map[string]string {
	var object corev1.ConfigMap
	encoded, isProtobuf := bytes.CutPrefix(value, protobufMagic)
	if !isProtobuf {
		if yaml.Unmarshal(value, &object) != nil { // JSON, of --storage-media-type
			return nil
		}
		return object.Data
	}
	var wrapped runtime.Unknown
	if wrapped.Unmarshal(encoded) != nil || object.Unmarshal(wrapped.Raw) != nil {
		return nil
	}
	return object.Data
}

// caHashes returns the hashes of the public keys of PEM certificates.
func caHashes(pem []byte) (hashes []string) {
	certs, err := pki.ParseCertificates(pem)
	if err != nil {
		return nil
	}
	for _, c := range certs {
		hashes = append(hashes, pki.PinOf(c).String())
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// kubernetesVersion returns the version of a stored ClusterConfiguration.
func kubernetesVersion(document string) string {
	var config struct {
		Version string `json:"kubernetesVersion"`
	}
	if yaml.Unmarshal([]byte(document), &config) != nil {
		return ""
	}
	return untrusted.Line(config.Version)
}
