package node

import corev1 "k8s.io/api/core/v1"

// ControlPlaneLabels are the labels of the Node of a control plane.
func ControlPlaneLabels() map[string]string {
	return map[string]string{
		ControlPlaneLabel: "",
		"node.kubernetes.io/exclude-from-external-load-balancers": "",
	}
}

// ControlPlaneTaints are the taints of the Node of a control plane, unless its configuration lists others:
// ordinary Pods are not scheduled on it.
func ControlPlaneTaints() []corev1.Taint {
	return []corev1.Taint{{Key: ControlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
}
