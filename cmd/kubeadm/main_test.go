package main

import (
	"testing"

	"kubeadm/internal/release"
	"kubeadm/internal/world/real"
)

func TestUserAgent(t *testing.T) {
	if agent := newHost().World().(*real.World).UserAgent; agent != "kubeadm/"+release.DefaultTool {
		t.Errorf("the user agent is %q", agent)
	}
}
