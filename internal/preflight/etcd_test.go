package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

func external() *node.ExternalEtcd {
	return &node.ExternalEtcd{Endpoints: []string{"https://db:2379/"}, CAFile: "/ca",
		CertFile: "/cert", KeyFile: "/key"}
}

func withEtcd(answers ...state.Response) *machine {
	m := fit()
	m.files["/ca"], m.files["/cert"], m.files["/key"] = "CA", "CERT", "KEY"
	m.answers = answers
	return m
}

func answer(status int, body string) state.Response {
	return state.Response{Status: status, Body: []byte(body)}
}

func TestExternalEtcdVersion(t *testing.T) {
	for name, c := range map[string]struct {
		m    *machine
		want string // part of the error; empty for none
	}{
		"new": {withEtcd(answer(200, `{"etcdserver":"3.7.0","etcdcluster":"3.7.0"}`)),
			""},
		"late": {withEtcd(answer(503, ""), answer(200, `{"etcdserver":"3.7.0"}`)), ""},
		"old": {withEtcd(answer(200, `{"etcdserver":"3.5.23"}`)),
			"etcd 3.5.23 is too old"},
		"something else": {withEtcd(answer(404, "page not found")),
			"https://db:2379/version answers with status 404 and no version"},
		"without a version": {withEtcd(answer(200, `{}`)), `invalid version ""`},
	} {
		// A permanent error ends the wait long before its timeout.
		ctx, cancel := context.WithTimeout(t.Context(), etcdVersionTimeout*3/4)
		found := Run(ctx, c.m, newExternalEtcdVersionChecks(external()), nil).Findings
		cancel()
		if got := lines(found); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
		if c.want != "" && (len(found) != 1 || found[0].Remedy == "") {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

func TestExternalEtcdClientCertificates(t *testing.T) {
	m, e := withEtcd(answer(200, `{"etcdserver":"3.7.0"}`)), external()
	e.HTTPEndpoints = []string{"https://health:2381//deep"}
	Run(t.Context(), m, newExternalEtcdVersionChecks(e), nil)
	got := m.fetched
	if got == nil || got.URL != "https://health:2381/deep/version" ||
		string(got.CA)+string(got.Cert)+string(got.Key) != "CACERTKEY" {
		t.Errorf("asked %+v", got)
	}
}

func TestUnreachableExternalEtcdTimesOut(t *testing.T) {
	m := withEtcd()
	m.answerErr = errors.New("connection refused")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := checkEtcdVersion(ctx, m, external(), "https://db:2379")
	if err == nil || !strings.Contains(err.Error(), "connection refused") ||
		!strings.Contains(err.Error(), "https://db:2379") {
		t.Errorf("error %v", err)
	}
}

func TestExternalEtcdFilesMustExist(t *testing.T) {
	m := withEtcd(answer(200, `{"etcdserver":"3.7.0"}`))
	delete(m.files, "/key")
	e := external()
	got := lines(Run(t.Context(), m,
		append(newExternalEtcdVersionChecks(e), newExternalEtcdFileChecks(e)...), nil).Findings)
	want := `[ERROR ExternalEtcdVersion]: connecting to etcd at https://db:2379/: file does not exist; correct etcd.external in the configuration
[ERROR ExternalEtcdClientCertificates]: the API server cannot connect to etcd without /key: file does not exist; copy it from an etcd machine, or fix etcd.external in the configuration`
	if got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
}
