package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"kubeadm/internal/problem"
)

// PatchPod returns the patched static Pod. It is an error if the kubelet could not run it.
func (p Patches) PatchPod(pod *corev1.Pod) (*corev1.Pod, error) {
	return patchObject(p, pod.Name, pod)
}

// patchObject returns a patched copy of the object.
func patchObject[T any](p Patches, target string, object *T) (*T, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", target, err)
	}
	if data, err = p.apply(target, data, *object); err != nil {
		return nil, err
	}
	var after T
	if err := json.Unmarshal(data, &after); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", target, err)
	}
	return &after, nil
}

// apply patches a JSON document. schema is a value of the Go type of the document; its struct tags
// say how lists are merged.
func (p Patches) apply(target string, data []byte, schema any) ([]byte, error) {
	before := data
	var fault error
	var origin string // of the patch that caused the fault
	for _, d := range p.patches {
		if d.target != target {
			continue
		}
		after, err := d.apply(data, schema, p.unknownText)
		if err != nil {
			fault, origin = err, d.origin
			break
		}
		data = after
		switch broken := checkPatched(before, data, schema); {
		case broken == nil:
			fault = nil
		case fault == nil:
			fault, origin = broken, d.origin
		}
	}
	if fault != nil {
		return nil, problem.New(fmt.Errorf("%s cannot be applied to %s: %w", origin, target, fault),
			"fix the patches, or set --patches to another directory")
	}
	return data, nil
}

func (d patch) apply(data []byte, schema any, later string) ([]byte, error) {
	if d.kind == jsonPatch {
		operations, err := jsonpatch.DecodePatch(d.json)
		if err != nil {
			return nil, fmt.Errorf("not a list of JSON patch operations (RFC 6902): %w", err)
		}
		return applyJSONPatch(data, operations, later)
	}
	// fields that the schema's type does not have, or values of the wrong type, are errors
	var tree any
	if err := json.Unmarshal(d.json, &tree); err != nil {
		return nil, err
	}
	removeDirectives(tree)
	fields, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	if err := checkFields(fields, schema); err != nil {
		return nil, err
	}
	if d.kind == mergePatch {
		return jsonpatch.MergePatch(data, d.json)
	}
	return applyStrategicMerge(data, d.json, schema)
}

// applyJSONPatch applies the operations in order. A failing test is skipped if it concerns a part
// that is not known yet: one that contains the text later.
func applyJSONPatch(data []byte, operations jsonpatch.Patch, later string) ([]byte, error) {
	for _, o := range operations {
		after, err := jsonpatch.Patch{o}.Apply(data)
		if errors.Is(err, jsonpatch.ErrTestFailed) && later != "" {
			// A value contains the text if removing the value removes occurrences of the text.
			remove := json.RawMessage(`"remove"`)
			rest, err := jsonpatch.Patch{{"op": &remove, "path": o["path"]}}.Apply(data)
			if err == nil &&
				bytes.Count(rest, []byte(later)) < bytes.Count(data, []byte(later)) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		data = after
	}
	return data, nil
}

// applyStrategicMerge merges a patch according to the struct tags of the schema.
func applyStrategicMerge(data, patch []byte, schema any) (merged []byte, err error) {
	// The library can panic if a value has an unexpected type.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is not a strategic merge patch: %v", p)
		}
	}()
	return strategicpatch.StrategicMergePatch(data, patch, schema)
}
