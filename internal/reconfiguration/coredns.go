package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// CorefileAnnotation is the annotation of the Pods of CoreDNS with the digest of the Corefile for which they were replaced.
const CorefileAnnotation = "kubeadm.kubernetes.io/corefile"

// DNSSettings are settings of CoreDNS that no document of the configuration has, but only its own ConfigMap and Deployment.
// One that is nil is not concerned.
type DNSSettings struct {
	Corefile *Corefile `json:"corefile,omitempty"`
	Replicas *int32    `json:"replicas,omitempty"`
}

// Corefile is the configuration of CoreDNS.
type Corefile struct {
	Text string `json:"text"`
	// Pods is the CorefileAnnotation of the Pods that run with it; empty if they have none.
	Pods string `json:"pods,omitempty"`
}

// NewCorefile is a Corefile for which the Pods of CoreDNS are replaced.
func NewCorefile(text string) *Corefile { return &Corefile{text, corefileDigest(text)} }

func corefileDigest(text string) string { return digest(text)[:16] }

// DNSChange is a change of these settings: each is in Before and After, or in neither. docs/decisions/0088 has the reasons.
type DNSChange struct {
	Before DNSSettings `json:"before"`
	After  DNSSettings `json:"after"`

	present DNSSettings // what CoreDNS had when this command began
}

// dnsSetting is one of the settings.
type dnsSetting struct {
	name  string
	value func(DNSSettings) (text string, isSet bool)
	copy  func(into *DNSSettings, from DNSSettings)
}

func dnsSettings() []dnsSetting {
	return []dnsSetting{
		{"Corefile", func(s DNSSettings) (string, bool) {
			if s.Corefile == nil {
				return "", false
			}
			return s.Corefile.Text, true
		}, func(into *DNSSettings, from DNSSettings) { into.Corefile = from.Corefile }},
		{"replicas", func(s DNSSettings) (string, bool) {
			if s.Replicas == nil {
				return "", false
			}
			return strconv.Itoa(int(*s.Replicas)), true
		}, func(into *DNSSettings, from DNSSettings) { into.Replicas = from.Replicas }},
	}
}

func (s dnsSetting) isIn(settings DNSSettings) bool {
	_, isSet := s.value(settings)
	return isSet
}

func (s dnsSetting) isSame(a, b DNSSettings) bool {
	x, inA := s.value(a)
	y, inB := s.value(b)
	return x == y && inA == inB
}

// newDNSChange is the change to the settings that the user wants, from those before changes that were begun and not
// completed, the last one first; nil if there is nothing to change. Settings that only those changes concern return to what
// they were, unless they have been changed in another way since.
func newDNSChange(now, wanted DNSSettings, begun []*DNSChange) (c *DNSChange) {
	for _, s := range dnsSettings() {
		before, after := now, wanted
		wasBegun, isOwn := false, false
		for _, b := range begun {
			if !s.isIn(b.Before) {
				continue
			}
			if wasBegun, isOwn = true, isOwn || s.isSame(now, b.Before) || s.isSame(now, b.After); isOwn {
				before = b.Before
			}
		}
		if !s.isIn(wanted) {
			after = before
		}
		if !wasBegun && s.isSame(before, after) {
			continue
		}
		if c == nil {
			c = &DNSChange{}
		}
		s.copy(&c.Before, before)
		s.copy(&c.After, after)
	}
	return c
}

// listForeign names the settings that CoreDNS has neither from this change nor from those that were begun.
func (c *DNSChange) listForeign(now DNSSettings, begun []*DNSChange) (names []string) {
	for _, s := range dnsSettings() {
		isOwn := !s.isIn(c.After) || s.isSame(now, c.After)
		for _, b := range begun {
			isOwn = isOwn || s.isSame(now, b.Before) || s.isSame(now, b.After)
		}
		if !isOwn {
			names = append(names, s.name)
		}
	}
	return names
}

// begunDNS are the changes of CoreDNS that the cluster has not stored: the last one first.
func (s *State) begunDNS() (all []*DNSChange) {
	for ; s != nil && s.Stored == nil; s = s.Earlier {
		if s.DNS != nil {
			all = append(all, s.DNS)
		}
	}
	return all
}

// hasDNSOf reports whether a change that was found concerns CoreDNS as this one does. One that the cluster has stored is
// done.
func (s *State) hasDNSOf(found *State) bool {
	if s.DNS == nil || found.DNS == nil || found.Stored != nil {
		return s.DNS == nil && (found.DNS == nil || found.Stored != nil)
	}
	for _, setting := range dnsSettings() {
		if !setting.isSame(s.DNS.Before, found.DNS.Before) || !setting.isSame(s.DNS.After, found.DNS.After) {
			return false
		}
	}
	return true
}

