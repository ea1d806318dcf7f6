package main

import (
	"fmt"
	"slices"
	"strings"
)

// figure is a number that is measured for both programs.
type figure struct {
	id    string // in the JSON file
	group string // its name in --only; figures of the same runs have the same group
	title string
	unit  string
}

const (
	secondsUnit   = "s"
	megabytesUnit = "MB"
	countUnit     = "1" // a count
	perMinuteUnit = "1/min"
)

// The groups.
const (
	groupInit              = "init"
	groupInitLimit         = "init-limit"
	groupJoinEarly         = "join-early"
	groupJoin              = "join"
	groupResetWorker       = "reset-worker"
	groupReset             = "reset"
	groupJoinControlPlane  = "join-plane"
	groupResetControlPlane = "reset-plane"
	groupJoinControlPlanes = "join-planes"
	groupCerts             = "certs"
	groupCertsRenew        = "certs-renew"
	groupVersion           = "version"
	groupSize              = "size"
	groupScale             = "scale"
	groupUpgradeApply      = "upgrade-apply"
	groupUpgradeNode       = "upgrade-node"
	groupUpgradePlane      = "upgrade-plane"
	groupEtcd              = "etcd"
)

// Further figures of groupEtcd, whose own is the time to save a snapshot.
const (
	etcdStatus  = groupEtcd + "-status"
	etcdRestore = groupEtcd + "-restore"
)

// The figure of a group's time is named after the group; its other figures have these suffixes.
const (
	memorySuffix   = "-memory"
	kubeletSuffix  = "-kubelet"
	rateSuffix     = "-rate"
	requestsSuffix = "-requests"
	gapSuffix      = "-gap"
	rejectedSuffix = "-rejected"
	restartsSuffix = "-restarts"
)

// allFigures lists all figures in the order of the table. Memory is that of kubeadm: of init and
// join it is measured apart from the kubelet that prints its version, see runMeasured. The other
// commands with that figure start no bigger program.
func allFigures() []figure {
	return []figure{
		{groupInit, groupInit, "init --upload-certs, clean node", secondsUnit},
		{groupInit + kubeletSuffix, groupInit, "  until the kubelet starts", secondsUnit},
		{groupInit + memorySuffix, groupInit, "  peak memory", megabytesUnit},
		{groupInitLimit, groupInitLimit, "  limit: start of the kubelet to /livez", secondsUnit},
		{groupJoinEarly, groupJoinEarly, "join, worker, right after init", secondsUnit},
		{groupJoin, groupJoin, "join, worker, settled cluster", secondsUnit},
		{groupJoin + memorySuffix, groupJoin, "  peak memory", megabytesUnit},
		{groupResetWorker, groupResetWorker, "reset, worker", secondsUnit},
		{groupReset, groupReset, "reset, only control plane", secondsUnit},
		{groupJoinControlPlane, groupJoinControlPlane, "join, second control plane", secondsUnit},
		{groupResetControlPlane, groupResetControlPlane, "reset, second control plane",
			secondsUnit},
		{groupJoinControlPlanes, groupJoinControlPlanes, "join, two control planes at once",
			secondsUnit},
		{groupUpgradeApply, groupUpgradeApply, "upgrade apply, only control plane", secondsUnit},
		{groupUpgradeApply + gapSuffix, groupUpgradeApply, "  longest gap of the API server",
			secondsUnit},
		{groupUpgradeNode, groupUpgradeNode, "upgrade node, worker", secondsUnit},
		{groupUpgradePlane, groupUpgradePlane, "upgrade node, second control plane", secondsUnit},
		{groupCerts, groupCerts, "init phase certs all, empty directory", secondsUnit},
		{groupCerts + memorySuffix, groupCerts, "  peak memory", megabytesUnit},
		{groupCertsRenew, groupCertsRenew, "certs renew all, control plane", secondsUnit},
		{groupCertsRenew + memorySuffix, groupCertsRenew, "  peak memory", megabytesUnit},
		{groupVersion, groupVersion, "version", secondsUnit},
		{groupVersion + memorySuffix, groupVersion, "  peak memory", megabytesUnit},
		{groupEtcd, groupEtcd, "etcd snapshot save, 1 GB; etcdctl", secondsUnit},
		{groupEtcd + memorySuffix, groupEtcd, "  peak memory", megabytesUnit},
		{etcdStatus, groupEtcd, "etcd snapshot status, 1 GB; etcdutl", secondsUnit},
		{etcdStatus + memorySuffix, groupEtcd, "  peak memory", megabytesUnit},
		{etcdRestore, groupEtcd, "etcd restore, 1 GB, its data; etcdutl", secondsUnit},
		{etcdRestore + memorySuffix, groupEtcd, "  peak memory, with the mapped file", megabytesUnit},
		{groupSize, groupSize, "size of the program", megabytesUnit},
		{groupScale, groupScale, "join, one of many machines at once", secondsUnit},
		{groupScale + rateSuffix, groupScale, "  joins per minute", perMinuteUnit},
		{groupScale + requestsSuffix, groupScale, "  requests to the API server", countUnit},
		{groupScale + requestsSuffix + kubeletSuffix, groupScale, "    of these the kubelet's",
			countUnit},
		{groupScale + rejectedSuffix, groupScale, "    answered 429, all machines'", countUnit},
		{groupScale + memorySuffix, groupScale, "  peak memory", megabytesUnit},
		{groupScale + restartsSuffix, groupScale, "  restarts of control planes meanwhile",
			countUnit},
	}
}

func allGroups() []string {
	var names []string
	for _, f := range allFigures() {
		names = append(names, f.group)
	}
	return slices.Compact(names)
}

// selection holds the groups that --only names; nil means all.
type selection []string

// parseSelection parses names of groups, separated by commas.
func parseSelection(only string) (selection, error) {
	if only == "" {
		return nil, nil
	}
	s := selection(strings.Split(only, ","))
	for _, name := range s {
		if !slices.Contains(allGroups(), name) {
			return nil, fmt.Errorf("--only %s: there is no figure %q, but %s", only, name,
				strings.Join(allGroups(), ", "))
		}
	}
	return s, nil
}

// includes reports whether any of the groups is to be measured.
func (s selection) includes(groups ...string) bool {
	return s == nil || slices.ContainsFunc(groups,
		func(g string) bool { return slices.Contains(s, g) })
}
