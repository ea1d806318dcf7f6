//go:build e2e

package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	certv1 "k8s.io/api/certificates/v1"

	"kubeadm/test/nodes"
)

// checkServingWatch joins a worker while "approve-kubelet-serving --watch" runs, and has its kubelet request again after the
// API server was restarted, which ends the watch. Both requests are approved, a forged one is not. Ctrl-C ends the command.
func checkServingWatch(t *testing.T, cp, worker *nodes.Node, join []string) {
	t.Helper()
	watch, err := cp.Start(t.Context(), kubeadm, "certs", "approve-kubelet-serving", "--watch", "-v=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Join(t.Context(), join, io.Discard); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	awaitServingApproved(t, cp, worker, seen)
	requestServing(t, cp, "forged-ghost", "ghost", &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:ghost", Organization: []string{"system:nodes"}},
		DNSNames: []string{"ghost"},
	})

	stopAPIServer(t, cp)
	awaitAPI(t, cp, "")
	kubectl(t, cp, "get", "nodes")
	runShell(t, worker, "systemctl stop kubelet; rm /var/lib/kubelet/pki/kubelet-server-*; systemctl start kubelet")
	awaitServingApproved(t, cp, worker, seen)
	if line := kubectl(t, cp, "get", "csr", "--no-headers", "forged-ghost"); !strings.Contains(line, "Pending") {
		t.Errorf("a forged request is not pending: %s", line)
	}

	if err := watch.Signal(unix.SIGINT); err != nil {
		t.Error(err)
	}
	asked := time.Now()
	result, err := watch.Wait()
	if took := time.Since(asked); took > time.Minute { // a watch lasts for minutes
		t.Errorf("it ends %s after Ctrl-C", took)
	}
	if exit := new(nodes.ExitError); !errors.As(err, &exit) || result.Code != 1 || !strings.Contains(result.Stderr, "interrupted") {
		t.Errorf("Ctrl-C ends it with %v, exit code %d", err, result.Code)
	}
	if times := strings.Count(result.Stdout+result.Stderr, `there is no Node "ghost"`); times != 1 {
		t.Errorf("it says %d times why the forged request is refused", times)
	}
	if t.Failed() {
		t.Logf("it says\n%s\n%s", result.Stdout, result.Stderr)
	}
}

// awaitServingApproved waits until a node's kubelet has a serving certificate and none of its requests is pending, and checks
// that those that were not seen before were approved in time. It adds them to those seen.
func awaitServingApproved(t *testing.T, cp, n *nodes.Node, seen map[string]bool) {
	t.Helper()
	// The longest pause of the command between two requests to the API server is a minute, with what is added at random: after
	// an API server did not answer for as long, or where a decision takes some seconds on a busy machine.
	const longest = 90 * time.Second
	await(t, "a serving certificate of "+n.Name(), waitLimit, func() error {
		_, err := n.Run(t.Context(), "test", "-s", "/var/lib/kubelet/pki/kubelet-server-current.pem")
		return err
	})
	found := false
	await(t, "the requests of "+n.Name()+" to be approved", waitLimit, func() error {
		all := readObject[certv1.CertificateSigningRequestList](t, cp, "csr",
			"--field-selector=spec.signerName="+certv1.KubeletServingSignerName)
		pending := 0
		for _, request := range all.Items {
			if request.Spec.Username != "system:node:"+n.Name() || seen[request.Name] {
				continue
			}
			if len(request.Status.Conditions) == 0 {
				pending++
				continue
			}
			found, seen[request.Name] = true, true
			took := request.Status.Conditions[0].LastTransitionTime.Sub(request.CreationTimestamp.Time)
			t.Logf("%s: approved %s after its creation", request.Name, took)
			if took > longest {
				t.Errorf("request %s was approved %s after its creation", request.Name, took)
			}
		}
		if !found || pending > 0 {
			return fmt.Errorf("%d requests are pending", pending)
		}
		return nil
	})
}
