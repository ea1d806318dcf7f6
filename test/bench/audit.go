package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

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
  extraVolumes:
  - name: audit
    hostPath: ` + auditDir + `
    mountPath: ` + auditDir + `
    pathType: Directory
`

// requestCount counts the requests of one machine.
type requestCount struct{ all, kubelet int }

// readRequestCounts reads from the audit log the requests of each machine in a network, in the
// order of their addresses.
func readRequestCounts(cp *nodes.Node, network netip.Prefix) ([]requestCount, error) {
	log, err := cp.ReadFile(auditDir + "/log")
	if err != nil {
		return nil, err
	}
	return countRequests(bytes.NewReader(log), network)
}

// countRequests reads a log of audit.k8s.io/v1 events, one per line.
func countRequests(log io.Reader, network netip.Prefix) ([]requestCount, error) {
	counts := make(map[netip.Addr]requestCount)
	for d := json.NewDecoder(log); ; {
		var event struct {
			SourceIPs []netip.Addr
			UserAgent string
		}
		err := d.Decode(&event)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the API server's audit log: %w", err)
		}
		if len(event.SourceIPs) == 0 || !network.Contains(event.SourceIPs[0]) {
			continue
		}
		c := counts[event.SourceIPs[0]]
		c.all++
		if strings.HasPrefix(event.UserAgent, "kubelet/") {
			c.kubelet++
		}
		counts[event.SourceIPs[0]] = c
	}
	var ordered []requestCount
	for _, address := range slices.SortedFunc(maps.Keys(counts), netip.Addr.Compare) {
		ordered = append(ordered, counts[address])
	}
	return ordered, nil
}
