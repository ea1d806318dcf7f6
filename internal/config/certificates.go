package config

import "kubeadm/internal/node"

// Certificates resolves the settings of a control plane's certificates: the cluster, and the
// paths of the machine, which is not read. No other field of the Node is set.
func Certificates(file File, facts Facts) (*node.Node, RunOptions, error) {
	flags := NewInitFlags()
	in, run, err := readInit(file, flags)
	if err != nil {
		return nil, run, err
	}
	n := &node.Node{Local: node.Local{Paths: facts.Platform.Paths(),
		Timeouts: newTimeouts(in.init.Timeouts)}}
	n.Cluster, err = in.resolveCluster(flags, facts, &run)
	n.Paths.Certificates = facts.Platform.Clean(in.cluster.CertificatesDir)
	return n, run, err
}
