//go:build windows

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"log"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/version"
)

// requestLimit is how long one request for a certificate may wait for its approval.
const requestLimit = 2 * time.Minute

// join requests a certificate where there is none, and registers the Node until that succeeds.
func (k *kubelet) join(ctx context.Context) error {
	for {
		err := k.tryJoin(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.Print(err)
		time.Sleep(time.Second)
	}
}

func (k *kubelet) tryJoin(ctx context.Context) error {
	current := filepath.Join(k.certificate, "kubelet-client-current.pem")
	if !fileExists(k.kubeconfig) || !fileExists(current) {
		if err := k.requestCertificate(ctx, current); err != nil {
			return fmt.Errorf("requesting a certificate: %w", err)
		}
	}
	as, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, k.node(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// requestCertificate writes the certificate with its key, and the kubeconfig that names them.
func (k *kubelet) requestCertificate(ctx context.Context, file string) error {
	bootstrap, err := clientcmd.LoadFromFile(k.bootstrap)
	if err != nil {
		return err
	}
	as, err := clientcmd.NewDefaultClientConfig(*bootstrap, nil).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	request, err := cert.MakeCSR(key, &pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + k.name}, nil, nil)
	if err != nil {
		return err
	}
	name, uid, err := csr.RequestCertificate(client, request, "", certificates.KubeAPIServerClientKubeletSignerName, nil,
		[]certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth}, key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	issued, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.certificate, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, append(issued, keyPEM...), 0o600); err != nil {
		return err
	}
	return clientcmd.WriteToFile(newKubeconfig(as, file), k.kubeconfig)
}

func newKubeconfig(as *rest.Config, file string) api.Config {
	const name = "default"
	return api.Config{
		Clusters: map[string]*api.Cluster{"default-cluster": {Server: as.Host, CertificateAuthorityData: as.CAData,
			CertificateAuthority: as.CAFile}},
		AuthInfos:      map[string]*api.AuthInfo{"default-auth": {ClientCertificate: file, ClientKey: file}},
		Contexts:       map[string]*api.Context{name: {Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}},
		CurrentContext: name,
	}
}

// node is never Ready, since no Pods run on it.
func (k *kubelet) node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: map[string]string{
			corev1.LabelHostname: k.name, corev1.LabelOSStable: goruntime.GOOS, corev1.LabelArchStable: goruntime.GOARCH,
		}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
				Reason: "Simulated", Message: "This kubelet is simulated and runs no Pods.",
			}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: version.Get().GitVersion, OperatingSystem: goruntime.GOOS, Architecture: goruntime.GOARCH,
			},
		},
	}
}
