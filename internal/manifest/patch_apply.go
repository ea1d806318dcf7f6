package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"kubeadm/internal/problem"
)

// Pod returns the static Pod as the user wants it. A patch after which the kubelet could not run the component is an error.
func (p Patches) Pod(pod *corev1.Pod) (*corev1.Pod, error) { return patched(p, pod.Name, pod) }

// deployment returns the Deployment of CoreDNS as the user wants it.
func (p Patches) deployment(d *appsv1.Deployment) (*appsv1.Deployment, error) {
	return patched(p, CoreDNSDeployment, d)
}

// daemonSet returns the DaemonSet of kube-proxy as the user wants it.
func (p Patches) daemonSet(d *appsv1.DaemonSet) (*appsv1.DaemonSet, error) {
	return patched(p, KubeProxyDaemonSet, d)
}

// patched leaves the object it is given alone.
func patched[T any](p Patches, target string, object *T) (*T, error) {
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

// apply patches a JSON document. schema is a value of the Go type that the document must fit; its tags say how lists are merged.
func (p Patches) apply(target string, data []byte, schema any) ([]byte, error) {
	before := data
	var fault error
	var origin string // of the patch that brought the fault
	for _, d := range p.patches {
		if d.target != target {
			continue
		}
		after, err := d.apply(data, schema, p.later)
		if err != nil {
			return nil, fixPatches(fmt.Errorf("%s cannot be applied to %s: %w", d.origin, target, err))
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
		return nil, fixPatches(fmt.Errorf("%s cannot be applied to %s: %w", origin, target, fault))
	}
	return data, nil
}

func fixPatches(err error) error {
	return problem.New("", err, "fix the patches, or name another directory with --patches")
}

func (d patch) apply(data []byte, schema any, later string) ([]byte, error) {
	switch d.kind {
	case jsonPatch:
		operations, err := jsonpatch.DecodePatch(d.json)
		if err != nil {
			return nil, fmt.Errorf("not a list of operations (RFC 6902): %w", err)
		}
		return operate(data, operations, later)
	case mergePatch:
		if err := d.fits(schema); err != nil {
			return nil, err
		}
		return jsonpatch.MergePatch(data, d.json)
	default:
		if err := d.fits(schema); err != nil {
			return nil, err
		}
		return strategic(data, d.json, schema)
	}
}

// operate carries out the operations in order. A test that fails says nothing if what it looks at is known only later.
func operate(data []byte, operations jsonpatch.Patch, later string) ([]byte, error) {
	for _, o := range operations {
		after, err := jsonpatch.Patch{o}.Apply(data)
		switch {
		case errors.Is(err, jsonpatch.ErrTestFailed) && holds(data, o["path"], later):
		case err != nil:
			return nil, err
		default:
			data = after
		}
	}
	return data, nil
}

// holds tells whether the text is part of what is at the path: less of it is left without that.
func holds(data []byte, path *json.RawMessage, text string) bool {
	if text == "" {
		return false
	}
	remove := json.RawMessage(`"remove"`)
	rest, err := jsonpatch.Patch{{"op": &remove, "path": path}}.Apply(data)
	return err == nil && bytes.Count(rest, []byte(text)) < bytes.Count(data, []byte(text))
}

// strategic merges as the tags of the schema say.
func strategic(data, patch []byte, schema any) (merged []byte, err error) {
	// The library relies on the types of what it compares: one that does not fit can make it panic.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is not a strategic merge patch: %v", p)
		}
	}()
	return strategicpatch.StrategicMergePatch(data, patch, schema)
}
