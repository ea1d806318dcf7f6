// Package joincommand ends an init by telling how to use the cluster and how to join it.
package joincommand

import (
	"context"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
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
		return show(ctx, e, n)
	},
}

func show(ctx context.Context, e *flow.Env, n *node.Node) error {
	data, err := e.World.ReadFile(ctx, n.Paths.Kubeconfig("admin.conf"))
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
}

// Again shows the same on a machine where an earlier run did everything, for the tokens that are still good.
var Again = flow.Phase{
	Name:  Phase.Name,
	Short: Phase.Short,
	Run: func(ctx context.Context, e *flow.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		e.Say("this very command has made this machine a control plane before: nothing is changed")
		good := *n
		good.Tokens = nil
		for _, t := range n.Tokens {
			_, err := e.World.Object(ctx, change.RefOf(manifest.Token(t, e.World.Now()), as))
			switch {
			case err == nil:
				good.Tokens = append(good.Tokens, t)
			case !apierrors.IsNotFound(err):
				return err
			}
		}
		if len(good.Tokens) == 0 {
			e.Say("its tokens have expired; this makes a new one: kubeadm token create --print-join-command")
		}
		if err := lent(ctx, e, n, as); err != nil {
			return err
		}
		return show(ctx, e, &good)
	},
}

// lent tells the key of the certificates that were uploaded, as long as they are there.
func lent(ctx context.Context, e *flow.Env, n *node.Node, as change.Identity) error {
	if !n.UploadCerts {
		return nil
	}
	_, err := e.World.Object(ctx, change.RefOf(manifest.Certs(nil, &corev1.Secret{}), as))
	switch {
	case apierrors.IsNotFound(err):
		e.Say("the uploaded certificates are gone; this lends them anew, with a new join command: " +
			"kubeadm token create --print-join-command --upload-certs")
		return nil
	case err != nil:
		return err
	}
	shown := n.CertificateKey
	if e.Withhold.CertificateKey {
		shown = flow.Withheld
	}
	e.Say("using certificate key:\n%s", shown)
	return nil
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
The uploaded certificates are gone after two hours; this lends them anew and prints a new command:

  kubeadm token create --print-join-command --upload-certs
{{else}}
Further control planes join once the certificate authorities and the service account keys were
copied to them, by giving this command on each, as root:

  {{.ControlPlane}}
{{end}}{{end}}
Workers join by giving this command on each, as root:

{{.Worker}}
`))
