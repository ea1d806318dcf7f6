// Package v1beta4 holds the configuration API kubeadm.k8s.io/v1beta4 as users
// write it: the types, their spelling in YAML and the defaults that need no look
// at a machine. It checks nothing and resolves nothing.
//
// It is the newest version and with that the canonical form: documents of
// another version are turned into this one when they are read. Fields stand in the
// order of their names, as they do in what is written.
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
