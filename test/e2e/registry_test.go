//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"golang.org/x/sys/unix"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// The registry listens on the gateway of all nodes.
const (
	registryHost     = "10.77.0.1:" + registryPort
	registryPort     = "5000"
	mirrorRepository = registryHost + "/mirror"
)

// testRegistry is an image registry with TLS by a CA of its own. It records which images are
// requested, and can delay its responses.
type testRegistry struct {
	cluster     *nodes.Cluster
	certificate tls.Certificate
	images      http.Handler
	server      *http.Server // nil: connections are refused

	mu sync.Mutex
	// images, once for each request of their manifest by tag
	requested []string
	// called before each response; may be nil
	before func(http.ResponseWriter, *http.Request, string)
}

// newTestRegistry starts an empty registry that the node's container runtime trusts.
func newTestRegistry(t *testing.T, n *nodes.Node) *testRegistry {
	t.Helper()
	address, _, err := net.SplitHostPort(registryHost)
	if err != nil {
		t.Fatal(err)
	}
	ca := newTestCA(t, "registry")
	cert, key := issueCertificate(t, ca,
		pki.Spec{CommonName: "registry", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			SANs: pki.SANs{IPs: []net.IP{net.ParseIP(address)}}})
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	s := &testRegistry{cluster: n.Cluster(), certificate: pair,
		images: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	s.open(t)
	t.Cleanup(s.close)
	dir := "/etc/containerd/certs.d/" + registryHost
	writeFile(t, n, dir+"/ca.crt", string(pki.EncodeCertificates(ca.Certificate)))
	writeFile(t, n, dir+"/hosts.toml", "[host.'https://"+registryHost+"']\nca = '"+dir+"/ca.crt'\n")
	return s
}

func (s *testRegistry) open(t *testing.T) {
	t.Helper()
	listener, err := s.cluster.Listen(registryPort)
	if err != nil {
		t.Fatal(err)
	}
	s.server = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go s.server.Serve(tls.NewListener(listener,
		&tls.Config{Certificates: []tls.Certificate{s.certificate}}))
}

// close closes all connections and refuses new ones.
func (s *testRegistry) close() {
	if s.server != nil {
		s.server.Close()
		s.server = nil
	}
}

func (s *testRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, tag, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	image := ""
	if ok && r.Method == http.MethodHead && !strings.Contains(tag, ":") {
		image = registryHost + "/" + name + ":" + tag
	}
	s.mu.Lock()
	before := s.before
	if image != "" {
		s.requested = append(s.requested, image)
	}
	s.mu.Unlock()
	if before != nil {
		before(w, r, image)
	}
	s.images.ServeHTTP(w, r)
}

// onRequest clears the recorded images, and sets what is called before each response: with the
// image whose manifest is requested, or "".
func (s *testRegistry) onRequest(
	before func(w http.ResponseWriter, r *http.Request, image string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested, s.before = nil, before
}

// requestedImages lists the images that were requested since onRequest, sorted.
func (s *testRegistry) requestedImages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.requested)))
}

// runCtr runs `ctr images`.
func runCtr(t *testing.T, n *nodes.Node, args ...string) {
	t.Helper()
	runCommand(t, n, append([]string{"ctr", "--namespace=k8s.io", "images"}, args...)...)
}

// moveImagesFrom pushes the images of a control plane from the node to the registry, removes them
// from the node, and returns their names in the registry.
func (s *testRegistry) moveImagesFrom(t *testing.T, n *nodes.Node) []string {
	t.Helper()
	list := []string{kubeadm, "config", "images", "list", "--kubernetes-version", "v1.37.1"}
	local := strings.Fields(runCommand(t, n, list...))
	images := strings.Fields(runCommand(t, n,
		append(list, "--image-repository", mirrorRepository)...))
	for i, image := range images {
		runCtr(t, n, "tag", local[i], image)
		runCtr(t, n, "push", "--hosts-dir=/etc/containerd/certs.d", image)
	}
	removeImages(t, n)
	return images
}

// removeImages removes all images from the node, by all of their names.
func removeImages(t *testing.T, n *nodes.Node) {
	t.Helper()
	runShell(t, n, "ctr --namespace=k8s.io images rm --sync $(ctr --namespace=k8s.io images ls --quiet) >/dev/null")
}

// TestPrivateRegistry pulls all images of a control plane from a private registry, with both
// commands that pull. The registry lacks some images, hangs and is down; pull policies are
// honoured.
func TestPrivateRegistry(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	runShell(t, n, `cat >>/etc/containerd/config.toml <<END
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
END
		systemctl restart containerd`)
	s := newTestRegistry(t, n)
	images := s.moveImagesFrom(t, n)
	pull := []string{kubeadm, "config", "images", "pull", "--image-repository", mirrorRepository,
		"--kubernetes-version", "v1.37.1"}
	t.Run("pull", func(t *testing.T) { testPull(t, s, n, images, pull) })
	t.Run("a tag is missing", func(t *testing.T) {
		result := checkFails(t, n,
			[]string{mirrorRepository + "/kube-scheduler:v1.37.0",
				mirrorRepository + "/kube-proxy:v1.37.0", "not found", "--image-repository"},
			kubeadm, "config", "images", "pull", "--image-repository", mirrorRepository,
			"--kubernetes-version", "v1.37.0")
		if !strings.Contains(result.Stdout, "Pulled "+mirrorRepository+"/coredns:") {
			t.Errorf("an image that exists was not pulled:\n%s", result.Stdout)
		}
		t.Log(result.Stderr)
	})
	t.Run("registry hangs",
		func(t *testing.T) {
			testHangingRegistry(t, s, n,
				images[slices.IndexFunc(images, isPauseImage)], pull)
		})
	t.Run("preflight", func(t *testing.T) { testPreflightPulls(t, s, n, images) })
}

