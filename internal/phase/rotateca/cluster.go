package rotateca

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/config/v1beta3"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

var (
	configMapKind  = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secretKind     = corev1.SchemeGroupVersion.WithKind("Secret")
	podKind        = corev1.SchemeGroupVersion.WithKind("Pod")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	daemonSetKind  = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
)

const (
	rootCAConfigMap = "kube-root-ca.crt"
	// controllerTimeout is how long a stage waits for the controllers of the cluster.
	controllerTimeout = 2 * time.Minute
)

// mutate changes an object that exists. It does nothing if there is none.
func (m machine) mutate(ctx context.Context, kind schema.GroupVersionKind, namespace, name string,
	edit func(u *unstructured.Unstructured) error) error {
	ref := state.Ref{GVK: kind, Namespace: namespace, Name: name, As: m.as}
	_, err := m.e.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return m.e.Do(ctx, change.MutateObject{Object: object, As: m.as, Mutate: edit})
}

// deleteUploaded deletes what was uploaded for joining control plane nodes: the certificates have only one CA, and the files
// that the same certificate key decrypts may contain it.
func (m machine) deleteUploaded(ctx context.Context) error {
	said := false
	for _, name := range []string{manifest.CertsSecret, manifest.FilesSecret} {
		uploaded := state.Ref{GVK: secretKind, Namespace: metav1.NamespaceSystem, Name: name, As: m.as}
		switch _, err := m.e.Object(ctx, uploaded); {
		case err == nil && !said:
			said = true
			m.e.Say("deleting the uploaded certificates, because they do not include a CA, and the files that were uploaded with " +
				"them; before a control plane node joins, upload them again: kubeadm token create --print-join-command --upload-certs")
		case err != nil && !apierrors.IsNotFound(err):
			return err
		}
		if err := m.e.Do(ctx, change.DeleteObject{Ref: uploaded}); err != nil {
			return err
		}
	}
	return nil
}

// updateCluster updates what the cluster tells to joining nodes: the CAs to trust, and the arguments
// of kube-controller-manager.
func (m machine) updateCluster(ctx context.Context, s rotation.Stage) error {
	if err := m.deleteUploaded(ctx); err != nil {
		return err
	}
	if !m.Replaces(rotation.ClusterAuthority) {
		return nil
	}
	if err := m.mutate(ctx, configMapKind, metav1.NamespacePublic,
		bootstrapapi.ConfigMapClusterInfo, func(u *unstructured.Unstructured) error {
			return m.editClusterInfo(u, s)
		}); err != nil {
		return err
	}
	if s.IsLast() {
		return nil // other control plane nodes may still need the arguments
	}
	return m.writeSigningArgs(ctx, true)
}

func (m machine) editClusterInfo(u *unstructured.Unstructured, s rotation.Stage) error {
	text, _, _ := unstructured.NestedString(u.Object, "data", bootstrapapi.KubeConfigKey)
	config, err := pki.ParseKubeconfig([]byte(text))
	if err != nil {
		return fmt.Errorf("reading ConfigMap cluster-info: %w", err)
	}
	changed, err := config.ReplaceCA(m.bothCAs(), m.trusted(s, rotation.ClusterAuthority))
	if err != nil || !changed {
		return err
	}
	data, err := config.Encode()
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(u.Object, string(data), "data",
		bootstrapapi.KubeConfigKey)
}

// writeSigningArgs adds the arguments of kube-controller-manager during a rotation to the stored
// configuration, so that joins and upgrades use them, or removes them.
func (m machine) writeSigningArgs(ctx context.Context, isRotating bool) error {
	return m.mutate(ctx, configMapKind, metav1.NamespaceSystem, manifest.KubeadmConfigMap,
		func(u *unstructured.Unstructured) error {
			text, _, _ := unstructured.NestedString(u.Object, "data", manifest.KubeadmConfigKey)
			edited, err := m.editSigningArgs(text, isRotating)
			if err != nil {
				return fmt.Errorf("reading ConfigMap %s: %w", manifest.KubeadmConfigMap, err)
			}
			return unstructured.SetNestedField(u.Object, edited, "data", manifest.KubeadmConfigKey)
		})
}

func (m machine) editSigningArgs(text string, isRotating bool) (string, error) {
	var document map[string]any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return "", err
	}
	if document == nil {
		return "", errors.New("it is empty")
	}
	manager, _, err := unstructured.NestedMap(document, "controllerManager")
	if err != nil {
		return "", err
	}
	if manager == nil {
		manager = map[string]any{}
	}
	edit := m.editArgList
	if document["apiVersion"] == v1beta3.APIVersion {
		edit = m.editArgMap
	}
	if err := edit(manager, isRotating); err != nil {
		return "", err
	}
	document["controllerManager"] = manager
	edited, err := yaml.Marshal(document)
	return string(edited), err
}

// editArgList edits extraArgs as the current version of the configuration has them.
func (m machine) editArgList(manager map[string]any, isRotating bool) error {
	args, _, err := unstructured.NestedSlice(manager, "extraArgs")
	if err != nil {
		return err
	}
	var wanted []any
	for _, arg := range args {
		fields, _ := arg.(map[string]any)
		if !slices.ContainsFunc(signingArgs(m.node.Paths),
			func(s signingArg) bool { return s.name == fields["name"] && s.rotating == fields["value"] }) {
			wanted = append(wanted, arg)
		}
	}
	if isRotating {
		for _, s := range signingArgs(m.node.Paths) {
			wanted = append(wanted, map[string]any{"name": s.name, "value": s.rotating})
		}
	}
	manager["extraArgs"] = wanted
	if len(wanted) == 0 {
		delete(manager, "extraArgs")
	}
	return nil
}

