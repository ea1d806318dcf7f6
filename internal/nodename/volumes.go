package nodename

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// localVolumes is the name of the check for volumes that only Pods on a Node of the previous name can use.
const localVolumes = "LocalVolumes"

// checkVolumes is an error if volumes are bound to the previous name.
func (w *RenameWanted) checkVolumes(ctx context.Context, e *engine.Env, n corev1.Node) error {
	values, err := listBoundValues(ctx, e, w.As, n)
	if err != nil {
		return err
	}
	all, err := e.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("PersistentVolume"), As: w.As,
		Fields: []string{"metadata", "spec.nodeAffinity", "spec.claimRef"}})
	if err != nil {
		return fmt.Errorf("looking for volumes that are bound to this node: %w", err)
	}
	var bound []string
	for _, u := range all {
		var v corev1.PersistentVolume
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &v) != nil || !isBoundTo(v, values) {
			continue
		}
		text := untrusted.Line(v.Name)
		if claim := v.Spec.ClaimRef; claim != nil {
			text += " (of PersistentVolumeClaim " + untrusted.Line(claim.Namespace+"/"+claim.Name) + ")"
		}
		bound = append(bound, text)
	}
	if len(bound) == 0 {
		return nil
	}
	slices.Sort(bound)
	list := strings.Join(bound, ", ")
	if e.Local.IgnoredChecks.Has(localVolumes) {
		e.Warn("these volumes are bound to the previous name, so no Pod can use them until they are created again: %s", list)
		return nil
	}
	return problem.New(fmt.Errorf("these volumes are bound to the name %s, which cannot be changed: %s", untrusted.Line(n.Name), list),
		"let the Node keep its name, however the host is named: kubeadm node-name keep",
		"or save their data, and create them again for the new name; to go on all the same, add --ignore-preflight-errors="+localVolumes)
}

// isBoundTo reports whether only Pods on a Node can use a volume: its affinity requires one of the values.
func isBoundTo(v corev1.PersistentVolume, values []string) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return false
	}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			if r.Operator == corev1.NodeSelectorOpIn && slices.ContainsFunc(r.Values, func(value string) bool {
				return slices.Contains(values, value)
			}) {
				return true
			}
		}
	}
	return false
}

// listBoundValues lists what a volume on a Node may require of it, whatever the label: its name, that of the host, and what
// CSI drivers have made of those, such as "zone1/cp1".
func listBoundValues(ctx context.Context, e *engine.Env, as state.Identity, n corev1.Node) ([]string, error) {
	host := cmp.Or(n.Labels[corev1.LabelHostname], n.Name)
	values := []string{n.Name, host}
	keys, err := ListTopologyKeys(ctx, e.Reader(), as, n.Name)
	if err != nil {
		return nil, err
	}
	named := regexp.MustCompile(`(^|[^a-z0-9])(` + regexp.QuoteMeta(n.Name) + "|" + regexp.QuoteMeta(host) + `)($|[^a-z0-9])`)
	for _, key := range keys {
		isOfPlace := key == corev1.LabelTopologyZone || key == corev1.LabelTopologyRegion
		if value := n.Labels[key]; !isOfPlace && named.MatchString(strings.ToLower(value)) {
			values = append(values, value)
		}
	}
	return values, nil
}

// ListTopologyKeys lists the labels of a Node that CSI drivers set through its kubelet. A driver is not registered on a Node
// whose label has another value (https://github.com/kubernetes/enhancements/issues/557).
func ListTopologyKeys(ctx context.Context, r state.Reader, as state.Identity, name string) (keys []string, err error) {
	u, err := r.Object(ctx, state.Ref{GVK: storagev1.SchemeGroupVersion.WithKind("CSINode"), Name: name, As: as})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CSINode %s: %w", untrusted.Line(name), err)
	}
	var n storagev1.CSINode
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return nil, untrusted.Error(err)
	}
	for _, driver := range n.Spec.Drivers {
		keys = append(keys, driver.TopologyKeys...)
	}
	return keys, nil
}
