package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// etcd is the component's name.
const etcd = "etcd"

// Timeouts of an external etcd: for one request, and until its version is known.
const (
	etcdRequestTimeout = 10 * time.Second
	etcdVersionTimeout = 20 * time.Second
)

// newLocalEtcdChecks returns the checks for an etcd member on this machine; none if etcd is
// external. Data in its directory are ours once a run of ours has started the member or restored its
// data, not if it just created the directory.
func newLocalEtcdChecks(n *node.Node) []Check {
	if n.Cluster.Etcd.External != nil {
		return nil
	}
	dir, started := n.Cluster.Etcd.DataDir, change.FileTarget(n.Paths.Manifest(etcd))
	restored := change.FileTarget(n.RestoredEtcd())
	return []Check{
		newStaticPodPortCheck(n, etcdClientPort, etcd),
		newStaticPodPortCheck(n, etcdPeerPort, etcd),
		{Name: "DirAvailable-" + strings.ReplaceAll(dir, "/", "-"),
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				inside, err := r.ReadDir(ctx, dir)
				// of the file system that is mounted there; etcd makes a directory beside it
				inside = slices.DeleteFunc(inside, func(f state.FileInfo) bool {
					return f.Mode.IsDir() && path.Base(f.Path) == "lost+found"
				})
				switch {
				case errors.Is(err, fs.ErrNotExist):
				case err != nil:
					rep.Fail("make it an empty directory, or remove it", "reading directory %s: %v",
						dir, err)
				case len(inside) > 0 && node.IsSystemDir(dir):
					rep.Fail("use a separate directory, such as /var/lib/etcd",
						"%s is not empty and belongs to the operating system", dir)
				case len(inside) > 0 && !r.WasCreated(started) && !r.WasCreated(restored):
					rep.Fail(leftoverHint, "%s is not empty", dir)
				}
			}},
	}
}

// newExternalEtcdFileChecks checks that the files exist with which the API server connects to
// etcd.
func newExternalEtcdFileChecks(e *node.ExternalEtcd) []Check {
	if e == nil {
		return nil
	}
	var list []Check
	for _, path := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if path == "" {
			continue
		}
		list = append(list, Check{Name: "ExternalEtcdClientCertificates",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				if _, err := r.Stat(ctx, path); err != nil {
					rep.Fail("copy it from an etcd machine, or fix etcd.external in the configuration",
						"the API server cannot connect to etcd without %s: %v", path, err)
				}
			}})
	}
	return list
}

// newExternalEtcdVersionChecks checks the version at each endpoint of an external etcd.
func newExternalEtcdVersionChecks(e *node.ExternalEtcd) []Check {
	if e == nil {
		return nil
	}
	endpoints := e.HTTPEndpoints
	if len(endpoints) == 0 {
		endpoints = e.Endpoints
	}
	var list []Check
	for _, endpoint := range endpoints {
		list = append(list, Check{Name: "ExternalEtcdVersion",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				if err := checkEtcdVersion(ctx, r, e, endpoint); err != nil {
					rep.FailWith(err)
				}
			}})
	}
	return list
}

func checkEtcdVersion(ctx context.Context, r state.Reader, e *node.ExternalEtcd,
	endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return problem.During("reading the address of etcd", err,
			"correct etcd.external.endpoints in the configuration")
	}
	req := state.Request{URL: u.JoinPath("version").String()}
	for _, file := range []struct {
		path string
		into *[]byte
	}{{e.CAFile, &req.CA}, {e.CertFile, &req.Cert}, {e.KeyFile, &req.Key}} {
		if file.path == "" {
			continue
		}
		if *file.into, err = r.ReadFile(ctx, file.path); err != nil {
			return problem.During("connecting to etcd at "+endpoint, err,
				"correct etcd.external in the configuration")
		}
	}
	err = world.Poll(ctx, r, world.Condition{
		Name:    "etcd at " + endpoint + " to report a supported version",
		Timeout: etcdVersionTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			return requestEtcdVersion(ctx, r, req)
		},
	})
	if err != nil {
		return problem.New(err,
			"check that this etcd runs, is reachable from this machine and is new enough")
	}
	return nil
}

// requestEtcdVersion checks the version in etcd's answer. It gives up if asking again cannot help.
func requestEtcdVersion(ctx context.Context, r state.Reader, req state.Request) error {
	ctx, cancel := context.WithTimeout(ctx, etcdRequestTimeout)
	defer cancel()
	answer, err := r.Fetch(ctx, req)
	if err != nil {
		return err
	}
	if answer.Status >= http.StatusInternalServerError {
		return errors.New(http.StatusText(answer.Status))
	}
	var reported struct {
		Server string `json:"etcdserver"`
	}
	if err := json.Unmarshal(answer.Body, &reported); err != nil {
		return world.Permanent(fmt.Errorf("%s answers with status %d and no version: %w", req.URL,
			answer.Status, err))
	}
	if err := release.CheckEtcd(reported.Server); err != nil {
		return world.Permanent(err)
	}
	return nil
}

// EtcdRestart returns the checks before the etcd member of this machine is restarted: the members
// have a quorum, keep it without this one where there are more than two, and none is a learner.
func EtcdRestart(n *node.Node) []Check {
	if n.Cluster.Etcd.External != nil || n.Role != node.ControlPlane {
		return nil
	}
	return []Check{{Name: "EtcdQuorum",
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			const remedy = "check the members: kubeadm etcd members"
			via := etcdcluster.LocalClient(n.Paths, n.ClientURL())
			health, err := etcdcluster.CheckHealth(ctx, r, via)
			if err != nil {
				rep.Fail("check the log of etcd on this node: crictl logs, or journalctl -xeu kubelet",
					"etcd's members cannot be listed: %v", err)
				return
			}
			if err := health.CheckQuorum(); err != nil {
				rep.Fail(remedy, "etcd has no quorum: %v", err)
				return
			}
			conflicts := etcdcluster.FindConflicts(ctx, r, via, health)
			for _, m := range health.Members {
				if err := conflicts[m.ID]; err != nil {
					rep.Fail(etcdcluster.RejoinRemedy+": kubeadm etcd rejoin", "%s: %v", etcdcluster.DescribeConflict(m), err)
				}
			}
			if l := health.FindLearner(); l != nil {
				rep.Fail("wait until that node has joined, or remove the member",
					"etcd member %s is a learner: a control plane node is joining",
					etcdcluster.MemberName(*l))
			}
			var own uint64
			if m := health.FindByPeerURL(n.PeerURL()); m != nil {
				own = m.ID
			}
			if err := health.CheckRestart(own); err != nil {
				rep.Fail(remedy, "%v", err)
			}
		}}}
}

// QuorumWithout holds once etcd keeps its quorum while the member of this node restarts. The member of
// a node that was restarted a moment ago may still be starting.
func QuorumWithout(n *node.Node, ignored []string) world.Condition {
	return world.Condition{
		Name:    "etcd to have a quorum without the member of this node",
		Timeout: n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			return Run(ctx, r, EtcdRestart(n), ignored).Err()
		},
	}
}
