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
			return nil, newPatchError(fmt.Errorf("%s cannot be applied to %s: %w", d.origin, target,
				err))
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
		return nil, newPatchError(fmt.Errorf("%s cannot be applied to %s: %w", origin, target,
			fault))
	}
	return data, nil
}

func newPatchError(err error) error {
	return problem.New("", err, "fix the patches, or set --patches to another directory")
}

func (d patch) apply(data []byte, schema any, later string) ([]byte, error) {
	switch d.kind {
	case jsonPatch:
		operations, err := jsonpatch.DecodePatch(d.json)
		if err != nil {
			return nil, fmt.Errorf("not a list of JSON patch operations (RFC 6902): %w", err)
		}
		return applyJSONPatch(data, operations, later)
	case mergePatch:
		if err := d.checkFields(schema); err != nil {
			return nil, err
		}
		return jsonpatch.MergePatch(data, d.json)
	default:
		if err := d.checkFields(schema); err != nil {
			return nil, err
		}
		return applyStrategicMerge(data, d.json, schema)
	}
}

// applyJSONPatch applies the operations in order. A failing test is skipped if it concerns a part
// that is not known yet.
func applyJSONPatch(data []byte, operations jsonpatch.Patch, later string) ([]byte, error) {
	for _, o := range operations {
		after, err := jsonpatch.Patch{o}.Apply(data)
		switch {
		case errors.Is(err, jsonpatch.ErrTestFailed) && containsText(data, o["path"], later):
		case err != nil:
			return nil, err
		default:
			data = after
		}
	}
	return data, nil
}

// containsText reports whether the value at the path contains the text: removing the value removes
// occurrences of the text.
func containsText(data []byte, path *json.RawMessage, text string) bool {
	if text == "" {
		return false
	}
	remove := json.RawMessage(`"remove"`)
	rest, err := jsonpatch.Patch{{"op": &remove, "path": path}}.Apply(data)
	return err == nil && bytes.Count(rest, []byte(text)) < bytes.Count(data, []byte(text))
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
