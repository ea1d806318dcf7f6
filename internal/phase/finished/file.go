package finished

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// requiredFile is a file without which the machine does not work, and the phase of init that can
// create it again. CA keys and super-admin.conf are not required: users may remove them.
type requiredFile struct {
	path  string
	phase string // empty: no phase can create the same file again
	made  bool   // by the kubelet, so it is not in the journal
}

// controlPlaneFiles are those of a control plane.
func controlPlaneFiles(l node.Local) []requiredFile {
	var files []requiredFile
	for _, f := range phaseindex.Files(l, false) {
		switch {
		case f.Name == "super-admin", f.Shared && f.Kind == phaseindex.PrivateKey && f.Name != "sa":
		case f.Shared:
			files = append(files, requiredFile{path: f.Path})
		default:
			files = append(files, requiredFile{path: f.Path, phase: f.Phase.Command()})
		}
	}
	return files
}

// missingFiles is an error that names the files of the finished run that are missing.
func missingFiles(ctx context.Context, e *engine.Env, command string, files []requiredFile,
	run Record) error {
	var gone, phases []string
	lost := false
	for _, f := range files {
		if !f.made && !run.Recorded(change.FileTarget(f.path)) || slices.Contains(gone, f.path) {
			continue
		}
		_, err := e.World.Stat(ctx, f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("checking the files of the finished %s: %w", command, err)
		}
		if err != nil {
			gone, phases = append(gone, f.path), append(phases, f.phase)
			lost = lost || f.phase == ""
		}
	}
	if len(gone) == 0 {
		return nil
	}
	const most = 5 // of which each is named
	hints := []string{"restore them from a backup"}
	if command == "init" && !lost {
		hints = nil
		slices.Sort(phases)
		if phases = slices.Compact(phases); len(phases) > most {
			phases = nil
		}
		for _, phase := range phases {
			hints = append(hints,
				"create the missing files, with the same options: kubeadm init phase "+phase)
		}
	}
	if n := len(gone) - most; n > 1 {
		gone = append(gone[:most], fmt.Sprintf("and %d more", n))
	}
	return problem.New(
		fmt.Errorf("this command finished earlier, but files that it created are missing: %s",
			strings.Join(gone, ", ")),
		append(hints, "or start over: run kubeadm reset, then re-run the command")...)
}

// pinsOfDiscoveryFile are the pins of the CAs in a discovery file. A file that is missing or not
// on this machine has none.
func pinsOfDiscoveryFile(ctx context.Context, e *engine.Env, path string) ([]string, error) {
	if strings.Contains(path, "://") {
		return nil, nil
	}
	data, err := e.World.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the discovery file: %w", err)
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	cluster, err := config.DiscoveryCluster()
	if err != nil || len(cluster.CertificateAuthorityData) == 0 {
		return nil, err
	}
	certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var pins []string
	for _, c := range certs {
		pins = append(pins, pki.PinOf(c).String())
	}
	return pins, nil
}
