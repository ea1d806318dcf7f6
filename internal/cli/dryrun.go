package cli

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"path"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/kubelet"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/world/preview"
)

// preview is the world of a dry run: nothing changes but a folder with copies of what would be written.
func (p *program) preview(ctx context.Context, s *session, n *node.Node) error {
	var dir string
	if s.makes {
		var err error
		if dir, err = p.dryRunDir(ctx, s, n.Paths); err != nil {
			return err
		}
		if s.command == "join" && n.CertificateKey != "" {
			s.say(flow.Warned, fmt.Sprintf("with --certificate-key the private keys of the cluster's authorities will be among the copies: remove %s when you have seen it", dir))
		}
		if err := p.recall(ctx, s, n); err != nil {
			return err
		}
	}
	paths := preview.Paths{
		Node:              n.Name,
		Certificates:      n.Paths.Certificates,
		KubeletConfig:     n.Paths.KubeletConfig(),
		BootstrapConfig:   n.Paths.BootstrapKubeconfig(),
		KubeletKubeconfig: n.Paths.KubeletKubeconfig(),
		RotatedCert:       kubelet.RotatedCertificate(n),
	}
	if n.Role == node.ControlPlane {
		paths.OwnServer, paths.OwnEtcd = n.Paths.Manifest(release.APIServer), n.Paths.Manifest(manifest.Etcd)
	}
	s.world = preview.New(s.world, dir, paths)
	return nil
}

// dryRunDir makes the folder, or takes the one that the environment names.
func (p *program) dryRunDir(ctx context.Context, s *session, paths node.Paths) (string, error) {
	command, _, _ := strings.Cut(s.command, " ")
	variable := "KUBEADM_" + strings.ToUpper(command) + "_DRYRUN_DIR"
	dir, _ := p.Getenv(variable)
	if dir == "" {
		suffix := make([]byte, 4)
		if _, err := io.ReadFull(p.Random("dry-run"), suffix); err != nil {
			return "", fmt.Errorf("making up the name of a folder: %w", err)
		}
		dir = path.Join(paths.Tmp(), "kubeadm-"+command+"-dryrun"+new(big.Int).SetBytes(suffix).String())
	}
	if err := s.real.Do(ctx, change.MakeDir{Path: dir, Mode: 0o700}); err != nil {
		return "", problem.New("making a folder for copies of what would be written", err, "name one of yours with the environment variable "+variable)
	}
	s.say(flow.Warned, fmt.Sprintf("copies of what would be written are kept in %s; %s names another folder", dir, variable))
	return dir, nil
}
