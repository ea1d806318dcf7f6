package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxCorefile is the largest Corefile in bytes: a ConfigMap, and what the cluster stores of a change, hold at most 1 MiB.
const maxCorefile = 256 << 10

// CheckCorefile is an error if CoreDNS cannot read a Corefile, or if nothing in it answers the probes of its Deployment.
// Which plugins an image of CoreDNS has, and which options they accept, only that image knows. What a Corefile imports from
// other files is not known here: with one that does, all is well that CoreDNS can read.
func CheckCorefile(text string, deployment *appsv1.Deployment) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("it is empty")
	case len(text) > maxCorefile:
		return fmt.Errorf("it has %d bytes; a Corefile may have at most %d", len(text), maxCorefile)
	case strings.ContainsRune(text, 0):
		return errors.New("it is not text")
	}
	if importsFiles(text) {
		return nil
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
	c := containers[i]
	for _, p := range []struct {
		plugin, port string // the port is that without an argument
		name         string
		probe        *corev1.Probe
	}{
		{"health", "8080", "liveness", c.LivenessProbe},
		{"ready", "8181", "readiness", c.ReadinessProbe},
	} {
		port, ok := probedPort(c, p.probe)
		if ok && !slices.ContainsFunc(blocks, func(b caddyfile.ServerBlock) bool {
			return listensOn(b.Tokens[p.plugin], p.port, port)
		}) {
			return fmt.Errorf("no plugin %q listens on port %s, where the %s probe of Deployment kube-system/coredns asks", p.plugin,
				port, p.name)
		}
	}
	return nil
}

// importsFiles reports whether a Corefile imports anything but its own snippets.
func importsFiles(text string) bool {
	words := caddyfile.NewDispenser(CorefileKey, strings.NewReader(text))
	for words.Next() {
		if words.Val() != "import" {
			continue
		}
		names := words.RemainingArgs()
		if len(names) > 0 && !strings.Contains(text, "("+names[0]+")") {
			return true
		}
	}
	return false
}

// probedPort returns the port that a probe asks, if it asks by HTTP.
func probedPort(c corev1.Container, probe *corev1.Probe) (string, bool) {
	if probe == nil || probe.HTTPGet == nil {
		return "", false
	}
	port := probe.HTTPGet.Port
	if port.Type == intstr.Int {
		return port.String(), true
	}
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })
	if i < 0 {
		return "", false
	}
	return fmt.Sprint(c.Ports[i].ContainerPort), true
}

// listensOn reports whether a plugin with these words listens on a port. Without an argument it listens on its own.
func listensOn(words []caddyfile.Token, own, port string) bool {
	for i, word := range words {
		if i > 0 && word.Text != words[0].Text {
			continue
		}
		address := ""
		if i+1 < len(words) && words[i+1].Line == word.Line && words[i+1].Text != "{" {
			address = words[i+1].Text
		}
		if address == "" && own == port || strings.HasSuffix(address, ":"+port) {
			return true
		}
	}
	return false
}
