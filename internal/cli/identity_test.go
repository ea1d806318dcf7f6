package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kubeadm/internal/pki"
	"kubeadm/internal/world/memory"
)

func TestInsecureKubeconfigIsWarnedAbout(t *testing.T) {
	const file = "/home/me/.kube/config"
	for name, insecure := range map[string]bool{"verified": false, "not verified": true} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.env["KUBECONFIG"] = file
			config := pki.KubeconfigSpec{Server: "https://192.0.2.10:6443", Cluster: "c",
				User: "u"}.WithToken("secret")
			config.Clusters["c"].InsecureSkipTLSVerify = insecure
			data, err := config.Encode()
			if err != nil {
				t.Fatal(err)
			}
			s.world.Files[file] = memory.File{Data: data, Mode: 0o600}
			p, o, cmd := newProgram(s.Host), &clusterOptions{}, &cobra.Command{}
			o.bindTo(cmd)
			if as := clusterIdentity(t.Context(), p, cmd, o, s.world); as.AllowInsecure != insecure ||
				as.Kubeconfig != file {
				t.Errorf("got %+v", as)
			}
			if warned := strings.Contains(s.err.String(),
				file+" has insecure-skip-tls-verify"); warned != insecure {
				t.Errorf("warned %t:\n%s", warned, &s.err)
			}
		})
	}
}

func TestMissingPublicKeyIsDerived(t *testing.T) {
	const dir = "/etc/kubernetes/pki/"
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	if err := s.run(t.Context(), "init", "phase", "certs", "sa", "--config",
		"/init.yaml"); err != nil {
		t.Fatal(err)
	}
	public, private := string(s.world.Files[dir+"sa.pub"].Data),
		string(s.world.Files[dir+"sa.key"].Data)
	delete(s.world.Files, dir+"sa.pub")
	if err := s.run(t.Context(), "init", "phase", "certs", "sa", "--config",
		"/init.yaml"); err != nil {
		t.Fatal(err)
	}
	if string(s.world.Files[dir+"sa.pub"].Data) != public ||
		string(s.world.Files[dir+"sa.key"].Data) != private {
		t.Error("the pair is another one")
	}
	delete(s.world.Files, dir+"sa.key")
	if err := s.run(t.Context(), "init", "phase", "certs", "sa", "--config",
		"/init.yaml"); err == nil {
		t.Error("sa.pub was overwritten")
	}
	if string(s.world.Files[dir+"sa.pub"].Data) != public {
		t.Error("sa.pub is another one")
	}
}

func TestWarningOfAClientCertificateOfAnotherCA(t *testing.T) {
	const file = "/root/other.conf"
	s := newTestMachine(t)
	s.initCluster(t)
	admin := s.world.Files["/etc/kubernetes/admin.conf"].Data
	own, err := pki.ParseKubeconfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	other := newForeignMachine(t)
	other.initCluster(t)
	foreign, err := pki.ParseKubeconfig(other.world.Files["/etc/kubernetes/admin.conf"].Data)
	if err != nil {
		t.Fatal(err)
	}
	user, err := foreign.CurrentUser()
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := own.CurrentUser()
	if err != nil {
		t.Fatal(err)
	}
	*mixed = *user
	text, err := own.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data  []byte
		warns bool
	}{"of its own CA": {admin, false}, "of another CA": {text, true}} {
		s.world.Files[file] = memory.File{Data: c.data, Mode: 0o600}
		for _, command := range []string{"token list", "init phase upload-config all",
			"certs check-expiration", "reset --dry-run"} {
			if err := s.run(t.Context(),
				append(strings.Fields(command), "--kubeconfig", file)...); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			warned := strings.Contains(s.err.String(),
				file+`: its client certificate "kubernetes-admin" is not signed by the CA that the file trusts`)
			if warned != c.warns {
				t.Errorf("%s with a certificate %s: warned is %t\n%s", command, name, warned,
					&s.err)
			}
		}
	}
}
