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

// The directory on a control plane's node where the API server finds the policy of its audit and writes the log.
const auditDir = "/var/audit"

// auditPolicy notes requests of machines that join and of kubelets; administrators, controllers and the like have other groups.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:unauthenticated", "system:bootstrappers", "system:nodes"]
`

// auditConfig makes the API server note requests; it belongs into ClusterConfiguration.
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

// readRequestCounts reads what the API server noted of the machines in a network, in the order of their addresses.
func readRequestCounts(cp *nodes.Node, network netip.Prefix) ([]requestCount, error) {
	log, err := cp.ReadFile(auditDir + "/log")
	if err != nil {
		return nil, err
	}
	return countRequests(bytes.NewReader(log), network)
}

// countRequests reads a log of audit.k8s.io/v1 events, one a line.
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
