package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kubeadm/internal/strict"
)

// removeDirectives removes the directives of strategic merge patches from a decoded document: see
// https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md.
func removeDirectives(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(tree, func(name string, _ any) bool {
			return name == "$patch" || name == "$retainKeys" ||
				strings.HasPrefix(name, "$deleteFromPrimitiveList/") ||
				strings.HasPrefix(name, "$setElementOrder/")
		})
		for _, value := range tree {
			removeDirectives(value)
		}
	case []any:
		for _, item := range tree {
			removeDirectives(item)
		}
	}
}

// checkFields compares a JSON document with the type of schema.
func checkFields(data []byte, schema any) error {
	misfits, err := strict.Compare(data, reflect.TypeOf(schema))
	if err != nil {
		return err
	}
	all := misfits.Wrong
	for _, field := range misfits.Ignored {
		all = append(all, field.Fault())
	}
	if len(all) > 0 {
		return errors.New(strings.Join(all, "; "))
	}
	return nil
}

// checkPatched returns an error if a patch turned a JSON document into another object, or into one
// that cannot work. A fault that was there before the patch is not an error.
func checkPatched(before, after []byte, schema any) error {
	if err := checkFields(after, schema); err != nil {
		return err
	}
	var was, is metav1.PartialObjectMetadata
	if err := errors.Join(json.Unmarshal(before, &was), json.Unmarshal(after, &is)); err != nil {
		return err
	}
	for _, field := range []struct{ name, was, is string }{
		{"kind", was.Kind, is.Kind},
		{"apiVersion", was.APIVersion, is.APIVersion},
		{"metadata.name", was.Name, is.Name},
		{"metadata.namespace", was.Namespace, is.Namespace},
	} {
		if field.was != field.is {
			return fmt.Errorf("it changes %s from %q to %q, which is not allowed", field.name,
				field.was, field.is)
		}
	}
	if err := checkWorkload(after, schema); err != nil {
		if old := checkWorkload(before, schema); old == nil || old.Error() != err.Error() {
			return err
		}
	}
	if _, ok := schema.(corev1.Pod); ok {
		return checkRequired(before, after)
	}
	return nil
}

// checkWorkload checks a static Pod, or the Pod template of a Deployment or DaemonSet. Documents of
// other types are not checked.
func checkWorkload(data []byte, schema any) error {
	switch schema.(type) {
	case corev1.Pod:
		var pod corev1.Pod
		if err := json.Unmarshal(data, &pod); err != nil {
			return err
		}
		if _, err := ComponentContainer(&pod, pod.Name); err != nil {
			return fmt.Errorf("it removes the component's container %q from spec.containers",
				pod.Name)
		}
		return checkPodSpec("spec", &pod.Spec)
	case appsv1.Deployment, appsv1.DaemonSet:
		var w struct { // what both have in common
			Spec struct {
				Selector *metav1.LabelSelector  `json:"selector"`
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(data, &w); err != nil {
			return err
		}
		selector, err := metav1.LabelSelectorAsSelector(w.Spec.Selector)
		if err != nil {
			return fmt.Errorf("spec.selector: %w", err)
		}
		if !selector.Matches(labels.Set(w.Spec.Template.Labels)) {
			return fmt.Errorf("spec.selector (%s) does not match spec.template.metadata.labels: they must have these labels", selector)
		}
		if len(w.Spec.Template.Spec.Containers) == 0 {
			return errors.New("it removes all of spec.template.spec.containers")
		}
		return checkPodSpec("spec.template.spec", &w.Spec.Template.Spec)
	}
	return nil
}

// checkPodSpec finds faults in containers and volumes for which the API server or the kubelet
// rejects a Pod.
func checkPodSpec(path string, spec *corev1.PodSpec) error {
	volumes, names := map[string]bool{}, map[string]bool{}
	for _, v := range spec.Volumes {
		if volumes[v.Name] {
			return fmt.Errorf("%s.volumes has two volumes named %q", path, v.Name)
		}
		volumes[v.Name] = true
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		switch {
		case c.Name == "":
			return fmt.Errorf("%s has a container without a name", path)
		case names[c.Name]:
			return fmt.Errorf("%s has two containers named %q", path, c.Name)
		case c.Image == "":
			return fmt.Errorf("%s has the container %q without an image", path, c.Name)
		}
		names[c.Name] = true
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				return fmt.Errorf("%s: the container %q mounts the volume %q, which is not in %s.volumes", path, c.Name, m.Name, path)
			}
		}
	}
	return nil
}
