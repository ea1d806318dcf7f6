package reconfiguration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/config"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// BaseOf is a short text that identifies what the cluster stores, by its meaning. It stays the same if the stored text
// gets another order of fields, comments, or values that are the defaults, as after a change that was taken back, and if
// another build of this program knows further fields that are not set. Fields that this build does not know, and values
// that are empty, do not count. It does not stay the same if a build has other defaults.
func BaseOf(local node.Local, stored config.StoredConfig) (string, error) {
	n, _, err := config.CompleteUpgrade(local, stored, release.Target{})
	if err != nil {
		return "", err
	}
	var all []any
	for _, document := range []any{n.Cluster.Document, n.Cluster.Kubelet.Config, n.Cluster.KubeProxy.Config} {
		text, isText := document.(string)
		if !isText {
			data, err := json.Marshal(document)
			if err != nil {
				return "", fmt.Errorf("encoding the configuration: %w", err)
			}
			text = string(data)
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return "", fmt.Errorf("decoding the configuration: %w", err)
		}
		all = append(all, withoutEmpty(value))
	}
	canonical, err := json.Marshal(all) // with sorted keys
	return digest(string(canonical))[:16], err
}

// withoutEmpty returns a decoded value without fields that are null, an empty text, an empty object or an empty list; nil
// if nothing is left. Elements of lists stay, as their places count.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case string:
		if v == "" {
			return nil
		}
	case []any:
		var kept []any
		for _, element := range v {
			kept = append(kept, withoutEmpty(element))
		}
		if kept == nil {
			return nil
		}
		return kept
	case map[string]any:
		kept := map[string]any{}
		for name, field := range v {
			if field = withoutEmpty(field); field != nil {
				kept[name] = field
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	}
	return value
}

// checkBase is an error if the configuration that the user has edited is no longer what the cluster stores: what the user
// wants would take back what was changed since. It is none if an earlier run of the same change has stored that.
func (f finder) checkBase(ctx context.Context, q Request, stored, wanted config.StoredConfig, found *State) error {
	if q.Base == "" {
		return nil
	}
	if base, err := BaseOf(f.here.Local, stored); err != nil || base == q.Base {
		return err
	}
	if found != nil {
		isAgain, err := f.isSame(ctx, found.After, wanted)
		if err == nil && isAgain {
			isAgain, err = f.isOwn(ctx, found, stored)
		}
		if err != nil || isAgain {
			return err
		}
	}
	return &problem.Problem{Stale: true, Err: errors.New(
		"the configuration has changed since you opened it; applying your edit would revert that change"),
		Hints: []string{"edit the present configuration: kubeadm reconfigure apply --edit"}}
}
