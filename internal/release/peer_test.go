package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upstreamImages is what upstream's kubeadm lists for a ClusterConfiguration. The
// test is skipped unless KUBEADM_PEER names that program.
func upstreamImages(t *testing.T, config string) []string {
	t.Helper()
	program := os.Getenv("KUBEADM_PEER")
	if program == "" {
		t.Skip("KUBEADM_PEER names no upstream kubeadm to compare with")
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n" + config
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(program, "config", "images", "list", "--config", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(output))
}

func TestImagesMatchUpstream(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		images Images
	}{
		"default":     {"kubernetesVersion: v1.37.1", Images{Target: parseTarget(t, "v1.37.1")}},
		"older minor": {"kubernetesVersion: v1.36.0", Images{Target: parseTarget(t, "v1.36.0")}},
		"newer minor": {"kubernetesVersion: v1.38.0-alpha.1+x.y",
			Images{Target: parseTarget(t, "v1.38.0-alpha.1+x.y")}},
		"CI build": {"kubernetesVersion: ci/v1.37.2-rc.0.4+abc",
			Images{Target: parseTarget(t, "ci/v1.37.2-rc.0.4+abc")}},
		"CI build, own registry": {"kubernetesVersion: ci/v1.37.2-rc.0.4+abc\nimageRepository: mirror",
			Images{Target: parseTarget(t, "ci/v1.37.2-rc.0.4+abc"), Repository: "mirror"}},
		"own registry": {"kubernetesVersion: v1.37.1\nimageRepository: reg:5000/k8s",
			Images{Target: parseTarget(t, "v1.37.1"), Repository: "reg:5000/k8s"}},
		"own DNS and etcd": {"kubernetesVersion: v1.37.1\nimageRepository: mirror\n" +
			"dns: {imageRepository: registry.k8s.io, imageTag: v1.0}\netcd: {local: {imageRepository: e, imageTag: 3.6.1-0}}",
			Images{Target: parseTarget(t, "v1.37.1"), Repository: "mirror",
				DNS: ImageChoice{DefaultRepository, "v1.0"}, Etcd: ImageChoice{"e", "3.6.1-0"}}},
		"nothing optional": {"kubernetesVersion: v1.37.1\ndns: {disabled: true}\nproxy: {disabled: true}\n" +
			"etcd: {external: {endpoints: [https://10.0.0.9:2379], caFile: /a, certFile: /b, keyFile: /c}}",
			Images{Target: parseTarget(t, "v1.37.1"), NoDNS: true, NoProxy: true,
				ExternalEtcd: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(upstreamImages(t, c.config), c.images.All()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
