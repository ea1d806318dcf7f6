//go:build e2e

package e2e

import "testing"

// TestControlPlaneOutputPhrases is TestOutputPhrases for a cluster with a controlPlaneEndpoint.
func TestControlPlaneOutputPhrases(t *testing.T) {
	s := sharedHACluster(t)
	checkPhrases(t, "init", withoutLibraryLog(s.initResult))
	checkPhrases(t, "join", withoutLibraryLog(s.joinResults[s.worker.Name()]))
	checkPhrases(t, "join of a control plane",
		withoutLibraryLog(s.joinResults[s.controlPlanes[1].Name()]))
	again, err := s.controlPlanes[1].Run(t.Context(), controlPlaneJoinCommand(kubeadm, s)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "join of a control plane", again)
	upload, err := s.cp.Run(t.Context(), kubeadm, "init", "phase", "upload-certs", "--upload-certs",
		"--certificate-key", flagValue(t, s.controlPlaneJoin, "--certificate-key"))
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "upload-certs", upload)
}
