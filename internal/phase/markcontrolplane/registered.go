package markcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// registered holds once the kubelet has made its Node and labelled it with its host name,
// which comes after all else that a kubelet says of its Node at first.
func registered(mark change.LabelNode, timeout time.Duration) world.Condition {
	return world.Condition{
		Name:    "the kubelet to register node " + mark.Name,
		Timeout: timeout,
		Check: func(ctx context.Context, r change.Reader) error {
			u, err := r.Object(ctx, mark.Ref())
			if err != nil {
				return problem.New("", err, "see what the kubelet says: journalctl -xeu kubelet")
			}
			if _, ok := u.GetLabels()[corev1.LabelHostname]; !ok {
				return fmt.Errorf("it has no label %s yet", corev1.LabelHostname)
			}
			return nil
		},
	}
}
