package main

import (
	"fmt"
	"runtime"

	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/release"
)

// What a build says of itself: go build -ldflags "-X main.gitVersion=...".
var (
	gitVersion   = release.DefaultTool
	gitCommit    string
	gitTreeState string
	buildDate    string
)

// buildInfo is what this program was built from.
func buildInfo() version.Info {
	info := version.Info{
		GitVersion: gitVersion, GitCommit: gitCommit, GitTreeState: gitTreeState, BuildDate: buildDate,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH),
	}
	if tool, err := release.ParseTool(gitVersion); err == nil {
		info.Major, info.Minor = fmt.Sprint(tool.Version().Major()), fmt.Sprint(tool.Version().Minor())
	}
	return info
}