// editArgMap edits extraArgs as v1beta3 has them.
func (m machine) editArgMap(manager map[string]any, isRotating bool) error {
	args, _, err := unstructured.NestedStringMap(manager, "extraArgs")
	if err != nil {
		return err
	}
	if args == nil {
		args = map[string]string{}
	}
	for _, s := range signingArgs(m.node.Paths) {
		if isRotating {
			args[s.name] = s.rotating
		} else if args[s.name] == s.rotating {
			delete(args, s.name)
		}
	}
	manager["extraArgs"] = args
	if len(args) == 0 {
		delete(manager, "extraArgs")
	}
	return nil
}

// awaitRootCAs waits until every namespace offers both CAs to its Pods, and returns since when, by
// namespace. A dry run waits too if an earlier run has begun to publish them.
func (m machine) awaitRootCAs(ctx context.Context, isPublished bool) (map[string]time.Time, error) {
	since := map[string]time.Time{}
	err := m.e.Await(ctx, world.Condition{
		Name:    "kube-controller-manager to write both CAs to the ConfigMaps " + rootCAConfigMap,
		Timeout: controllerTimeout, MaxPause: world.LongPause, External: isPublished,
		Check: func(ctx context.Context, r state.Reader) error {
			list, err := r.List(ctx, state.Query{GVK: configMapKind, As: m.as,
				FieldSelector: "metadata.name=" + rootCAConfigMap})
			if err != nil {
				return err
			}
			var missing []string
			for _, u := range list {
				text, _, _ := unstructured.NestedString(u.Object, "data", "ca.crt")
				if !hasAll([]byte(text), m.bothCAs()) {
					missing = append(missing, u.GetNamespace())
				}
				since[u.GetNamespace()] = writtenAt(u)
			}
			if len(missing) > 0 {
				return fmt.Errorf("one CA is missing in these namespaces: %s",
					strings.Join(missing, ", "))
			}
			return nil
		},
	})
	if err != nil {
		return nil, problem.New(err,
			"check kube-controller-manager on each control plane node, and its --root-ca-file")
	}
	return since, nil
}

// hasAll reports whether a bundle has all certificates of another one.
func hasAll(bundle, wanted []byte) bool {
	have, err := pki.ParseCertificates(bundle)
	if err != nil {
		return false
	}
	want, err := pki.ParseCertificates(wanted)
	if err != nil {
		return false
	}
	for _, c := range want {
		if !slices.ContainsFunc(have, c.Equal) {
			return false
		}
	}
	return true
}

// writtenAt is when the object was last written, according to its managed fields; zero if that is
// not known.
func writtenAt(u unstructured.Unstructured) (latest time.Time) {
	for _, f := range u.GetManagedFields() {
		if f.Time != nil && f.Time.After(latest) {
			latest = f.Time.Time
		}
	}
	return latest
}

// restartAddons restarts kube-proxy and CoreDNS, which read the CA when they start, and waits for
// their new Pods.
func (m machine) restartAddons(ctx context.Context) error {
	for _, addon := range []struct {
		kind schema.GroupVersionKind
		name string
	}{{daemonSetKind, "kube-proxy"}, {deploymentKind, "coredns"}} {
		ref := state.Ref{GVK: addon.kind, Namespace: metav1.NamespaceSystem, Name: addon.name,
			As: m.as}
		err := m.mutate(ctx, ref.GVK, ref.Namespace, ref.Name,
			func(u *unstructured.Unstructured) error {
				return unstructured.SetNestedField(u.Object, m.ID, "spec", "template", "metadata",
					"annotations", rotation.NodeAnnotation)
			})
		if err != nil {
			return err
		}
		if err = m.e.Await(ctx, health.Rollout(ref, m.node.Timeouts.Upgrade)); err != nil {
			return err
		}
	}
	return nil
}

// forgetOldCAs removes the CAs that are not trusted any more from the ConfigMap by which extension
// API servers authenticate clients: kube-apiserver only adds to it.
func (m machine) forgetOldCAs(ctx context.Context, s rotation.Stage) error {
	return m.mutate(ctx, configMapKind, metav1.NamespaceSystem,
		"extension-apiserver-authentication", func(u *unstructured.Unstructured) error {
			for key, name := range map[string]string{"client-ca-file": rotation.ClusterAuthority,
				"requestheader-client-ca-file": rotation.FrontProxyAuthority} {
				text, _, _ := unstructured.NestedString(u.Object, "data", key)
				if !m.Replaces(name) || !hasAll([]byte(text), []byte(m.other(s)[name])) {
					continue
				}
				left, err := pki.WithoutCertificates([]byte(text), []byte(m.other(s)[name]))
				if err != nil {
					return err
				}
				if err := unstructured.SetNestedField(u.Object, string(left), "data",
					key); err != nil {
					return err
				}
			}
			return nil
		})
}
