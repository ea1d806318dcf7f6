package main

import (
	"context"
	"errors"
	"net"
	goruntime "runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
)

// register creates the Node. It is never Ready, since it runs no Pods.
func (k *kubelet) register(ctx context.Context, as *rest.Config) error {
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		return err
	}
	address, err := ownAddress()
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, k.node(address), metav1.CreateOptions{})
	return err
}

func (k *kubelet) node(address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: map[string]string{
			corev1.LabelHostname: k.name, corev1.LabelOSStable: goruntime.GOOS, corev1.LabelArchStable: goruntime.GOARCH,
		}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: k.name},
			},
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

// ownAddress returns the first global unicast address of the machine.
func ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address")
}
