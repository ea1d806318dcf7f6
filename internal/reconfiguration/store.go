package reconfiguration

import (
	"encoding/base64"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/state"
	"kubeadm/internal/strict"
)

// storeIn returns the change that stores the text of a state in an object. Fields of the same changes that this program does
// not know stay: a newer one may go by them.
func storeIn(o state.Object, text string, as state.Identity) change.Change {
	return change.MutateObject{Object: o, As: as, Mutate: func(u *unstructured.Unstructured) error {
		stored, err := textOf(u)
		if err != nil {
			stored = "" // it is damaged, and replaced
		}
		merged, err := keepUnknown(text, stored)
		if err != nil {
			return err
		}
		if u.GetKind() == "Secret" {
			merged = base64.StdEncoding.EncodeToString([]byte(merged))
		}
		return unstructured.SetNestedField(u.Object, merged, "data", manifest.ReconfigurationKey)
	}}
}

// textOf returns the text of the state in an object.
func textOf(u *unstructured.Unstructured) (string, error) {
	text, _, _ := unstructured.NestedString(u.Object, "data", manifest.ReconfigurationKey)
	if u.GetKind() != "Secret" {
		return text, nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return string(data), err
}

// keepUnknown adds to the text of a state what is unknown in another one, for each change that both have.
func keepUnknown(text, stored string) (string, error) {
	var now, before map[string]any
	if err := yaml.Unmarshal([]byte(text), &now); err != nil {
		return "", err
	}
	if yaml.Unmarshal([]byte(stored), &before) != nil {
		return text, nil // it is damaged, and replaced
	}
	known := listChanges(before)
	for id, change := range listChanges(now) {
		from := maps.Clone(known[id])
		delete(from, "earlier") // it is listed itself
		strict.KeepUnknown(change, from, reflect.TypeFor[State]())
	}
	merged, err := yaml.Marshal(now)
	return string(merged), err
}

// listChanges returns a change and those before it, by their IDs.
func listChanges(s map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	for s != nil {
		id, _ := s["id"].(string)
		all[id] = s
		s, _ = s["earlier"].(map[string]any)
	}
	return all
}
