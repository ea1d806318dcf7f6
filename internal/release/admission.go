package release

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/strict"
)

// admissionPlugin is an admission plugin of the API server with the minor versions that have it. A zero
// means that the range has no limit.
type admissionPlugin struct {
	name        string
	since, gone uint
}

// admissionPlugins lists those of the supported releases, as "kube-apiserver --help" does, and those
// removed before that configurations still have.
func admissionPlugins() (all []admissionPlugin) {
	for name := range strings.FieldsSeq(`AlwaysAdmit AlwaysDeny AlwaysPullImages CertificateApproval
		CertificateSigning CertificateSubjectRestriction ClusterTrustBundleAttest DefaultIngressClass
		DefaultStorageClass DefaultTolerationSeconds DenyServiceExternalIPs EventRateLimit
		ExtendedResourceToleration ImagePolicyWebhook LimitPodHardAntiAffinityTopology LimitRanger
		MutatingAdmissionPolicy MutatingAdmissionWebhook NamespaceAutoProvision NamespaceExists
		NamespaceLifecycle NodeRestriction OwnerReferencesPermissionEnforcement
		PersistentVolumeClaimResize PodNodeSelector PodSecurity PodTolerationRestriction
		PodTopologyLabels Priority ResourceQuota RuntimeClass ServiceAccount
		StorageObjectInUseProtection TaintNodesByCondition ValidatingAdmissionPolicy
		ValidatingAdmissionWebhook`) {
		all = append(all, admissionPlugin{name: name})
	}
	return append(all,
		admissionPlugin{"NodeDeclaredFeatureValidator", 35, 0},
		admissionPlugin{"PodGroupProtection", 36, 0}, admissionPlugin{"PodResizeValidator", 36, 0},
		admissionPlugin{"JobValidation", 36, 37}, admissionPlugin{"PodGroupWorkloadExists", 36, 37},
		admissionPlugin{"PodSecurityPolicy", 0, 25}, admissionPlugin{"SecurityContextDeny", 0, 30})
}

// checkAdmissionPlugins returns what is wrong with the names in a list of admission plugins. An API
// server with an unknown one does not start.
func checkAdmissionPlugins(v *version.Version, list string) *ArgProblem {
	plugins, own := admissionPlugins(), v.Minor()
	var known []string
	for _, p := range plugins {
		if own >= p.since && (p.gone == 0 || own < p.gone) {
			known = append(known, p.name)
		}
	}
	for name := range strings.SplitSeq(list, ",") {
		if name == "" || slices.Contains(known, name) {
			continue
		}
		i := slices.IndexFunc(plugins, func(p admissionPlugin) bool { return p.name == name })
		switch {
		case i < 0:
		case own < plugins[i].since:
			return newArgError("remove it", "%s %s has no admission plugin %s (added in %d.%d) and does not start "+
				"with it", APIServer, v, name, major, plugins[i].since)
		default:
			return newArgError("remove it", "%s %s has no admission plugin %s (removed in %d.%d) and does not "+
				"start with it", APIServer, v, name, major, plugins[i].gone)
		}
		remedy := "remove it"
		if near := strict.Nearest(name, known); near != "" {
			remedy = "did you mean " + near + "?"
		}
		return newArgError(remedy, "%s %s has no admission plugin %q and does not start with it", APIServer,
			v, name)
	}
	return nil
}
