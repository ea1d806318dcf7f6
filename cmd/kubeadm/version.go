package main

import (
	"fmt"
	"runtime"

	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/release"
)

// Set by the build: go build -ldflags "-X main.gitVersion=...".
var (
	gitVersion   = release.DefaultTool
	gitCommit    string
	gitTreeState string
	buildDate    string
)

// buildInfo is the version and the build of this program.
func buildInfo() version.Info {
	info := version.Info{
		GitVersion: gitVersion, GitCommit: gitCommit, GitTreeState: gitTreeState,
		BuildDate: buildDate,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH),
	}
	if tool, err := release.ParseTool(gitVersion); err == nil {
		info.Major, info.Minor = fmt.Sprint(tool.Version().Major()),
			fmt.Sprint(tool.Version().Minor())
	}
	return info
}
