package manifest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxCorefile is the largest Corefile that can be changed, in bytes: what the cluster stores of a change that is taken back
// has up to four, and may have 1 MiB.
const MaxCorefile = 64 << 10

// CheckCorefile is an error if CoreDNS cannot read a Corefile, if nothing in it answers the probes of its Deployment, or if
// no server listens where the Service of the cluster's DNS leads. Which plugins an image of CoreDNS has, and which options
// they accept, only that image knows. Of a Corefile with environment variables or imports within snippets or from files,
// which are not known here, only the braces count.
func CheckCorefile(text string, deployment *appsv1.Deployment) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("it is empty")
	case len(text) > MaxCorefile:
		return fmt.Errorf("it has %d bytes; a Corefile may have at most %d", len(text), MaxCorefile)
	case strings.ContainsRune(text, 0):
		return errors.New("it is not text")
	}
	isKnown, err := scanCorefile(text)
	if err != nil || !isKnown {
		return err
	}
	blocks, err := caddyfile.Parse(CorefileKey, strings.NewReader(text), nil)
	if err != nil {
		return err
	}
	if len(blocks) == 0 {
		return errors.New("it has no server block, such as .:53 { ... }")
	}
	containers := deployment.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "coredns" })
	if i < 0 {
		return nil
	}
	if err := checkDNSPort(blocks, containers[i]); err != nil {
		return err
	}
	return checkProbes(blocks, containers[i])
}

// scanCorefile reports whether the meaning of a Corefile is known without its environment and other files, and is an error
// if its braces do not match. A snippet that imports another one may import itself, which no parser would survive.
func scanCorefile(text string) (isKnown bool, err error) {
	const maxImports = 100 // of snippets, each of which may be long
	words := caddyfile.NewDispenser(CorefileKey, strings.NewReader(text))
	isKnown = !strings.Contains(text, "{$") && !strings.Contains(text, "{%")
	depth, imports, inSnippet := 0, 0, false
	for words.Next() {
		switch word := words.Val(); {
		case word == "{":
			depth++
		case word == "}":
			depth--
		case depth == 0:
			inSnippet = strings.HasPrefix(word, "(")
		case word == "import":
			imports++
			isKnown = isKnown && !inSnippet && imports <= maxImports && words.NextArg() && strings.Contains(text, "("+words.Val()+")")
		}
		if depth < 0 {
			return false, fmt.Errorf("%s:%d: there is no { for this }", CorefileKey, words.Line())
		}
	}
	if depth > 0 {
		return false, fmt.Errorf("%s:%d: a } is missing", CorefileKey, strings.Count(text, "\n"))
	}
	return isKnown, nil
}

// checkDNSPort is an error if no server block listens on the port of the container to which the Service leads.
func checkDNSPort(blocks []caddyfile.ServerBlock, c corev1.Container) error {
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "dns" })
	if i < 0 {
		return nil
	}
	wanted := fmt.Sprint(c.Ports[i].ContainerPort)
	for _, b := range blocks {
		for _, key := range b.Keys {
			scheme, address, hasScheme := strings.Cut(key, "://")
			if !hasScheme {
				scheme, address = "dns", key
			}
			port := "53"
			if _, after, found := strings.Cut(address, ":"); found {
				port = after[strings.LastIndex(after, ":")+1:]
			}
			if scheme == "dns" && port == wanted {
				return nil
			}
		}
	}
	return fmt.Errorf("no server listens on port %s, to which Service kube-system/kube-dns leads", wanted)
}

// checkProbes is an error if a probe asks for what a plugin serves, and no plugin does it there.
func checkProbes(blocks []caddyfile.ServerBlock, c corev1.Container) error {
	for _, p := range []struct {
		name string
		*corev1.Probe
	}{{"liveness", c.LivenessProbe}, {"readiness", c.ReadinessProbe}} {
		port, path := probed(c, p.Probe)
		plugin, own := "", ""
		switch path {
		case "/health":
			plugin, own = "health", "8080"
		case "/ready":
			plugin, own = "ready", "8181"
		default:
			continue
		}
		if !slices.ContainsFunc(blocks, func(b caddyfile.ServerBlock) bool { return listensOn(b.Tokens[plugin], own, port) }) {
			return fmt.Errorf("no plugin %q listens on port %s, where the %s probe of Deployment kube-system/coredns asks", plugin,
				port, p.name)
		}
	}
	return nil
}

// probed returns the port and the path that a probe asks by HTTP; empty if they are not known.
func probed(c corev1.Container, probe *corev1.Probe) (port, path string) {
	if probe == nil || probe.HTTPGet == nil {
		return "", ""
	}
	if at := probe.HTTPGet.Port; at.Type == intstr.Int {
		return at.String(), probe.HTTPGet.Path
	}
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal })
	if i < 0 {
		return "", ""
	}
	return fmt.Sprint(c.Ports[i].ContainerPort), probe.HTTPGet.Path
}

// listensOn reports whether a plugin with these words listens on a port of the Pod's address. Without an argument it listens
// on its own.
func listensOn(words []caddyfile.Token, own, port string) bool {
	for i, word := range words {
		if i > 0 && word.Text != words[0].Text {
			continue
		}
		address := ":" + own
		if i+1 < len(words) && words[i+1].Line == word.Line && words[i+1].Text != "{" {
			address = words[i+1].Text
		}
		host, at, err := net.SplitHostPort(address)
		ip, notIP := netip.ParseAddr(host)
		if err == nil && at == port && host != "localhost" && (notIP != nil || !ip.IsLoopback()) {
			return true
		}
	}
	return false
}
