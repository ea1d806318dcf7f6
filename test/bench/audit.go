package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kubeadm/test/nodes"
)

// auditDir is the directory on a control plane with the API server's audit policy and log.
const auditDir = "/var/audit"

// auditPolicy logs requests of joining machines and kubelets; other clients have other groups.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:unauthenticated", "system:bootstrappers", "system:nodes"]
`

// auditConfig enables the audit log; it is part of ClusterConfiguration.
const auditConfig = `apiServer:
  extraArgs:
  - name: audit-policy-file
    value: ` + auditDir + `/policy.yaml
  - name: audit-log-path
    value: ` + auditDir + `/log
  # In megabytes: a full log would be renamed.
  - name: audit-log-maxsize
    value: "2000"
  extraVolumes:
  - name: audit
    hostPath: ` + auditDir + `
    mountPath: ` + auditDir + `
    pathType: Directory
`

// requestCount counts the requests of one address: of a machine, or of all behind a load balancer.
type requestCount struct{ all, kubelet, rejected int }

// joinRequests counts the requests of joining machines, by the address that they come from.
type joinRequests struct {
	// balanced counts those that came through the load balancer since the first join, too
	balanced bool
	since    time.Time
	planes   []*nodes.Node // which are no machines
	counts   map[netip.Addr]requestCount
}

// auditEvent is what is needed of an event of audit.k8s.io/v1.
type auditEvent struct {
	SourceIPs                []netip.Addr
	UserAgent                string
	User                     struct{ Username string }
	RequestReceivedTimestamp time.Time
	ResponseStatus           struct{ Code int }
}

// readAll reads the audit logs of all control planes.
func (j *joinRequests) readAll() error {
	for _, cp := range j.planes {
		log, err := cp.ReadFile(auditDir + "/log")
		if err == nil {
			err = j.read(bytes.NewReader(log))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", cp.Name(), err)
		}
	}
	return nil
}

// read reads a log of events, one per line.
func (j *joinRequests) read(log io.Reader) error {
	if j.counts == nil {
		j.counts = make(map[netip.Addr]requestCount)
	}
	for d := json.NewDecoder(log); ; {
		var event auditEvent
		err := d.Decode(&event)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the API server's audit log: %w", err)
		}
		if !j.isOfMachine(event) {
			continue
		}
		c := j.counts[event.SourceIPs[0]]
		c.all++
		if strings.HasPrefix(event.UserAgent, kubeletAgent) {
			c.kubelet++
		}
		if event.ResponseStatus.Code == http.StatusTooManyRequests {
			c.rejected++
		}
		j.counts[event.SourceIPs[0]] = c
	}
}

// kubeletAgent is how the user agent of a kubelet begins, the simulated one's too.
const kubeletAgent = "kubelet/"

// isOfMachine reports whether a machine's kubeadm or kubelet made the request. The load balancer,
// whose address that of the connection is, has further clients: the control planes' kubelets, and
// its own checks of readiness.
func (j *joinRequests) isOfMachine(e auditEvent) bool {
	if len(e.SourceIPs) == 0 {
		return false
	}
	if netip.MustParsePrefix(machineNetwork).Contains(e.SourceIPs[0]) {
		return true
	}
	isJoin := strings.HasPrefix(e.UserAgent, "kubeadm") || strings.HasPrefix(e.UserAgent, kubeletAgent)
	return j.balanced && isJoin && !e.RequestReceivedTimestamp.Before(j.since) &&
		!slices.ContainsFunc(j.planes, func(cp *nodes.Node) bool {
			return e.User.Username == "system:node:"+cp.Name()
		})
}

// total sums up all addresses.
func (j *joinRequests) total() (sum requestCount) {
	for _, c := range j.counts {
		sum.all += c.all
		sum.kubelet += c.kubelet
		sum.rejected += c.rejected
	}
	return sum
}
