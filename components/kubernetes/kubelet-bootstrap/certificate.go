package main

import (
	"context"
	"crypto/tls"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/certificate"
	"k8s.io/kubernetes/pkg/kubelet/certificate/bootstrap"
)

// requestCertificate requests a client certificate and waits for it, as a kubelet with certificate
// rotation does: the kubeconfig is written first and names the file where the certificate will be.
func (k *kubelet) requestCertificate(ctx context.Context) (*rest.Config, error) {
	first, own, err := k.loadClientConfig(ctx)
	if err != nil {
		return nil, err
	}
	for _, as := range []*rest.Config{first, own} {
		as.ContentType = runtime.ContentTypeProtobuf
		as.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	client := func(current *tls.Certificate) (kubernetes.Interface, error) {
		if current == nil {
			return kubernetes.NewForConfig(first)
		}
		return kubernetes.NewForConfig(own)
	}
	manager, err := certificate.NewKubeletClientCertificateManager(
		k.certificate, types.NodeName(k.name), own.CertData, own.KeyData, own.CertFile, own.KeyFile, client)
	if err != nil {
		return nil, err
	}
	manager.Start()
	return own, awaitCondition(ctx, "the certificate", func() bool { return manager.Current() != nil })
}

// loadClientConfig calls bootstrap.LoadClientConfig, which takes no logger before v1.35.
// It returns the configurations that request the certificate and use it.
func (k *kubelet) loadClientConfig(ctx context.Context) (first, own *rest.Config, err error) {
	switch load := any(bootstrap.LoadClientConfig).(type) {
	case func(kubeconfig, bootstrap, directory string) (*rest.Config, *rest.Config, error):
		return load(k.kubeconfig, k.bootstrap, k.certificate)
	case func(
		logger klog.Logger, kubeconfig, bootstrap, directory string,
	) (*rest.Config, *rest.Config, error):
		return load(klog.FromContext(ctx), k.kubeconfig, k.bootstrap, k.certificate)
	default:
		return nil, nil, fmt.Errorf("calling bootstrap.LoadClientConfig: unsupported signature %T", load)
	}
}
