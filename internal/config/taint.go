package config

import (
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
)

// controlPlaneTaints are the taints of a control plane: nil means the default one.
func controlPlaneTaints(wanted []corev1.Taint) []corev1.Taint {
	if wanted != nil {
		return wanted
	}
	return []corev1.Taint{{Key: node.ControlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
}
