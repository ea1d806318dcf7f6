package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"kubeadm/internal/problem"
)

// Pod returns the static Pod as the user wants it. Fields that a Pod does not have are lost.
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
	for _, d := range p.patches {
		if d.target != target {
			continue
		}
		after, err := d.apply(data, schema, p.later)
		if err != nil {
			return nil, mend(fmt.Errorf("%s cannot be applied to %s: %w", d.origin, target, err))
		}
		data = after
	}
	if err := fits(data, schema); err != nil {
		return nil, mend(fmt.Errorf("%s as patched by %s is not valid any more: %w", target, strings.Join(p.Origins(target), ", "), err))
	}
	return data, nil
}

// fits tells whether a JSON document has values of the right types where the schema's type has fields.
func fits(data []byte, schema any) error {
	return json.Unmarshal(data, reflect.New(reflect.TypeOf(schema)).Interface())
}

func mend(err error) error {
	return problem.New("", err, "mend the patches, or name another folder with --patches")
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
		return jsonpatch.MergePatch(data, d.json)
	default:
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
	// The library relies on the types of what it compares: a patch that does not fit can make it panic.
	if err := fits(patch, schema); err != nil {
		return nil, fmt.Errorf("it has a value of the wrong type: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is no strategic merge patch: %v", p)
		}
	}()
	return strategicpatch.StrategicMergePatch(data, patch, schema)
}
