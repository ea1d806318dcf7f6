package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// etcd is the component's name.
const etcd = "etcd"

// How long an external etcd may take: for one answer, and for one that is of use.
const (
	etcdAnswer = 10 * time.Second
	etcdWait   = 20 * time.Second
)

// localEtcd is what a member on this machine needs; nothing where etcd is external. Data in
// its folder is ours once a run of ours has started the member, not merely made the folder.
func localEtcd(n *node.Node) []Check {
	if n.Cluster.Etcd.External != nil {
		return nil
	}
	return append(etcdPorts(n), dirAvailable(n.Cluster.Etcd.DataDir, change.FileTarget(n.Paths.Manifest(etcd))))
}

// externalEtcdFiles wants the files with which the API server reaches etcd.
func externalEtcdFiles(e *node.ExternalEtcd) []Check {
	if e == nil {
		return nil
	}
	var list []Check
	for _, path := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if path == "" {
			continue
		}
		list = append(list, Check{Name: "ExternalEtcdClientCertificates", Run: func(ctx context.Context, r state.Reader, rep *Report) {
			if _, err := r.Stat(ctx, path); err != nil {
				rep.Fail("copy it from the machines of etcd, or correct etcd.external in the configuration",
					"the API server cannot reach etcd without %s: %v", path, err)
			}
		}})
	}
	return list
}

// externalEtcdVersion asks each endpoint of an external etcd whether it is new enough.
func externalEtcdVersion(e *node.ExternalEtcd) []Check {
	if e == nil {
		return nil
	}
	endpoints := e.HTTPEndpoints
	if len(endpoints) == 0 {
		endpoints = e.Endpoints
	}
	var list []Check
	for _, endpoint := range endpoints {
		list = append(list, Check{Name: "ExternalEtcdVersion", Run: func(ctx context.Context, r state.Reader, rep *Report) {
			if err := etcdIsNew(ctx, r, e, endpoint); err != nil {
				rep.fail(err)
			}
		}})
	}
	return list
}

func etcdIsNew(ctx context.Context, r state.Reader, e *node.ExternalEtcd, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return problem.New("reading the address of etcd", err, "correct etcd.external.endpoints in the configuration")
	}
	req, err := etcdRequest(ctx, r, e)
	if err != nil {
		return problem.New("reaching etcd at "+endpoint, err, "correct etcd.external in the configuration")
	}
	req.URL = u.JoinPath("version").String()
	err = world.Poll(ctx, r, world.Condition{
		Name:    "etcd at " + endpoint + " to tell a version that will do",
		Timeout: etcdWait,
		Check: func(ctx context.Context, r state.Reader) error {
			return etcdAnswers(ctx, r, req)
		},
	})
	if err != nil {
		return problem.New("", err, "see that this etcd runs, is reachable from this machine and is new enough")
	}
	return nil
}

func etcdRequest(ctx context.Context, r state.Reader, e *node.ExternalEtcd) (state.Request, error) {
	var req state.Request
	read := func(path string) ([]byte, error) {
		if path == "" {
			return nil, nil
		}
		return r.ReadFile(ctx, path)
	}
	ca, err := read(e.CAFile)
	req.CA = ca
	if e.CertFile != "" && e.KeyFile != "" {
		var certErr, keyErr error
		req.Cert, certErr = read(e.CertFile)
		req.Key, keyErr = read(e.KeyFile)
		err = cmp.Or(err, certErr, keyErr)
	}
	return req, err
}

// etcdAnswers gives up where a later answer would be no better.
func etcdAnswers(ctx context.Context, r state.Reader, req state.Request) error {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswer)
	defer cancel()
	answer, err := r.Fetch(ctx, req)
	if err != nil {
		return err
	}
	if answer.Status >= http.StatusInternalServerError {
		return errors.New(http.StatusText(answer.Status))
	}
	var told struct {
		Server string `json:"etcdserver"`
	}
	if err := json.Unmarshal(answer.Body, &told); err != nil {
		return world.GiveUp(fmt.Errorf("%s answers with status %d and no version: %w", req.URL, answer.Status, err))
	}
	if err := release.CheckEtcd(told.Server); err != nil {
		return world.GiveUp(err)
	}
	return nil
}
