package etcdsnapshot

import (
	"sigs.k8s.io/yaml"

	"kubeadm/internal/untrusted"
)

// EncryptionKeys returns "provider:name" of each key in a file of --encryption-provider-config, as
// Info.Encryption has them.
func EncryptionKeys(data []byte) (keys []string, err error) {
	type provider struct {
		Name string `json:"name"` // of KMS
		Keys []struct {
			Name string `json:"name"`
		} `json:"keys"`
	}
	var config struct {
		Resources []struct {
			Providers []map[string]*provider `json:"providers"`
		} `json:"resources"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, untrusted.Error(err)
	}
	for _, resource := range config.Resources {
		for _, one := range resource.Providers {
			for kind, p := range one {
				if p == nil {
					continue
				}
				if p.Name != "" {
					keys = append(keys, kind+":"+p.Name)
				}
				for _, key := range p.Keys {
					keys = append(keys, kind+":"+key.Name)
				}
			}
		}
	}
	return keys, nil
}