// addDNS adds to a change what it means for CoreDNS: to one that begins, the settings that the user wants; to one that takes
// the latest change back, those from before.
func (f finder) addDNS(ctx context.Context, c, found *State) error {
	isUndo, begun := c.Undoes != "", found.begunDNS()
	switch {
	case c == found && (c.DNS == nil || c.Stored != nil), // nothing is to be done
		c != found && isUndo && (c.Undoes != found.id() || found.DNS == nil),
		c != found && !isUndo && f.dns == DNSSettings{} && len(begun) == 0:
		return nil
	}
	now, deployment, err := f.readDNS(ctx)
	if apierrors.IsNotFound(err) && f.dns == (DNSSettings{}) {
		f.e.Warn("the settings of CoreDNS are not changed: %v", err)
		c.DNS = nil
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case c == found:
		if foreign := c.DNS.listForeign(now, begun); isUndo && len(foreign) > 0 {
			return explainForeignDNS(foreign)
		}
		c.DNS.present = now
		return nil
	case isUndo:
		if c.DNS, err = f.undoDNS(now, found); err != nil {
			return err
		}
	default:
		if err := f.checkDNS(now, deployment); err != nil {
			return err
		}
		c.DNS = newDNSChange(now, f.dns, begun)
	}
	if c.DNS == nil {
		return nil
	}
	c.DNS.present = now
	// Pods that have the annotation already may run with what another client, or a killed run, has written since. Those from
	// before a change that is not complete may have read its Corefile, after a while, and need another while to read the
	// previous one.
	const untilRead = 30 * time.Second // at least
	mayHaveRead := isUndo && found.Stored == nil && f.e.World.Now().Sub(found.Started.Time) > untilRead
	if after := c.DNS.After.Corefile; after != nil && after.Text != now.Corefile.Text && (after.Pods == now.Corefile.Pods ||
		mayHaveRead) {
		c.DNS.After.Corefile = &Corefile{after.Text, corefileDigest(after.Text + now.Corefile.Text)}
	}
	text, err := yaml.Marshal(c.DNS)
	c.ID = digest(c.ID + string(text))[:len(c.ID)] // two changes that only differ in this are not the same
	return err
}

// undoDNS returns the change that takes back that of CoreDNS. It is an error if CoreDNS has been changed in another way
// since; but if the change is not complete, what was changed in another way stays, and the rest is taken back.
func (f finder) undoDNS(now DNSSettings, found *State) (*DNSChange, error) {
	foreign := found.DNS.listForeign(now, found.begunDNS())
	if len(foreign) > 0 && found.Stored != nil {
		return nil, explainForeignDNS(foreign)
	}
	undo := &DNSChange{Before: found.DNS.After, After: found.DNS.Before}
	for _, s := range dnsSettings() {
		if slices.Contains(foreign, s.name) {
			f.e.Warn("CoreDNS keeps what it has: %s was changed in another way meanwhile", s.name)
			s.copy(&undo.Before, DNSSettings{})
			s.copy(&undo.After, DNSSettings{})
		}
	}
	if undo.After == (DNSSettings{}) {
		return nil, nil
	}
	return undo, nil
}

func explainForeignDNS(settings []string) error {
	return problem.New(fmt.Errorf("CoreDNS has been changed in another way since: %s", strings.Join(settings, ", ")),
		"to change it: kubeadm reconfigure apply with --corefile or --coredns-replicas")
}

func (s *State) id() string {
	if s == nil {
		return ""
	}
	return s.ID
}

// checkDNS is an error if CoreDNS cannot run with the Corefile that the user wants.
func (f finder) checkDNS(now DNSSettings, deployment *appsv1.Deployment) error {
	wanted := f.dns.Corefile
	if wanted == nil || wanted.Text == now.Corefile.Text {
		return nil
	}
	if err := manifest.CheckCorefile(wanted.Text, deployment); err != nil {
		return problem.New(fmt.Errorf("the Corefile is not valid: %w", err), "correct the file that --corefile names")
	}
	if size := len(now.Corefile.Text); size > manifest.MaxCorefile {
		return fmt.Errorf("the Corefile of the cluster has %d bytes, and only one of at most %d can be restored: change it by kubectl",
			size, manifest.MaxCorefile)
	}
	if isReplacedAtOnce(deployment.Spec.Strategy, int(*now.Replicas)) {
		f.e.Warn("all Pods of CoreDNS are replaced at the same time, and names are not resolved meanwhile: it has %d replicas",
			*now.Replicas)
	}
	return nil
}

// isReplacedAtOnce reports whether a roll-out may leave a Deployment without an available Pod.
func isReplacedAtOnce(s appsv1.DeploymentStrategy, replicas int) bool {
	if s.Type == appsv1.RecreateDeploymentStrategyType || s.RollingUpdate == nil {
		return s.Type == appsv1.RecreateDeploymentStrategyType
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(s.RollingUpdate.MaxUnavailable, intstr.FromString("25%")),
		replicas, false)
	return err == nil && most >= replicas
}

