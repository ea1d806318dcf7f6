//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

const (
	loadConfig = "/root/load.conf" // the client's kubeconfig
	// loadObject is written without kubectl's discovery of the API, which it repeats for a minute while no server answers.
	loadObject = "/api/v1/namespaces/default/configmaps/load"
)

// load is a client that writes an object through the load balancer, ten times a second. It repeats a failed write once. After
// a failed request it reads the object before it writes again.
type load struct {
	kubectl    func(input string, args ...string) (string, error)
	cancel     context.CancelFunc
	done       sync.WaitGroup
	inProgress sync.Mutex // held during a request, and while it is counted

	figures           // since the start
	step      figures // since the last step has ended
	succeeded time.Time
	last      int      // the last value that was written, or read
	isUnsure  bool     // a later request has failed, and may have been carried out
	lost      []string // what was written, but was not there afterwards
}

// figures are what a client has seen in a time.
type figures struct {
	requests, failed int
	repeated         []string      // errors of requests that succeeded when they were sent once more
	gap              time.Duration // the longest time without a successful request
	errors           []string      // of the failed requests
}

func (f figures) String() string {
	text := fmt.Sprintf("%d of %d requests failed, longest gap %s", f.failed, f.requests, f.gap.Round(10*time.Millisecond))
	if len(f.repeated) > 0 {
		text += fmt.Sprintf("; %d succeeded when they were repeated: %s", len(f.repeated), strings.Join(f.repeated, "; "))
	}
	return text
}

// count counts a request that is over.
func (f *figures) count(err error, gap time.Duration) {
	f.requests++
	f.gap = max(f.gap, gap)
	if err != nil {
		f.failed++
		f.errors = append(f.errors, fmt.Sprintf("%s: %v", time.Now().Format(time.TimeOnly), err))
	}
}

