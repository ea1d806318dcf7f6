// Package existing is what a command of day two asks first about the node that it runs on: what this
// machine is (ReadMachine), what an earlier run left unfinished, as whom it accesses its cluster, and
// what the cluster stores for it. Open answers the first three in the order that makes each possible,
// and Machine.Node the last.
package existing

import (
	"context"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// ReadMachine completes local with what the files of this machine say about it as a node: its
// role, name, address, certificates directory and container runtime. Without a kubelet.conf the machine is no node, unless
// local has a name already. Nothing is read from the API server, so that it works while that is
// down.
func ReadMachine(ctx context.Context, r state.Reader, local node.Local) (node.Local, error) {
	local, err := ReadControlPlane(ctx, r, local)
	if err != nil {
		return local, err
	}
	local.Name, err = nodeName(ctx, r, local)
	return local, err
}

// ReadControlPlane is ReadMachine without the name, which needs the files of the kubelet. With an error
// it returns what it has read until then.
func ReadControlPlane(ctx context.Context, r state.Reader, local node.Local) (node.Local, error) {
	local.Role = node.Worker
	host, err := r.Host(ctx)
	if err != nil {
		return local, err
	}
	local = local.On(host.Platform)
	local.Hostname = strings.ToLower(strings.TrimSpace(host.Hostname))
	if local, err = ReadAPIServer(ctx, r, local); err != nil {
		return local, err
	}
	local.CRISocket, err = RuntimeSocket(ctx, r, local.Paths)
	return local, err
}

// ReadAPIServer is the part of ReadControlPlane that only reads the manifest of this machine's API server.
func ReadAPIServer(ctx context.Context, r state.Reader, local node.Local) (node.Local, error) {
	local.Role = node.Worker
	file := local.Paths.Manifest(release.APIServer)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil {
		return local, fmt.Errorf("reading %s: %w", file, err)
	}
	if data == nil {
		return local, nil
	}
	local.Role = node.ControlPlane
	if err := readAPIServer(data, &local); err != nil {
		return local, problem.During("reading "+file, err, "restore the file from a backup in "+local.Paths.Tmp())
	}
	return local, nil
}

// readAPIServer takes the address and port of this machine's API server, and the directory of the certificates, from its
// manifest.
func readAPIServer(data []byte, local *node.Local) error {
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return err
	}
	if dir, ok := manifest.CertificatesDir(&pod); ok {
		local.Paths.Certificates = dir
	}
	endpoint := pod.Annotations[manifest.EndpointAnnotation]
	if endpoint == "" {
		return fmt.Errorf("it has no annotation %s with the address of the API server",
			manifest.EndpointAnnotation)
	}
	address, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", manifest.EndpointAnnotation, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || net.ParseIP(address) == nil {
		return fmt.Errorf("annotation %s is not of the form IP:PORT: %q",
			manifest.EndpointAnnotation, endpoint)
	}
	local.Address, local.BindPort = address, int32(port)
	return nil
}

// nodeName is the name for which the kubelet's client certificate was issued.
func nodeName(ctx context.Context, r state.Reader, local node.Local) (string, error) {
	file := local.Paths.KubeletKubeconfig()
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil {
		return "", err
	}
	if data == nil && local.Name != "" {
		return local.Name, nil
	}
	if data == nil {
		return "", problem.New(fmt.Errorf(
			"this machine is not a node of a cluster: %s does not exist", file),
			"run the command on a node, or make this machine one: kubeadm init or kubeadm join")
	}
	config, err := pki.ParseKubeconfig(data)
	if err == nil {
		_, err = config.CurrentUser()
	}
	if err != nil {
		return "", problem.During("reading the name of this node from "+file, err,
			"restore the file from a backup, or remove the node and join it again")
	}
	config.ResolvePaths(path.Dir(file))
	read := func(name string) ([]byte, error) { return r.ReadFile(ctx, name) }
	certificates, err := config.ClientPair(read)
	if err != nil {
		return "", problem.During("reading the name of this node from "+file, err,
			"check the client certificate of the kubelet, which the file names")
	}
	if len(certificates) > 0 {
		if name, ok := strings.CutPrefix(certificates[0].Subject.CommonName, "system:node:"); ok {
			return name, nil
		}
	}
	return local.Hostname, nil
}
