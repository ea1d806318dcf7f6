package main

import (
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const upstream = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require go.etcd.io/etcd/client/v3 v3.7.0

replace k8s.io/api => ./staging/src/k8s.io/api
`

func file(t *testing.T, text string) (string, error) {
	t.Helper()
	f, err := modfile.Parse("go.mod", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return moduleFile(f, "v1.37.1")
}

func TestStagingModulesBecomeReleases(t *testing.T) {
	text, err := file(t, upstream)
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.Parse("v1.37.mod", []byte(text), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if r := f.Replace[0]; r.New.Path != "k8s.io/api" || r.New.Version != "v0.37.1" {
		t.Errorf("k8s.io/api is replaced by %v", r.New)
	}
	if len(f.Godebug) != 1 || f.Godebug[0].Value != "go1.26" {
		t.Errorf("godebug is lost in\n%s", text)
	}
	for _, want := range []string{"k8s.io/kubernetes v1.37.1", "go.etcd.io/etcd/server/v3 v3.7.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not required in\n%s", want, text)
		}
	}
}

func TestUnsupportedModuleFileIsRefused(t *testing.T) {
	for _, text := range []string{
		strings.ReplaceAll(upstream, "./staging/", "../fork/"),
		strings.ReplaceAll(upstream, "etcd/client", "etcd/other"),
	} {
		if out, err := file(t, text); err == nil {
			t.Errorf("accepted:\n%s", out)
		}
	}
}
