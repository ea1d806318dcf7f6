// Command kubelet-bootstrap is a kubelet in the first seconds of its life on a machine that joins a cluster, and no longer:
// by the kubelet's own code it trades the bootstrap credential for a certificate; with that it registers its Node. It
// runs no Pods, so that many machines can be simulated on one.
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

// The address where kubeadm asks a kubelet whether it is well.
const healthAddress = "127.0.0.1:10248"

// limit ends a kubelet whose machine never came to join.
const limit = 10 * time.Minute

// kubelet knows where its files are. The flags are named as the real one's.
type kubelet struct {
	name                                       string
	config, bootstrap, kubeconfig, certificate string
}

func main() {
	k := kubelet{}
	flag.StringVar(&k.config, "config", "/var/lib/kubelet/config.yaml", "`file` whose arrival starts the kubelet")
	flag.StringVar(&k.bootstrap, "bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubelet.conf", "`file` with the bootstrap credential; the program ends when it is removed")
	flag.StringVar(&k.kubeconfig, "kubeconfig", "/etc/kubernetes/kubelet.conf", "`file` to write the kubelet's own kubeconfig to")
	flag.StringVar(&k.certificate, "cert-dir", "/var/lib/kubelet/pki", "`directory` for the certificate")
	flag.StringVar(&k.name, "hostname-override", "", "`name` of the Node (default: the host's)")
	tell := flag.Bool("version", false, "print the version of Kubernetes and end")
	flag.Parse()
	if *tell {
		fmt.Println("Kubernetes", version.Get().GitVersion)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := k.live(ctx); err != nil {
		klog.ErrorS(err, "The simulated kubelet failed", "node", k.name)
		os.Exit(1)
	}
}

// live goes through all that is simulated: it starts when there is a configuration and ends when kubeadm has taken the
// bootstrap credential away, which is the last thing that a join does.
func (k *kubelet) live(ctx context.Context) (err error) {
	if k.name == "" {
		if k.name, err = os.Hostname(); err != nil {
			return err
		}
	}
	if err := await(ctx, "the configuration", func() bool { return exists(k.config) }); err != nil {
		return err
	}
	if err := sayWell(ctx); err != nil {
		return err
	}
	as, err := k.credential(ctx)
	if err != nil {
		return fmt.Errorf("asking for a certificate: %w", err)
	}
	if err := k.register(ctx, as); err != nil {
		return fmt.Errorf("registering the node: %w", err)
	}
	return await(ctx, "kubeadm to remove the bootstrap credential", func() bool { return !exists(k.bootstrap) })
}

// sayWell answers every question for the kubelet's health from now on.
func sayWell(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", healthAddress)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { klog.ErrorS(server.Serve(listener), "Nobody is told of the kubelet's health any more") }()
	return nil
}

// await asks often: the time until it notices is part of what is measured.
func await(ctx context.Context, what string, so func() bool) error {
	for !so() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
