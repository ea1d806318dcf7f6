// Package conformance runs Kubernetes' own conformance suite against a cluster of sandboxed nodes.
package conformance

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/test/nodes"
)

// Suite is the suite on a control plane node, from which it runs.
type Suite struct {
	dir string // of components/build-extra conformance
	cp  *nodes.Node
}

// Install copies the suite to a control plane node, and loads the images of its Pods on the nodes that run them.
func Install(ctx context.Context, dir string, cp *nodes.Node, workers ...*nodes.Node) (*Suite, error) {
	for _, name := range []string{"e2e.test", "ginkgo"} {
		if err := cp.Copy(filepath.Join(dir, name), "/root/"+name, 0o755); err != nil {
			return nil, err
		}
	}
	for _, n := range workers {
		const archive = "/root/conformance.tar"
		if err := n.Copy(filepath.Join(dir, "conformance.tar"), archive, 0o600); err != nil {
			return nil, err
		}
		if _, err := n.Run(ctx, "sh", "-ec", "ctr --namespace=k8s.io images import "+archive+"; rm "+archive); err != nil {
			return nil, err
		}
	}
	return &Suite{dir, cp}, nil
}

// Selection selects tests of the suite, and how many run at once.
type Selection struct {
	Labels string   // a filter of ginkgo
	Focus  []string // texts, of which a test's name has one; none: all tests
	AtOnce int
}

// Parallel are the conformance tests that may run beside others. They wait more than they compute.
func Parallel() Selection {
	return Selection{Labels: "Conformance && !Serial && !Disruptive", AtOnce: 12}
}

// Serial are the other conformance tests.
func Serial() Selection {
	return Selection{Labels: "Conformance && (Serial || Disruptive)", AtOnce: 1}
}

// Quick are conformance tests of what a change of the control plane, its certificates or its addresses can break, in
// less than five minutes: Services and their proxy, DNS, exec and logs, admission webhooks, aggregation, custom
// resources, tokens, volumes and the controllers.
func Quick() Selection {
	s := Parallel()
	s.AtOnce = 6
	s.Focus = []string{
		"Services should serve a basic endpoint from pods",
		"Services should be able to change the type from ExternalName to NodePort",
		"Services should have session affinity work for NodePort service",
		"Networking Granular Checks: Pods should function for intra-pod communication: http",
		"Networking Granular Checks: Pods should function for node-pod communication: udp",
		"DNS should provide DNS for the cluster",
		"DNS should provide DNS for services",
		"Pods should support remote command execution over websockets",
		"Pods should support retrieving logs from the container over websockets",
		"Kubectl logs logs should be able to retrieve and filter logs",
		"AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny pod and configmap creation",
		"AdmissionWebhook [Privileged:ClusterAdmin] should mutate pod and apply defaults after mutation",
		"Aggregator Should be able to support the 1.17 Sample API Server using the current Aggregator",
		"CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition creating/deleting custom resource definition objects works",
		"ServiceAccounts should mount an API token into pods",
		"ServiceAccounts ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer",
		"Certificates API [Privileged:ClusterAdmin] should support CSR API operations",
		"ConfigMap updates should be reflected in volume",
		"Projected combined should project all components that make up the projection API",
		"EmptyDir volumes pod should support shared volumes between containers",
		"Subpath Atomic writer volumes should support subpaths with secret pod",
		"Deployment deployment should support rollover",
		"StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should have a working scale subresource",
		"Job should delete a job",
		"ResourceQuota should create a ResourceQuota and capture the life of a service",
		"Garbage collector should delete RS created by deployment when not orphaning",
	}
	return s
}

// Report is the outcome of a run.
type Report struct {
	Passed  []string
	Retried []string          // of those that passed, the ones that failed at first
	Failed  map[string]string // messages by name
}

// String sums the report up in one line.
func (r Report) String() string {
	return fmt.Sprintf("%d passed (%d when run again), %d failed", len(r.Passed), len(r.Retried), len(r.Failed))
}

// Unexpected are the failed tests that are not among the exceptions, by name.
func (r Report) Unexpected(exceptions map[string]string) (names []string) {
	for name := range r.Failed {
		if _, ok := exceptions[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Run runs the selected tests and writes the output of the suite to log. A test that fails is run once more: some wait no
// longer than half a minute, which a busy machine exceeds. Run returns an error if no test has run; failed tests are in the
// report.
func (s *Suite) Run(ctx context.Context, which Selection, log io.Writer) (Report, error) {
	const file = "/root/conformance.json"
	args := []string{"/root/ginkgo", fmt.Sprintf("--procs=%d", which.AtOnce), "--label-filter=" + which.Labels, "--no-color",
		"--silence-skips", "--flake-attempts=2", "--timeout=3h", "--keep-going", "--output-dir=/root", "--json-report=" + filepath.Base(file)}
	for _, text := range which.Focus {
		args = append(args, "--focus="+regexp.QuoteMeta(text))
	}
	args = append(args, "/root/e2e.test", "--", "--provider=skeleton", "--kubeconfig=/etc/kubernetes/admin.conf",
		"--num-nodes=2", "--disable-log-dump")
	if _, err := s.cp.Run(ctx, "rm", "-f", file); err != nil { // that of an earlier run
		return Report{}, err
	}
	command := s.cp.Command(args...)
	command.Stdout, command.Stderr = log, log
	_, failed := command.Run(ctx)
	if ctx.Err() != nil {
		return Report{}, failed
	}
	data, err := s.cp.ReadFile(file)
	if err != nil {
		return Report{}, fmt.Errorf("the suite has written no report: %w; %w", err, failed)
	}
	r, err := parseReport(data)
	if err == nil && len(r.Passed)+len(r.Failed) == 0 {
		err = errors.Join(errors.New("no test has run"), failed)
	}
	return r, err
}

// parseReport reads a report of ginkgo. Tests that were not selected are in it too.
func parseReport(data []byte) (Report, error) {
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
			NumAttempts             int
			Failure                 struct{ Message string }
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return Report{}, fmt.Errorf("reading ginkgo's report: %w", err)
	}
	r := Report{Failed: map[string]string{}}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			switch {
			case spec.LeafNodeType != "It" && spec.State != "failed":
			case spec.State == "passed":
				r.Passed = append(r.Passed, name)
				if spec.NumAttempts > 1 {
					r.Retried = append(r.Retried, name)
				}
			case spec.State != "skipped" && spec.State != "pending":
				r.Failed[name] = spec.State + ": " + spec.Failure.Message
			}
		}
	}
	return r, nil
}

//go:embed exceptions.yaml
var exceptions []byte

// Exceptions are the tests that cannot pass on sandboxed nodes without a network, with the reason, by name.
func Exceptions() (all map[string]string, err error) {
	if err := yaml.UnmarshalStrict(exceptions, &all); err != nil {
		return nil, fmt.Errorf("reading exceptions.yaml: %w", err)
	}
	return all, nil
}
