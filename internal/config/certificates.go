package config

import "kubeadm/internal/node"

// Certificates is what a file says of a control plane's certificates, or what they usually are: the cluster, and
// the folders of the machine, at which nobody looks. Nothing else of the Node is filled in.
func Certificates(file File, facts Facts) (*node.Node, Run, error) {
	flags := NewInitFlags()
	in, run, err := readInit(file, flags)
	if err != nil {
		return nil, run, err
	}
	n := &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
	n.Cluster, err = in.resolveCluster(flags, facts, &run)
	n.Paths.Certificates = in.cluster.CertificatesDir
	return n, run, err
}
