// Command kubeadm-upstream is upstream's own kubeadm, the peer that ours is compared with. It stands
// alone, so that its size, time and memory are those of a release.
package main

import (
	"k8s.io/kubernetes/cmd/kubeadm/app"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
)

func main() {
	errors.HandleError(app.Run())
}
