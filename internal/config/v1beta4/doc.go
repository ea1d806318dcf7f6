// Package v1beta4 holds the configuration API kubeadm.k8s.io/v1beta4: the types, their names in
// YAML and the defaults that do not depend on the machine. It does not validate.
//
// It is the newest version and therefore the canonical form: documents of other versions are
// converted to it when they are read. Fields are sorted by name, as in the output.
package v1beta4

// The API version of every kind in this package.
const (
	Group      = "kubeadm.k8s.io"
	Version    = "v1beta4"
	APIVersion = Group + "/" + Version
)

// The kinds.
const (
	KindInit    = "InitConfiguration"
	KindCluster = "ClusterConfiguration"
	KindJoin    = "JoinConfiguration"
	KindReset   = "ResetConfiguration"
	KindUpgrade = "UpgradeConfiguration"
)