func isPauseImage(image string) bool { return strings.Contains(image, "/pause:") }

// testPull checks that each image is printed and pulled; a second run contacts the registry again.
func testPull(t *testing.T, s *testRegistry, n *nodes.Node, images, pull []string) {
	var want []string
	for _, image := range images {
		want = append(want, "[config/images] Pulled "+image)
	}
	for range 2 {
		s.onRequest(nil)
		if got := runCommand(t, n, pull...); got != strings.Join(want, "\n") {
			t.Errorf("want %q, got:\n%s", want, got)
		}
		if got := s.requestedImages(); !slices.Equal(got, slices.Sorted(slices.Values(images))) {
			t.Errorf("these images were requested: %q", got)
		}
	}
	local := strings.Split(runCommand(t, n, "ctr", "--namespace=k8s.io", "images", "ls", "--quiet"),
		"\n")
	for _, image := range images {
		if !slices.Contains(local, image) {
			t.Errorf("%s is not on the node: %q", image, local)
		}
	}
}

// testHangingRegistry lets the registry hang when an image is requested. The command reports that
// it waits, and ends with SIGINT.
func testHangingRegistry(t *testing.T, s *testRegistry, n *nodes.Node, pause string,
	pull []string) {
	asked := make(chan bool, 100)
	s.onRequest(func(_ http.ResponseWriter, r *http.Request, image string) {
		if image == pause {
			asked <- true
			<-r.Context().Done()
		}
	})
	defer s.onRequest(nil)
	const errors = "/root/pull.log" // read while the command runs
	p, err := n.Start(t.Context(),
		append([]string{"sh", "-c", `exec "$0" "$@" 2>` + errors}, pull...)...)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(waitLimit):
		t.Error("the image is not requested")
	}
	await(t, "the command to report that it waits", waitLimit, func() error {
		if printed := readFile(t, n, errors); !strings.Contains(printed,
			fmt.Sprintf("[config] pull image %q: still running after ", pause)) {
			return fmt.Errorf("it printed %q", printed)
		}
		return nil
	})
	if err := p.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	result, _ := p.Wait() // Its output is checked below.
	result.Stderr = readFile(t, n, errors)
	checkError(t, result, []string{"stopped while pulling images: interrupted"})
	if strings.Contains(result.Stderr, "--image-repository") {
		t.Errorf("after an interrupt the error gives hints about the registry:\n%s", result.Stderr)
	}
}

// testPreflightPulls checks that the phase preflight honours the pull policy, and pulls in
// parallel if imagePullSerial is false.
func testPreflightPulls(t *testing.T, s *testRegistry, n *nodes.Node, images []string) {
	preflight := func(registration string) []string {
		writeFile(t, n, initConfigFile, nodes.InitConfig(nodes.Config{
			Address: n.Address(), Registration: registration,
			Cluster: "imageRepository: " + mirrorRepository,
		}))
		s.onRequest(nil)
		return []string{kubeadm, "init", "phase", "preflight", "--config", initConfigFile}
	}
	asks := func(want ...string) {
		t.Helper()
		if got := s.requestedImages(); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("these images were requested: %q, want %q", got, want)
		}
	}
	runCommand(t, n, preflight("  imagePullPolicy: Always\n")...)
	asks(images...)
	runCommand(t, n, preflight("  imagePullPolicy: IfNotPresent\n")...)
	asks()
	runCtr(t, n, "rm", "--sync", images[2], images[3])
	runCommand(t, n, preflight("  imagePullPolicy: Never\n")...)
	asks()
	var asked []string // The runtime may notice one missing image before the other.
	await(t, "the runtime to notice that images are gone", waitLimit, func() error {
		runCommand(t, n, preflight("  imagePullPolicy: IfNotPresent\n")...)
		asked = slices.Sorted(slices.Values(append(asked, s.requestedImages()...)))
		if want := slices.Sorted(slices.Values(images[2:4])); !slices.Equal(asked, want) {
			return fmt.Errorf("these images were requested: %q, want %q", asked, want)
		}
		return nil
	})

	command := preflight("  imagePullPolicy: Always\n  imagePullSerial: false\n")
	// respond when all images have been requested
	s.onRequest(func(_ http.ResponseWriter, r *http.Request, _ string) {
		for len(s.requestedImages()) < len(images) && r.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	})
	runCommand(t, n, command...)
	asks(images...)
	t.Run("registry is down", func(t *testing.T) {
		s.close()
		checkFails(t, n, append([]string{"[ERROR ImagePull]", "connection refused"}, images...),
			command...)
		result := checkFails(t, n,
			append([]string{"connection refused", "check the image names and the registry"},
				images...),
			kubeadm, "config", "images", "pull", "--config", initConfigFile)
		t.Log(result.Stderr)
	})
}