// readDNS returns the settings and the Deployment of CoreDNS.
func (f finder) readDNS(ctx context.Context) (now DNSSettings, deployment *appsv1.Deployment, err error) {
	deployment = &appsv1.Deployment{}
	data := &corev1.ConfigMap{}
	refs := []state.Ref{dnsRef("v1", "ConfigMap", f.here.As), dnsRef("apps/v1", "Deployment", f.here.As)}
	for i, into := range []any{data, deployment} {
		u, err := f.e.Object(ctx, refs[i])
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
		}
		if err != nil {
			return now, nil, problem.New(fmt.Errorf("reading %s: %w", refs[i], err), "if CoreDNS is not deployed: "+
				"kubeadm init phase addon coredns")
		}
	}
	text, found := data.Data[manifest.CorefileKey]
	if !found {
		return now, nil, problem.New(fmt.Errorf("%s has no key %s", refs[0], manifest.CorefileKey), "add the key")
	}
	now.Corefile = &Corefile{text, deployment.Spec.Template.Annotations[CorefileAnnotation]}
	if now.Replicas = deployment.Spec.Replicas; now.Replicas == nil {
		now.Replicas = new(int32(1)) // the API server's default
	}
	return now, deployment, nil
}

func dnsRef(version, kind string, as state.Identity) state.Ref {
	return state.Ref{GVK: schema.FromAPIVersionAndKind(version, kind), Namespace: metav1.NamespaceSystem, Name: "coredns", As: as}
}

// Fields are the settings that the change gives CoreDNS. A Corefile may have many lines, so its digest stands for it.
func (c *DNSChange) Fields() (all []config.FieldChange) {
	if c == nil || c.present.Corefile == nil { // this command does not change it
		return nil
	}
	show := func(s dnsSetting, in DNSSettings) string {
		text, _ := s.value(in)
		if in.Corefile != nil && text == in.Corefile.Text {
			return fmt.Sprintf("%d lines, SHA-256 %s", strings.Count(text, "\n"), corefileDigest(text))
		}
		return text
	}
	for _, s := range dnsSettings() {
		if s.isIn(c.After) && !s.isSame(c.present, c.After) {
			all = append(all, config.FieldChange{Kind: "CoreDNS", Field: s.name, Before: show(s, c.present), After: show(s, c.After)})
		}
	}
	return all
}

// names are those of the settings that this command changes, also if a killed run has changed them before.
func (c *DNSChange) names() (all []string) {
	if c == nil || c.present.Corefile == nil {
		return nil
	}
	for _, s := range dnsSettings() {
		if s.isIn(c.After) && !s.isSame(c.Before, c.After) {
			all = append(all, "CoreDNS "+s.name)
		}
	}
	return all
}

// CorefileChange returns the change that writes the Corefile; nil if that stays. It is an error if another client has
// changed the Corefile since this command began.
func (c *DNSChange) CorefileChange(as state.Identity) change.Change {
	after := c.After.Corefile
	if after == nil {
		return nil
	}
	object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns"}}
	return change.MutateObject{Object: object, As: as, MustExist: true, Mutate: func(u *unstructured.Unstructured) error {
		text, _, _ := unstructured.NestedString(u.Object, "data", manifest.CorefileKey)
		if text != after.Text && c.present.Corefile != nil && text != c.present.Corefile.Text {
			return problem.New(errors.New("the Corefile was changed meanwhile, and is not overwritten"),
				"look at it: kubectl get configmap coredns --namespace kube-system --output yaml", "then run this command again")
		}
		return unstructured.SetNestedField(u.Object, after.Text, "data", manifest.CorefileKey)
	}}
}

// DeploymentChange returns the change that sets the replicas, and that replaces the Pods for another Corefile.
func (c *DNSChange) DeploymentChange(as state.Identity) change.Change {
	object := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns"}}
	return change.MutateObject{Object: object, As: as, MustExist: true, Mutate: func(u *unstructured.Unstructured) (err error) {
		if n := c.After.Replicas; n != nil {
			if err := unstructured.SetNestedField(u.Object, int64(*n), "spec", "replicas"); err != nil {
				return err
			}
		}
		at := []string{"spec", "template", "metadata", "annotations", CorefileAnnotation}
		switch file := c.After.Corefile; {
		case file == nil:
		case file.Pods == "":
			unstructured.RemoveNestedField(u.Object, at...)
			if rest, _, _ := unstructured.NestedMap(u.Object, at[:len(at)-1]...); len(rest) == 0 {
				unstructured.RemoveNestedField(u.Object, at[:len(at)-1]...)
			}
		default:
			err = unstructured.SetNestedField(u.Object, file.Pods, at...)
		}
		return err
	}}
}
