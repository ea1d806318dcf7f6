package rotateca

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// listPods returns the names of the running Pods with a service account token that are old.
func (m machine) listPods(ctx context.Context,
	isOld func(pod *corev1.Pod) bool) (old []string, err error) {
	var odd error
	_, err = m.e.List(ctx, state.Query{GVK: podKind, As: m.as,
		Fields: []string{"spec.volumes", "status.phase", "status.startTime"},
		Keep: func(u *unstructured.Unstructured) bool {
			var pod corev1.Pod
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
				odd = fmt.Errorf("reading a Pod: %w", err)
				return false
			}
			mayRun := pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed &&
				pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodPending
			if mayRun && refreshTime(&pod) > 0 && isOld(&pod) {
				old = append(old, pod.Namespace+"/"+pod.Name)
			}
			return false
		}})
	if err = cmp.Or(err, odd); err != nil {
		return nil, err
	}
	slices.Sort(old)
	return old, nil
}

// wasStartedAfter reports whether a Pod was started after a time; false if either is not known.
func wasStartedAfter(pod *corev1.Pod, t time.Time) bool {
	return pod.Status.StartTime != nil && !t.IsZero() && pod.Status.StartTime.After(t)
}

// newPodsError is the error of Pods that a stage would cut off; nil if there are none.
func newPodsError(names []string, why string, hints ...string) error {
	if len(names) == 0 {
		return nil
	}
	shown := strings.Join(names[:min(len(names), 20)], ", ")
	if more := len(names) - 20; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return problem.New(fmt.Errorf("%d Pods %s: %s", len(names), why, untrusted.Line(shown)),
		append([]string{"restart them with kubectl rollout restart or kubectl delete pod"}, append(hints,
			"to continue anyway, set --ignore-running-pods")...)...)
}

// checkPods returns the error of Pods that do not trust the new CA, as kube-root-ca.crt of their
// namespace had not both when they were started. since is when it was written, by namespace.
func (m machine) checkPods(ctx context.Context, since map[string]time.Time) (found, err error) {
	old, err := m.listPods(ctx, func(pod *corev1.Pod) bool {
		return !isRestarted(pod) && !wasStartedAfter(pod, since[pod.Namespace])
	})
	if err != nil {
		return nil, err
	}
	return newPodsError(old, "were started before they could trust the new CA"), nil
}

// isRestarted reports whether a Pod is of an addon that restartAddons has restarted. In a dry run
// its old Pods are still there.
func isRestarted(pod *corev1.Pod) bool {
	return pod.Namespace == metav1.NamespaceSystem && slices.ContainsFunc(pod.OwnerReferences,
		func(o metav1.OwnerReference) bool {
			return o.Kind == "DaemonSet" && o.Name == "kube-proxy" ||
				o.Kind == "ReplicaSet" && o.Name == "coredns-"+pod.Labels["pod-template-hash"]
		})
}

// refreshTime is how long a Pod uses a service account token at most: the kubelet replaces it after
// 80 % of its validity or a day, and the Pod may have to read the file again. It is 0 for a Pod
// without a token.
func refreshTime(pod *corev1.Pod) time.Duration {
	var longest time.Duration
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case s.ServiceAccountToken == nil:
			case s.ServiceAccountToken.ExpirationSeconds == nil:
				longest = max(longest, time.Hour)
			default:
				most := int64(48 * time.Hour / time.Second) // a longer one makes no difference
				seconds := min(max(*s.ServiceAccountToken.ExpirationSeconds, 1), most)
				longest = max(longest, time.Duration(seconds)*time.Second)
			}
		}
	}
	if longest == 0 {
		return 0
	}
	return min(longest*8/10, 24*time.Hour) + 10*time.Minute
}

// checkTokens returns the errors of tokens that may be in use, and are of the key that is to be
// removed.
func (m machine) checkTokens(ctx context.Context, s rotation.Stage) (found []error, err error) {
	if !m.Replaces(rotation.ServiceAccountAuthority) || m.Switched == nil {
		return nil, nil
	}
	switched, now := m.Switched.Time, m.e.World.Now()
	var left time.Duration
	old, err := m.listPods(ctx, func(pod *corev1.Pod) bool {
		wait := refreshTime(pod) - now.Sub(switched)
		if wait <= 0 || wasStartedAfter(pod, switched) {
			return false
		}
		left = max(left, wait)
		return true
	})
	if err != nil {
		return nil, err
	}
	if err := newPodsError(old, "may be using a token signed with the key that is about to be removed",
		fmt.Sprintf("or wait %s: by then the kubelets will have replaced these tokens",
			left.Round(time.Second))); err != nil {
		found = append(found, err)
	}
	old, err = m.listTokenSecrets(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(old) > 0 {
		found = append(found, problem.New(
			fmt.Errorf("these Secrets contain tokens signed with the key that is about to be removed: %s",
				untrusted.Line(strings.Join(old, ", "))),
			"get a new token for each: kubectl -n NAMESPACE patch secret NAME --type=json "+
				`-p '[{"op": "remove", "path": "/data/token"}]'`,
			"to continue anyway, set --ignore-running-pods"))
	}
	return found, nil
}

// listTokenSecrets returns the names of the Secrets with tokens of the key that is to be removed.
// Such tokens do not expire.
func (m machine) listTokenSecrets(ctx context.Context, s rotation.Stage) (old []string, err error) {
	a, _ := rotation.FindAuthority(rotation.ServiceAccountAuthority)
	key, err := a.ParsePublicKey([]byte(m.other(s)[a.Name]))
	if err != nil {
		return nil, err
	}
	unwanted, err := keyID(key)
	if err != nil {
		return nil, err
	}
	list, err := m.e.List(ctx, state.Query{GVK: secretKind, As: m.as,
		FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, err
	}
	for _, u := range list {
		var secret corev1.Secret
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object,
			&secret); err != nil {
			return nil, fmt.Errorf("reading a Secret: %w", err)
		}
		if secret.Type == corev1.SecretTypeServiceAccountToken &&
			tokenKeyID(secret.Data[corev1.ServiceAccountTokenKey]) == unwanted {
			old = append(old, secret.Namespace+"/"+secret.Name)
		}
	}
	slices.Sort(old)
	return old, nil
}

// tokenKeyID returns the ID of the key that has signed a token; empty if it is none.
func tokenKeyID(token []byte) string {
	head, _, _ := strings.Cut(string(token), ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var header struct {
		KeyID string `json:"kid"`
	}
	if json.Unmarshal(text, &header) != nil {
		return ""
	}
	return header.KeyID
}
