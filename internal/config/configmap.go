package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/problem"
	"kubeadm/internal/strict"
)

// explainConfigMap adds to the error of a file that is a whole ConfigMap how to get the document in it.
func explainConfigMap(data []byte, err error) error {
	var found corev1.ConfigMap
	if strict.CheckAliases(data) != nil || yaml.Unmarshal(data, &found) != nil || found.Kind != "ConfigMap" {
		return err
	}
	for _, stored := range []struct{ name, field, jsonpath string }{
		{"kubeadm-config", "ClusterConfiguration", "ClusterConfiguration"},
		{"kubelet-config", "kubelet", "kubelet"},
		{"kube-proxy", "config.conf", `config\.conf`},
	} {
		if found.Data[stored.field] != "" {
			return problem.New(err, fmt.Sprintf("it is a ConfigMap: save only the text of its field "+
				"data.%s: kubectl -n kube-system get configmap %s -o 'jsonpath={.data.%s}' >config.yaml",
				stored.field, stored.name, stored.jsonpath))
		}
	}
	return err
}
