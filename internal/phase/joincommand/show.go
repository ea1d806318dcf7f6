// Package joincommand ends an init by telling how to use the cluster and how to join it.
package joincommand

import (
	"context"
	"strings"
	"text/template"

	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// Phase prints the next steps.
var Phase = flow.Phase{
	Name:  "show-join-command",
	Short: "Show how to use the cluster and how to join it",
	Needs: []string{"bootstrap-token", "upload-certs"},
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		path := n.Paths.Kubeconfig("admin.conf")
		data, err := e.World.ReadFile(ctx, path)
		if err != nil {
			return err
		}
		admin, err := pki.ParseKubeconfig(data)
		if err != nil {
			return err
		}
		for _, t := range n.Tokens {
			text, err := nextSteps(e.Withhold, n, admin, t)
			if err != nil {
				return err
			}
			e.Print(text)
		}
		return nil
	},
}

// steps are the values of the closing text.
type steps struct {
	AdminConf            string
	Self                 string // the user and group that give the commands, as a shell says it
	Worker, ControlPlane string // join commands; ControlPlane is empty without a shared endpoint
	Uploaded             bool
}

func nextSteps(w flow.Withhold, n *node.Node, admin *pki.Kubeconfig, t node.BootstrapToken) (string, error) {
	token, key := t.String(), n.CertificateKey
	if w.Token {
		token = flow.Withheld
	}
	if key != "" && w.CertificateKey {
		key = flow.Withheld
	}
	s := steps{AdminConf: n.Paths.Kubeconfig("admin.conf"), Self: "$(id -u):$(id -g)", Uploaded: n.UploadCerts}
	var err error
	if s.Worker, err = manifest.JoinCommand(admin, token, false, ""); err != nil {
		return "", err
	}
	if n.Cluster.Endpoint != "" {
		if s.ControlPlane, err = manifest.JoinCommand(admin, token, true, key); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	err = text.Execute(&b, s)
	return b.String(), err
}

var text = template.Must(template.New("next steps").Parse(`
Your Kubernetes control plane is up.

To use it as an ordinary user, give yourself a copy of the administrator's credentials:

  mkdir -p $HOME/.kube
  sudo cp -i {{.AdminConf}} $HOME/.kube/config
  sudo chown {{.Self}} $HOME/.kube/config

As root it is enough to say:

  export KUBECONFIG={{.AdminConf}}

The cluster still needs a pod network. Choose one from
https://kubernetes.io/docs/concepts/cluster-administration/addons/ and deploy it with

  kubectl apply -f [podnetwork].yaml
{{if .ControlPlane}}{{if .Uploaded}}
Further control planes join by giving this command on each, as root:

  {{.ControlPlane}}

Keep the certificate key to yourself: whoever has it and a token can read the cluster's secrets.
The uploaded certificates are gone after two hours; this uploads them once more:

  kubeadm init phase upload-certs --upload-certs
{{else}}
Further control planes join once the certificate authorities and the service account keys were
copied to them, by giving this command on each, as root:

  {{.ControlPlane}}
{{end}}{{end}}
Workers join by giving this command on each, as root:

{{.Worker}}
`))
