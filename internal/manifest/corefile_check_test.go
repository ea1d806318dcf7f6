package manifest

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestCheckCorefile(t *testing.T) {
	const plugins = "health\nready\n"
	deployed := dnsDeployment("coredns", 2)
	for name, c := range map[string]struct {
		text string
		want string // in the error; empty for none
		edit func(*appsv1.Deployment)
	}{
		"the default":            {text: defaultCorefile("cluster.local")},
		"Windows lines":          {text: strings.ReplaceAll(defaultCorefile("cluster.local"), "\n", "\r\n")},
		"several blocks":         {text: "example.org {\nerrors\n}\ndns://.:53 {\n" + plugins + "}\n"},
		"addresses":              {text: ". {\nhealth :8080 {\nlameduck 5s\n}\nready 0.0.0.0:8181\n}\n"},
		"a snippet":              {text: "(probes) {\n" + plugins + "}\n.:53 {\nimport probes\n}\n"},
		"a file":                 {text: ".:53 {\nimport /etc/coredns/custom/*.override\n}\n"},
		"an environment":         {text: "{$ZONE}:53 {\nhealth :{$PORT}\n}\n"},
		"a snippet of itself":    {text: "(a) {\nimport a\n}\n.:53 {\nimport a\n}\n"},
		"nothing":                {text: " \n", want: "it is empty"},
		"a comment":              {text: "# nothing\n", want: "no server block"},
		"binary data":            {text: "\x00", want: "it is not text"},
		"too much":               {text: strings.Repeat("#", MaxCorefile+1), want: "at most 65536"},
		"an open brace":          {text: ".:53 {\n" + plugins, want: "Corefile:3: a } is missing"},
		"a brace too many":       {text: ".:53 {\n" + plugins + "}\n}\n", want: "Corefile:5: there is no {"},
		"an open brace, a file":  {text: ".:53 {\nimport custom\n", want: "a } is missing"},
		"no readiness":           {text: ".:53 {\nhealth\n}\n", want: `no plugin "ready" listens on port 8181`},
		"another port of health": {text: ".:53 {\nhealth :8090\nready\n}\n", want: `no plugin "health" listens on port 8080`},
		"a loopback address":     {text: ".:53 {\nhealth 127.0.0.1:8080\nready\n}\n", want: `no plugin "health"`},
		"another port":           {text: ".:5353 {\n" + plugins + "}\n", want: "no server listens on port 53"},
		"only TLS":               {text: "tls://.:53 {\n" + plugins + "}\n", want: "no server listens on port 53"},
		"another probe": {text: ".:53 {\nready\n}\n", edit: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].LivenessProbe = d.Spec.Template.Spec.Containers[0].ReadinessProbe
		}},
		"a probe of another port": {text: ".:53 {\nhealth :8090\nready\n}\n", edit: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Ports[3].ContainerPort = 8090
		}},
		"no ports": {text: ".:5353 {\nerrors\n}\n", edit: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Ports = nil
		}},
		"another container": {text: ".:5353 {\nerrors\n}\n", edit: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Name = "dns"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployed.DeepCopy()
			if c.edit != nil {
				c.edit(d)
			}
			err := CheckCorefile(c.text, d)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, not %q", err, c.want)
			}
		})
	}
}
