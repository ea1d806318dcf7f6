package kube_test

import (
	"os"
	"testing"

	"kubeadm/internal/world/kube"
	"kubeadm/internal/world/worldtest"
	"kubeadm/internal/world/worldtest/plane"
)

func TestRealObjects(t *testing.T) {
	a := plane.StartAPIServer(t)
	worldtest.Objects(t, kube.New(os.ReadFile), a.Admin)
}
