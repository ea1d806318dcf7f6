//go:build windows

// Command kubelet-windows stands for the kubelet of a Windows machine: a service that requests a client
// certificate with the bootstrap kubeconfig, registers its Node and serves /healthz. It runs no Pods. Wine
// has no symbolic links, so the certificate is in the file that a kubelet would link to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows/svc"
	"k8s.io/component-base/version"
)

// healthAddress is the address of the kubelet's health endpoint.
const healthAddress = "127.0.0.1:10248"

// kubelet holds the Node's name and the paths of files. The flags have the names of the real
// kubelet's, and are given as StartKubelet.ps1 of sig-windows-tools does.
type kubelet struct {
	name                                       string
	config, bootstrap, kubeconfig, certificate string
}

func main() {
	k := &kubelet{}
	flag.StringVar(&k.config, "config", `C:\var\lib\kubelet\config.yaml`, "configuration `file`")
	flag.StringVar(&k.bootstrap, "bootstrap-kubeconfig", `C:\etc\kubernetes\bootstrap-kubelet.conf`, "bootstrap kubeconfig `file`")
	flag.StringVar(&k.kubeconfig, "kubeconfig", `C:\etc\kubernetes\kubelet.conf`, "`file` to write the kubelet's kubeconfig to")
	flag.StringVar(&k.certificate, "cert-dir", `C:\var\lib\kubelet\pki`, "`directory` for the certificate")
	flag.StringVar(&k.name, "hostname-override", "", "`name` of the Node (default: the host's)")
	asService := flag.Bool("windows-service", false, "run as a service of Windows")
	logDir := flag.String("log-dir", `C:\var\log\kubelet`, "`directory` of the log file")
	printVersion := flag.Bool("version", false, "print the version of Kubernetes and exit")
	flag.Parse()
	switch {
	case *printVersion:
		fmt.Println("Kubernetes", version.Get().GitVersion)
	case *asService:
		if err := logTo(*logDir); err != nil {
			log.Fatal(err)
		}
		if err := svc.Run("kubelet", k); err != nil {
			log.Fatal(err)
		}
	default:
		log.Fatal(k.run(context.Background()))
	}
}

func logTo(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "kubelet.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		log.SetOutput(f)
	}
	return err
}

// Execute runs until the service is stopped or fails.
func (k *kubelet) Execute(_ []string, requests <-chan svc.ChangeRequest, report chan<- svc.Status) (bool, uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- k.run(ctx) }()
	report <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case err := <-failed:
			log.Print("The kubelet failed: ", err)
			return true, 1
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				report <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				report <- svc.Status{State: svc.StopPending}
				return false, 0
			}
		}
	}
}

// run serves the health endpoint and registers the Node. It returns only an error.
func (k *kubelet) run(ctx context.Context) (err error) {
	if _, err := os.Stat(k.config); err != nil {
		return err
	}
	if k.name == "" {
		if k.name, err = os.Hostname(); err != nil {
			return err
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", healthAddress)
	if err != nil {
		return err
	}
	go func() {
		if err := k.join(ctx); err != nil {
			log.Print("Joining the cluster failed: ", err)
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
