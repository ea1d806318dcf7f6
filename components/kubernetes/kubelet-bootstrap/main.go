// Command kubelet-bootstrap simulates the start of a kubelet on a machine that joins a cluster:
// with the kubelet's own code it requests a client certificate with the bootstrap kubeconfig, and
// registers its Node. It runs no Pods, so that many machines can be simulated on one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

// healthAddress is the address of the kubelet's health endpoint.
const healthAddress = "127.0.0.1:10248"

// runLimit ends a kubelet whose machine does not join.
const runLimit = 10 * time.Minute

// kubelet holds the Node's name and the paths of files. The flags have the names of the real
// kubelet's.
type kubelet struct {
	name                                       string
	config, bootstrap, kubeconfig, certificate string
}

func main() {
	k := kubelet{}
	flag.StringVar(&k.config, "config", "/var/lib/kubelet/config.yaml", "`file` that the kubelet waits for")
	flag.StringVar(&k.bootstrap, "bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubelet.conf", "bootstrap kubeconfig `file`; the program exits when it is removed")
	flag.StringVar(&k.kubeconfig, "kubeconfig", "/etc/kubernetes/kubelet.conf", "`file` to write the kubelet's kubeconfig to")
	flag.StringVar(&k.certificate, "cert-dir", "/var/lib/kubelet/pki", "`directory` for the certificate")
	flag.StringVar(&k.name, "hostname-override", "", "`name` of the Node (default: the host's)")
	printVersion := flag.Bool("version", false, "print the version of Kubernetes and exit")
	flag.Parse()
	if *printVersion {
		fmt.Println("Kubernetes", version.Get().GitVersion)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	if err := k.run(ctx); err != nil {
		klog.ErrorS(err, "The simulated kubelet failed", "node", k.name)
		os.Exit(1)
	}
}

// run waits for the configuration, registers the Node, and returns when kubeadm has removed the
// bootstrap kubeconfig, which join does last.
func (k *kubelet) run(ctx context.Context) (err error) {
	if k.name == "" {
		if k.name, err = os.Hostname(); err != nil {
			return err
		}
	}
	if err := awaitCondition(ctx, "the configuration", func() bool { return fileExists(k.config) }); err != nil {
		return err
	}
	if err := serveHealth(ctx); err != nil {
		return err
	}
	as, err := k.requestCertificate(ctx)
	if err != nil {
		return fmt.Errorf("requesting a certificate: %w", err)
	}
	if err := k.register(ctx, as); err != nil {
		return fmt.Errorf("registering the node: %w", err)
	}
	return awaitCondition(ctx, "kubeadm to remove the bootstrap kubeconfig", func() bool { return !fileExists(k.bootstrap) })
}

// serveHealth starts the health endpoint, which always reports ok.
func serveHealth(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", healthAddress)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { klog.ErrorS(server.Serve(listener), "The health endpoint stopped") }()
	return nil
}

// awaitCondition polls often: its delay is part of what is measured.
func awaitCondition(ctx context.Context, name string, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", name, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
