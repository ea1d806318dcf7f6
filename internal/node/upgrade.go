package node

// Upgrade is what the user wants of an upgrade. Of Local, the fields Patches, PullPolicy,
// PullSerially, IgnoredChecks, Paths and Timeouts are set.
type Upgrade struct {
	Local
	Version            string // version or label to upgrade to; empty for the version of the cluster
	AllowExperimental  bool   // alpha and beta versions are allowed, and release candidates
	AllowRC            bool   // release candidates are allowed
	CertificateRenewal bool   // renew the certificates of components that are replaced
	EtcdUpgrade        bool   // replace the local etcd member too
	Force              bool   // violated rules of the version skew policy are warnings
	Confirm            bool   // ask for confirmation
	PrintConfig        bool   // show the stored ClusterConfiguration
	FailOnEdits        bool   // static Pod manifests that were edited manually are an error
}
