// Package joincommand ends an init by telling how to use the cluster and how to join it.
package joincommand

import (
	"context"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

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
	tokens := n.Tokens
	if len(tokens) == 0 {
		tokens = []node.BootstrapToken{{}} // the closing text is shown without join commands
	}
	for _, t := range tokens {
		text, err := nextSteps(e.Withhold, n, admin, t)
		if err != nil {
			return err
		}
		e.Print(text)
	}
	return nil
}

// Again shows the same on a machine where init has finished before, for the tokens that the cluster still has.
var Again = flow.Phase{
	Name:  Phase.Name,
	Short: Phase.Short,
	Run: func(ctx context.Context, e *flow.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		shown := *n
		shown.Tokens = nil
		for _, t := range n.Tokens {
			here, err := hasToken(ctx, e, t, as)
			if err != nil {
				return err
			}
			if here {
				shown.Tokens = append(shown.Tokens, t)
			}
		}
		if len(shown.Tokens) == 0 {
			e.Say("the cluster has no such token any more; this creates a new one: kubeadm token create --print-join-command")
		}
		if shown.UploadCerts, err = uploaded(ctx, e, n, as); err != nil {
			return err
		}
		if !shown.UploadCerts {
			shown.CertificateKey = ""
		}
		return show(ctx, e, &shown)
	},
}

// hasToken reports whether the cluster has that token, with that secret.
func hasToken(ctx context.Context, e *flow.Env, t node.BootstrapToken, as change.Identity) (bool, error) {
	s, err := secretOf(ctx, e, manifest.Token(t, e.World.Now()), as)
	return s != nil && string(s.Data[bootstrapapi.BootstrapTokenSecretKey]) == t.Secret, err
}

// uploaded reports whether the certificates are uploaded, encrypted with the node's certificate key.
func uploaded(ctx context.Context, e *flow.Env, n *node.Node, as change.Identity) (bool, error) {
	if !n.UploadCerts {
		return false, nil
	}
	key, err := pki.ParseCertificateKey(n.CertificateKey)
	if err != nil {
		return false, err
	}
	s, err := secretOf(ctx, e, manifest.Certs(nil, &corev1.Secret{}), as)
	if err != nil {
		return false, err
	}
	decrypts := func() bool {
		for _, data := range s.Data {
			if _, err := key.Open(data); err == nil {
				return true
			}
		}
		return false
	}
	if s == nil || !decrypts() {
		e.Say("the certificates are not uploaded with that key any more; this uploads them again and prints a new join command: " +
			"kubeadm token create --print-join-command --upload-certs")
		return false, nil
	}
	text := n.CertificateKey
	if e.Withhold.CertificateKey {
		text = flow.Withheld
	}
	e.Say("using certificate key:\n%s", text)
	return true, nil
}

// secretOf reads a Secret of the cluster; nil if there is none.
func secretOf(ctx context.Context, e *flow.Env, named *corev1.Secret, as change.Identity) (*corev1.Secret, error) {
	u, err := e.Object(ctx, change.RefOf(named, as))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s corev1.Secret
	return &s, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s)
}

// steps are the values of the closing text.
type steps struct {
	AdminConf            string
	Self                 string // the user and group that give the commands, as a shell says it
	Worker, ControlPlane string // join commands, empty without a token; ControlPlane also without a shared endpoint
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
	if t.ID == "" {
		var b strings.Builder
		err = text.Execute(&b, s)
		return b.String(), err
	}
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
{{end}}{{end}}{{if .Worker}}
Workers join by giving this command on each, as root:

{{.Worker}}
{{end}}`))
