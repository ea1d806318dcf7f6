package addon

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// The Pods of the latest template of a DaemonSet have the label of the ControllerRevision with the highest number, those of
// a Deployment the label of the ReplicaSet that it names. Until the controller has seen the template, none are known.
func TestFindRevision(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	meta := func(name string, owner metav1.ObjectMeta, labels, annotations map[string]string) metav1.ObjectMeta {
		labels["k8s-app"] = "any"
		return metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{UID: owner.UID}}}
	}
	kind := func(name string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "apps/v1", Kind: name} }
	set := &appsv1.DaemonSet{TypeMeta: kind("DaemonSet"), ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "set", UID: "1", Generation: 3},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 3}}
	deployment := &appsv1.Deployment{TypeMeta: kind("Deployment"), ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "deployment",
		UID: "2", Generation: 3, Annotations: map[string]string{deploymentRevision: "9"}}, Status: appsv1.DeploymentStatus{ObservedGeneration: 3}}
	unseen := set.DeepCopy()
	unseen.Name, unseen.Status.ObservedGeneration = "unseen", 2
	other := metav1.ObjectMeta{UID: "3"}
	objects := []state.Object{set, deployment, unseen}
	for number, name := range map[int64]string{9: "old", 10: "new"} {
		objects = append(objects, &appsv1.ControllerRevision{TypeMeta: kind("ControllerRevision"), Revision: number,
			ObjectMeta: meta("set-"+name, set.ObjectMeta, map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: name}, nil)})
	}
	for number, name := range map[string]string{"9": "again", "8": "older"} {
		objects = append(objects, &appsv1.ReplicaSet{TypeMeta: kind("ReplicaSet"), ObjectMeta: meta("deployment-"+name, deployment.ObjectMeta,
			map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: name}, map[string]string{deploymentRevision: number})})
	}
	objects = append(objects, &appsv1.ControllerRevision{TypeMeta: kind("ControllerRevision"), Revision: 11,
		ObjectMeta: meta("other", other, map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: "other"}, nil)})
	for _, o := range objects {
		if err := w.PutObject(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ kind, name, want string }{
		{"DaemonSet", "set", "controller-revision-hash=new"},
		{"Deployment", "deployment", "pod-template-hash=again"},
	} {
		got, err := findRevision(t.Context(), w, addons{}.refOf(addon{kind: c.kind, name: c.name}), "k8s-app=any")
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v", c.kind, c.name, got, err)
		}
	}
	got, err := findRevision(t.Context(), w, addons{}.refOf(addon{kind: "DaemonSet", name: "unseen"}), "k8s-app=any")
	if err == nil || !strings.Contains(err.Error(), "has not seen the change") {
		t.Errorf("a change that the controller has not seen: %q, %v", got, err)
	}
}
