// Package nodeaddress is about a node that gets another address: which files and members have the one from
// before, and what becomes of them.
package nodeaddress

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// Move is a change of this node's address.
type Move struct {
	To   string
	From []string // the previous addresses, each of the family of To
	// ExternalEtcd is set if etcd does not move with this node, even if it runs on this machine.
	ExternalEtcd bool
}

// IsFrom reports whether a host is a previous address.
func (m Move) IsFrom(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(m.From, func(from string) bool { return isSame(from, ip) })
}

func isSame(address string, ip netip.Addr) bool {
	other, err := netip.ParseAddr(address)
	return err == nil && other.Unmap() == ip.Unmap()
}

// Replace returns a text with the new address in place of the previous ones. The text is an address, a
// "host:port" or a URL, as "name=URL" too, or a list of them with commas between. Everything else stays.
func (m Move) Replace(text string) string {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		before, authority := "", part
		if at := strings.Index(part, "://"); at >= 0 {
			before, authority = part[:at+3], part[at+3:]
		}
		authority, after, hasPath := strings.Cut(authority, "/")
		if hasPath && before == "" {
			continue // a path or a CIDR
		}
		if hasPath {
			after = "/" + after
		}
		if host, port, err := net.SplitHostPort(authority); err == nil && m.IsFrom(host) {
			authority = net.JoinHostPort(m.To, port)
		} else if m.IsFrom(strings.Trim(authority, "[]")) {
			if authority = m.To; before != "" && strings.Contains(m.To, ":") {
				authority = "[" + m.To + "]"
			}
		}
		parts[i] = before + authority + after
	}
	return strings.Join(parts, ",")
}

// keepsArgument reports whether an argument keeps a previous address: it names something else than this
// machine, such as who issues tokens, which all API servers have in common.
func (m Move) keepsArgument(name string) bool {
	switch strings.TrimLeft(name, "-") {
	case "service-account-issuer", "service-account-jwks-uri", "api-audiences", "oidc-issuer-url":
		return true
	case "etcd-servers":
		return m.ExternalEtcd
	}
	return false
}

// Manifest returns a static Pod manifest with the new address in annotations, arguments and probes; the same
// data if it has no previous one. Comments of a manifest that changes are lost.
func (m Move) Manifest(data []byte) ([]byte, error) {
	var pod map[string]any
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, err
	}
	changed := false
	replaced := func(text string) string {
		now := m.Replace(text)
		changed = changed || now != text
		return now
	}
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for name, value := range annotations {
		if text, ok := value.(string); ok {
			annotations[name] = replaced(text)
		}
	}
	for _, c := range containersOf(pod) {
		for _, field := range []string{"command", "args"} {
			list, _ := c[field].([]any)
			for i, value := range list {
				if text, ok := value.(string); ok {
					list[i] = m.replaceArgument(text, replaced)
				}
			}
		}
		for _, name := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
			probe, _ := c[name].(map[string]any)
			for _, kind := range []string{"httpGet", "tcpSocket"} {
				action, _ := probe[kind].(map[string]any)
				if host, ok := action["host"].(string); ok {
					action["host"] = replaced(host)
				}
			}
		}
	}
	if !changed {
		return data, nil
	}
	return yaml.Marshal(pod)
}

func containersOf(pod map[string]any) (all []map[string]any) {
	spec, _ := pod["spec"].(map[string]any)
	for _, field := range []string{"initContainers", "containers"} {
		list, _ := spec[field].([]any)
		for _, one := range list {
			if c, ok := one.(map[string]any); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

// replaceArgument replaces addresses in "--name=value", or in a value that is an argument of its own.
func (m Move) replaceArgument(text string, replaced func(string) string) string {
	if name, value, found := strings.Cut(text, "="); found && strings.HasPrefix(name, "-") {
		if m.keepsArgument(name) {
			return text
		}
		return name + "=" + replaced(value)
	}
	return replaced(text)
}

// Kubeconfig returns a kubeconfig that leads to the new address; the same data if it leads to no previous one.
func (m Move) Kubeconfig(data []byte, file string) ([]byte, error) {
	kubeconfig, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	cluster, err := kubeconfig.CurrentCluster()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	now := m.Replace(cluster.Server)
	if now == cluster.Server {
		return data, nil
	}
	cluster.Server = now
	return kubeconfig.Encode()
}

// nodeIPArgument matches the argument of the kubelet in an environment file, or in one of its unit.
var nodeIPArgument = regexp.MustCompile(`(--node-ip(?:=(?:\\\n)?|(?:[ \t]|\\\n)+)["']?)([^\s"'\\]+)`)

// emptyNodeIP matches the argument with an empty value, with which the kubelet chooses an address itself.
var emptyNodeIP = regexp.MustCompile(`--node-ip=(?:""|''|["']?(?:\s|$))`)

// findNodeIPs returns the addresses that a file of the kubelet sets; the last argument counts. Without that argument they are
// nil, and with an empty one an empty list. A value that cannot be read, such as a variable or the name of an interface, is
// returned instead.
func findNodeIPs(text string) (ips []string, unread string) {
	all := nodeIPArgument.FindAllStringSubmatchIndex(text, -1)
	if empty := emptyNodeIP.FindAllStringIndex(text, -1); len(empty) > 0 &&
		(len(all) == 0 || empty[len(empty)-1][0] > all[len(all)-1][0]) {
		return []string{}, ""
	}
	if len(all) == 0 {
		return nil, ""
	}
	last := all[len(all)-1]
	value := text[last[4]:last[5]]
	ips = strings.Split(value, ",")
	for _, ip := range ips {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, "--node-ip=" + value
		}
	}
	return ips, ""
}

// KubeletEnv returns an environment file of the kubelet with the new address in --node-ip.
func (m Move) KubeletEnv(env string) string {
	return nodeIPArgument.ReplaceAllStringFunc(env, func(argument string) string {
		parts := nodeIPArgument.FindStringSubmatch(argument)
		return parts[1] + m.Replace(parts[2])
	})
}

// ServingCertificates are those of this node that name its address.
func ServingCertificates(n *node.Node) (all []pki.Renewable) {
	local, _ := node.HasLocalEtcd(n)
	for _, c := range pki.Renewables() {
		p, isPair := pki.ProfileOf(c.Name)
		if isPair && p.SANs != pki.NoSANs && (local || !p.LocalEtcdOnly()) {
			all = append(all, c)
		}
	}
	return all
}

// Mentions reports whether a text has a previous address as a word, and returns it.
func (m Move) Mentions(text string) (address string, found bool) {
	for _, word := range strings.FieldsFunc(text, func(c rune) bool {
		return !strings.ContainsRune("0123456789abcdefABCDEF.:", c)
	}) {
		host, _, err := net.SplitHostPort(word)
		if err != nil {
			host = word
		}
		for _, ip := range []string{host, strings.Trim(word, ":")} {
			if m.IsFrom(ip) {
				return ip, true
			}
		}
	}
	return "", false
}
