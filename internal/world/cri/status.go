package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/state"
)

// Runtime returns the status of the runtime; an error means that it does not answer.
func (r Runtimes) Runtime(ctx context.Context, socket string) (state.Runtime, error) {
	c, err := connect(ctx, socket, firstLimit)
	if err != nil {
		return state.Runtime{}, err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	// A runtime without an image service cannot run Pods.
	if _, err := c.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err != nil {
		return state.Runtime{}, newNoAnswerError(socket, err)
	}
	s, err := c.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return state.Runtime{}, newNoAnswerError(socket, err)
	}
	found := state.Runtime{Name: c.version.RuntimeName, Version: c.version.RuntimeVersion}
	var verbose struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(s.Info["config"]), &verbose) == nil { // not all runtimes have it
		found.SandboxImage = verbose.SandboxImage
	}
	found.Ready, found.Reason = runtimeReadiness(s.Status)
	config, err := c.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
	case err != nil:
		found.DriverError = unwrapGRPCError(err).Error()
	case config.Linux != nil:
		found.CgroupDriver = strings.ToLower(config.Linux.CgroupDriver.String())
	}
	found.ReportsDriver = found.CgroupDriver != ""
	return found, nil
}

// runtimeReadiness reads the condition RuntimeReady. The condition NetworkReady is ignored, as it
// depends on the network add-on.
func runtimeReadiness(s *runtimeapi.RuntimeStatus) (ok bool, reason string) {
	for _, c := range s.GetConditions() {
		if c.Type == runtimeapi.RuntimeReady {
			if c.Status {
				return true, ""
			}
			return false, fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return false, "its status has no condition " + runtimeapi.RuntimeReady
}
