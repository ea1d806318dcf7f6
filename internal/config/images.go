package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// Cluster resolves the cluster that init would create, without its component configurations and
// without facts about the machine.
func Cluster(file File, flags InitFlags, facts Facts) (node.Cluster, RunOptions, error) {
	in, run, err := readInit(file, flags)
	if err != nil {
		return node.Cluster{}, run, err
	}
	cluster, err := in.resolveCluster(flags, facts, &run)
	return cluster, run, err
}

// Images resolves the cluster that init would create, the container runtime that pulls its images,
// and the pull policy. It needs no other facts about the machine.
func Images(file File, flags InitFlags, facts Facts) (*node.Node, RunOptions, error) {
	in, run, err := readInit(file, flags)
	if err != nil {
		return nil, run, err
	}
	r, at := &in.init.NodeRegistration, field.NewPath("nodeRegistration", "criSocket")
	in.fields(v1beta4.KindInit, fillSocket(&r.CRISocket, facts, at, &run))
	in.fields(v1beta4.KindInit, checkSocket(at, r.CRISocket, facts.Platform))
	cluster, err := in.resolveCluster(flags, facts, &run)
	return &node.Node{Local: newLocal(r, in.init.Timeouts, facts, flags.Common), Cluster: cluster},
		run, err
}

// resolveCluster is the cluster that the documents describe.
func (in *initDocuments) resolveCluster(flags InitFlags, facts Facts,
	run *RunOptions) (node.Cluster, error) {
	run.applyFlags(in.init.DryRun, in.init.SkipPhases, flags.Common)
	fillCluster(&in.cluster, in.init.LocalAPIEndpoint.BindPort)
	in.fields(v1beta4.KindCluster, checkCluster(&in.cluster, facts.Platform))
	target, err := in.resolve(facts, run)
	if err != nil {
		return node.Cluster{}, err
	}
	return newCluster(&in.cluster, target)
}
