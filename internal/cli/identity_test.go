package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kubeadm/internal/pki"
	"kubeadm/internal/world/memory"
)

func TestKubeconfigOfTheUserMayTurnOffVerificationWithAWarning(t *testing.T) {
	const file = "/home/me/.kube/config"
	for name, insecure := range map[string]bool{"verified": false, "not verified": true} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			s.env["KUBECONFIG"] = file
			config := pki.Access{Server: "https://192.0.2.10:6443", Cluster: "c", User: "u"}.WithToken("secret")
			config.Clusters["c"].InsecureSkipTLSVerify = insecure
			data, err := config.Encode()
			if err != nil {
				t.Fatal(err)
			}
			s.world.Files[file] = memory.File{Data: data, Mode: 0o600}
			p, o, cmd := &program{Host: s.Host}, &tokenOptions{}, &cobra.Command{}
			o.bindTo(cmd)
			if as := p.as(t.Context(), cmd, o, s.world); as.Unverified != insecure || as.Kubeconfig != file {
				t.Errorf("got %+v", as)
			}
			if warned := strings.Contains(s.err.String(), file+" has insecure-skip-tls-verify"); warned != insecure {
				t.Errorf("warned %t:\n%s", warned, &s.err)
			}
		})
	}
}

func TestMissingPublicHalfIsMadeFromThePrivateKey(t *testing.T) {
	const dir = "/etc/kubernetes/pki/"
	s := newStation(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	if err := s.run(t.Context(), "init", "phase", "certs", "sa", "--config", "/init.yaml"); err != nil {
		t.Fatal(err)
	}
	public, private := string(s.world.Files[dir+"sa.pub"].Data), string(s.world.Files[dir+"sa.key"].Data)
	delete(s.world.Files, dir+"sa.pub")
	if err := s.run(t.Context(), "init", "phase", "certs", "sa", "--config", "/init.yaml"); err != nil {
		t.Fatal(err)
	}
	if string(s.world.Files[dir+"sa.pub"].Data) != public || string(s.world.Files[dir+"sa.key"].Data) != private {
		t.Error("the pair is another one")
	}
	delete(s.world.Files, dir+"sa.key")
	if err := s.run(t.Context(), "init", "phase", "certs", "sa", "--config", "/init.yaml"); err == nil {
		t.Error("sa.pub was overwritten")
	}
	if string(s.world.Files[dir+"sa.pub"].Data) != public {
		t.Error("sa.pub is another one")
	}
}
