// Package joincommand prints the closing text of init: how to use the cluster and how to join it.
package joincommand

import (
	"context"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// Phase prints the next steps.
var Phase = engine.Phase{
	Name:  "show-join-command",
	Short: "Print the next steps and the join commands",
	Long: "Print the next steps and the join commands.\n\n" +
		`This phase runs only as part of "kubeadm init". To print a join command, run "kubeadm token create --print-join-command".`,
	Needs: []string{"bootstrap-token", "upload-certs"},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		return showNextSteps(ctx, e, n)
	},
}

func showNextSteps(ctx context.Context, e *engine.Env, n *node.Node) error {
	admin, err := certstore.ReadAdmin(ctx, e.World, n.Paths.Kubeconfig("admin.conf"))
	if err != nil {
		return err
	}
	if len(n.Tokens) == 0 {
		return printNextSteps(e, n, engine.JoinCommands{})
	}
	for _, t := range n.Tokens {
		commands, err := newJoinCommands(e.Withhold, n, admin, t)
		if err != nil {
			return err
		}
		if err := printNextSteps(e, n, commands); err != nil {
			return err
		}
		e.ShowJoin(commands)
	}
	return nil
}

// ShowAgain prints the same on a machine where init has finished before, for the tokens that the
// cluster still has.
var ShowAgain = engine.Phase{
	Name:  Phase.Name,
	Short: Phase.Short,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		shown := *n
		shown.Tokens = nil
		for _, t := range n.Tokens {
			s, err := readSecret(ctx, e, manifest.NewTokenSecret(t, e.World.Now()), as)
			if err != nil {
				return err
			}
			if s != nil && string(s.Data[bootstrapapi.BootstrapTokenSecretKey]) == t.Secret {
				shown.Tokens = append(shown.Tokens, t)
			}
		}
		if len(shown.Tokens) == 0 {
			e.Say("the cluster no longer has this token; to create a new one: kubeadm token create --print-join-command")
		}
		if shown.UploadCerts, err = isUploaded(ctx, e, n, as); err != nil {
			return err
		}
		if !shown.UploadCerts {
			shown.CertificateKey = ""
		}
		return showNextSteps(ctx, e, &shown)
	},
}

// isUploaded reports whether the certificates are uploaded, encrypted with the node's certificate
// key.
func isUploaded(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) (bool, error) {
	if !n.UploadCerts {
		return false, nil
	}
	key, err := pki.ParseCertificateKey(n.CertificateKey)
	if err != nil {
		return false, err
	}
	s, err := readSecret(ctx, e, manifest.NewCertsSecret(nil, &corev1.Secret{}), as)
	if err != nil {
		return false, err
	}
	decrypts := func() bool {
		for _, data := range s.Data {
			if _, err := key.Decrypt(data); err == nil {
				return true
			}
		}
		return false
	}
	if s == nil || !decrypts() {
		e.Say("the certificates are no longer uploaded with that key; to upload them again and print a " +
			"new join command: kubeadm token create --print-join-command --upload-certs")
		return false, nil
	}
	text := n.CertificateKey
	if e.Withhold.CertificateKey {
		text = engine.Withheld
	}
	e.Result("Using certificate key:\n%s", text)
	return true, nil
}

// readSecret reads a Secret; nil if there is none.
func readSecret(ctx context.Context, e *engine.Env, named *corev1.Secret,
	as state.Identity) (*corev1.Secret, error) {
	u, err := e.Object(ctx, state.RefOf(named, as))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s corev1.Secret
	return &s, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s)
}

// newJoinCommands returns how machines join with one token, without the secrets that w withholds.
func newJoinCommands(w engine.Withhold, n *node.Node, admin *pki.Kubeconfig,
	t node.BootstrapToken) (c engine.JoinCommands, err error) {
	c = engine.JoinCommands{Token: t.String(), Expires: t.Expires, CertificateKey: n.CertificateKey}
	if w.Token {
		c.Token = engine.Withheld
	}
	if c.CertificateKey != "" && w.CertificateKey {
		c.CertificateKey = engine.Withheld
	}
	if c.Endpoint, err = admin.Endpoint(); err != nil {
		return c, err
	}
	trusted, err := admin.EmbeddedCAs()
	if err != nil {
		return c, err
	}
	for _, ca := range trusted {
		c.CACertHashes = append(c.CACertHashes, pki.PinOf(ca).String())
	}
	if c.Worker, err = manifest.JoinCommand(admin, c.Token, false, ""); err == nil &&
		n.Cluster.Endpoint != "" {
		c.ControlPlane, err = manifest.JoinCommand(admin, c.Token, true, c.CertificateKey)
	}
	return c, err
}

// printNextSteps prints the closing text.
func printNextSteps(e *engine.Env, n *node.Node, c engine.JoinCommands) error {
	var b strings.Builder
	err := nextSteps.Execute(&b, struct {
		engine.JoinCommands
		AdminConf string
		Self      string // the user and group that run the commands, in a shell's syntax
		Uploaded  bool
	}{c, n.Paths.Kubeconfig("admin.conf"), "$(id -u):$(id -g)", n.UploadCerts})
	e.Print(b.String())
	return err
}

// nextSteps has sentences that programs look for (test/parity/phrases): the first one,
// "control-plane node" two lines above the command that joins one, and "Please note" after that
// command. The first "kubeadm join" in init's output must be that command.
var nextSteps = template.Must(template.New("next steps").Parse(`
Your Kubernetes control-plane has initialized successfully!

To use the cluster as a regular user, copy the administrator's kubeconfig:

  mkdir -p $HOME/.kube
  sudo cp -i {{.AdminConf}} $HOME/.kube/config
  sudo chown {{.Self}} $HOME/.kube/config

As root, you can set this variable instead:

  export KUBECONFIG={{.AdminConf}}

Pods need a network. Choose an add-on from
https://kubernetes.io/docs/concepts/cluster-administration/addons/ and install it:

  kubectl apply -f [podnetwork].yaml
{{if .ControlPlane}}{{if not .Uploaded}}
Before another machine joins as a control plane node, copy the certificate authorities and service account keys
to it.{{end}}
To add a control-plane node, run this command on it as root:

  {{.ControlPlane}}
{{if .Uploaded}}
Please note: the certificate key and a token together give access to the cluster's private keys. Keep both secret.
The uploaded certificates expire after two hours. To upload them again and print a new command, run:

  kubeadm token create --print-join-command --upload-certs
{{end}}{{end}}{{if .Worker}}
To add a worker node, run this command on it as root:

{{.Worker}}
{{else}}
To print a join command for another machine, run:

  kubeadm token create --print-join-command
{{end}}`))