// startLoad starts the client on a node, with the credentials and the endpoint that admin.conf of a control plane node has.
// The flags are for kubectl. A request is given up after five seconds, unless they say otherwise.
func startLoad(t *testing.T, cp, n *nodes.Node, flags ...string) *load {
	t.Helper()
	kubectl(t, cp, "create", "configmap", "load", "--from-literal=value=0")
	writeFile(t, n, loadConfig, readFile(t, cp, "/etc/kubernetes/admin.conf"))
	command := append([]string{"kubectl", "--kubeconfig=" + loadConfig, "--request-timeout=5s"}, flags...)
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, succeeded: time.Now()}
	l.kubectl = func(input string, args ...string) (string, error) {
		c := n.Command(append(command[:len(command):len(command)], args...)...)
		c.Stdin = strings.NewReader(input)
		result, err := c.Run(t.Context())
		return result.Stdout, err
	}
	l.done.Go(func() {
		var err error
		for i := 1; ctx.Err() == nil; i++ {
			l.inProgress.Lock()
			err = l.request(i, err != nil)
			if t.Context().Err() == nil { // otherwise the end of the test has cut it
				l.count(i, err)
			}
			l.inProgress.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	return l
}

// startBalancedLoad is startLoad where admin.conf does not name the load balancer: the API server's certificate is not for its
// address.
func startBalancedLoad(t *testing.T, b *nodes.Balancer, cp, n *nodes.Node) *load {
	t.Helper()
	b.CheckReadiness() // as load balancers do
	return startLoad(t, cp, n, "--server=https://"+b.Endpoint(), "--tls-server-name=kubernetes", "--request-timeout=20s")
}

// request writes a value. If the request before has failed, it checks first that no value is lost.
func (l *load) request(value int, afterFailure bool) error {
	if afterFailure {
		if err := l.checkStored(); err != nil {
			return err
		}
	}
	object := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "load"}, "data": {"value": "%d"}}`, value)
	write := func() error {
		_, err := l.kubectl(object, "replace", "--raw="+loadObject, "--filename=-")
		return err
	}
	first := write()
	if first == nil {
		return nil
	}
	// An API server that exits answers that it is unavailable, and "Retry-After: 1". Kubernetes' client library obeys that;
	// kubectl has no second copy of what it reads from stdin.
	begun := time.Now()
	time.Sleep(time.Second)
	err := write()
	if err == nil {
		repeated := fmt.Sprintf("%s: %v", begun.Format(time.TimeOnly), first)
		l.repeated, l.step.repeated = append(l.repeated, repeated), append(l.step.repeated, repeated)
	}
	return err
}

// checkStored reads the value, and checks that none is lost. It is an error if no server answers.
func (l *load) checkStored() error {
	// kubectl repeats a read while connections fail, but no write.
	output, err := l.kubectl("", "get", "--raw="+loadObject, "--request-timeout=5s")
	if err != nil {
		return err
	}
	var object struct{ Data struct{ Value string } }
	if err := json.Unmarshal([]byte(output), &object); err != nil {
		l.lost = append(l.lost, fmt.Sprintf("after %d was written, this was read: %s", l.last, output))
		return nil
	}
	l.compare(object.Data.Value)
	return nil
}

// compare checks a value that was read. It is the last one that was written, or that of a later request that has failed, which
// may have been carried out.
func (l *load) compare(stored string) {
	got, err := strconv.Atoi(stored)
	if err != nil || got < l.last || got > l.last && !l.isUnsure {
		l.lost = append(l.lost, fmt.Sprintf("the value is %q, but %d was written last", stored, l.last))
	}
	l.last = max(l.last, got)
}

// reportLost fails the test if a value is lost.
func (l *load) reportLost(t *testing.T) {
	t.Helper()
	for _, lost := range l.lost {
		t.Error(lost)
	}
	l.lost = nil
}

// count counts the request that has written a value, or has failed.
func (l *load) count(value int, err error) {
	var gap time.Duration
	l.isUnsure = err != nil
	if err == nil {
		gap = time.Since(l.succeeded)
		l.last, l.succeeded = value, time.Now()
	}
	l.figures.count(err, gap)
	l.step.count(err, gap)
}

// awaitRequest waits for the end of the request in progress.
func (l *load) awaitRequest() {
	l.inProgress.Lock()
	defer l.inProgress.Unlock()
}

// measureGap returns the longest time without a successful request during a change. A single request with kubectl takes a
// part of it.
func (l *load) measureGap(change func()) time.Duration {
	l.inProgress.Lock()
	l.step = figures{}
	l.inProgress.Unlock()
	change()
	time.Sleep(200 * time.Millisecond) // so that the next request has begun
	l.inProgress.Lock()
	defer l.inProgress.Unlock()
	return l.step.gap
}

// endStep logs what the client has seen since the last step, once it writes again, and checks that nothing it has written is
// lost. A failed read counts as a failed request.
func (l *load) endStep(t *testing.T, name string) figures {
	t.Helper()
	end := time.Now()
	await(t, "the client to write after: "+name, waitLimit, func() error {
		l.inProgress.Lock()
		defer l.inProgress.Unlock()
		if l.succeeded.Before(end) {
			return fmt.Errorf("it has not since %s: %s", l.succeeded.Format(time.TimeOnly), strings.Join(l.errors[max(0, len(l.errors)-1):], ""))
		}
		err := l.checkStored()
		l.figures.count(err, 0)
		l.step.count(err, 0)
		return err
	})
	l.inProgress.Lock()
	defer l.inProgress.Unlock()
	seen := l.step
	l.step = figures{}
	t.Logf("%s: %s", name, seen)
	l.reportLost(t)
	return seen
}

// endStepWithoutFailure is endStep for a step in which no request may fail.
func (l *load) endStepWithoutFailure(t *testing.T, name string) {
	t.Helper()
	if seen := l.endStep(t, name); seen.failed > 0 {
		t.Errorf("%s: %s:\n%s", name, seen, strings.Join(seen.errors, "\n"))
	}
}

// stop ends the client after the request in hand: the API server may have carried that out.
func (l *load) stop() {
	l.cancel()
	l.done.Wait()
}

// end ends the client, logs what it has seen, and checks that nothing it has written is lost.
func (l *load) end(t *testing.T, cp *nodes.Node) {
	t.Helper()
	l.stop()
	t.Logf("client: %s", l.figures)
	l.compare(kubectl(t, cp, "get", "configmap", "load", "--output=jsonpath={.data.value}"))
	l.reportLost(t)
}

// endWithoutFailure is end where no request may have failed.
func (l *load) endWithoutFailure(t *testing.T, cp *nodes.Node) {
	t.Helper()
	l.end(t, cp)
	if l.failed > 0 || l.requests == 0 {
		t.Errorf("%s:\n%s", l.figures, strings.Join(l.errors, "\n"))
	}
}
