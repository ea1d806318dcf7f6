package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// atLine calls then as soon as a text was written that has the words.
type atLine struct {
	io.Writer
	words string
	then  func()
}

func (w atLine) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.words)) {
		w.then()
	}
	return w.Writer.Write(p)
}

// interruptAt runs a command and interrupts it when it prints those words.
func (s *testMachine) interruptAt(words string, args ...string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.Out = atLine{&s.out, words, func() { cancel(errors.New("interrupted")) }}
	err := s.run(ctx, args...)
	s.Out = &s.out
	return err
}

// network is a machine whose network has an answer to every request.
type network struct {
	*fake.World
	answer state.Response
}

func (n *network) Fetch(context.Context, state.Request) (state.Response, error) {
	return n.answer, nil
}

var quick = []byte(`
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
encryptionAlgorithm: ECDSA-P256
`)

func (s *testMachine) initCluster(t *testing.T) {
	t.Helper()
	s.initClusterOf(t, quick)
}

func (s *testMachine) initClusterOf(t *testing.T, config []byte) {
	t.Helper()
	s.world.Files["/init.yaml"] = memory.File{Data: config, Mode: 0o644}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err != nil {
		t.Fatal(err)
	}
}

// What another command left is used as far as it goes, and the user reads where that is not far
// enough.
func TestExistingFilesForAnotherNodeNameAreWarnedAbout(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	for _, phase := range []string{"certs", "kubeconfig"} {
		if err := s.run(t.Context(), "init", "phase", phase, "all", "--config",
			"/init.yaml"); err != nil {
			t.Fatal(err)
		}
		if s.err.Len() > 0 {
			t.Errorf("%s: warned of what was asked for: %s", phase, &s.err)
		}
	}
	s.world.Files["/other.yaml"] = memory.File{Data: slices.Concat(
		[]byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {name: other}\n---"), quick), Mode: 0o644}
	for phase, want := range map[string]string{
		"certs":      `the existing "apiserver" certificate is not valid for other;`,
		"kubeconfig": "kubelet.conf is for system:node:",
	} {
		if err := s.run(t.Context(), "init", "phase", phase, "all", "--config",
			"/other.yaml"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.err.String(), want) {
			t.Errorf("%s: got %q, want %q in it", phase, &s.err, want)
		}
	}
}

func TestPatchesAreCheckedBeforeChanges(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/patches"] = memory.File{Mode: fs.ModeDir | 0o755}
	s.world.Files["/patches/kubeproxy.yaml"] = memory.File{Data: []byte("a: 1"), Mode: 0o644}
	s.world.Files["/patches/etcd.yaml"] = memory.File{Data: []byte("a: ["), Mode: 0o644}
	before := s.world.Snapshot()
	err := s.run(t.Context(), "init", "--kubernetes-version", "v1.37.1", "--patches", "/patches")
	if err == nil || !strings.Contains(err.Error(), "phase preflight: patch file") {
		t.Errorf("got %v, want that a patch file cannot be read", err)
	}
	if s.world.Snapshot() != before {
		t.Error("something was changed")
	}
	delete(s.world.Files, "/patches/etcd.yaml")
	s.world.Files["/patched.yaml"] = memory.File{Data: slices.Concat(
		[]byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\npatches: {directory: /patches}\n---"), quick), Mode: 0o644}
	if err := s.run(t.Context(), "init", "phase", "preflight", "--config",
		"/patched.yaml"); err != nil || !strings.Contains(s.err.String(), "is skipped: ") {
		t.Errorf("%v; got %q, want that a file is skipped", err, &s.err)
	}
}

func TestSinglePhaseNamesEachSkippedPatchFileOnce(t *testing.T) {
	for phase, target := range map[string]string{
		"control-plane all": "kube-apiserver.yaml", "etcd local": "etcd.yaml",
		"kubelet-start": "kubeletconfiguration.yaml",
	} {
		t.Run(phase, func(t *testing.T) {
			s := newTestMachine(t)
			s.world.Files["/patches"] = memory.File{Mode: fs.ModeDir | 0o755}
			for name, text := range map[string]string{"kubeapiserver.yaml": "a: 1",
				target: "# nothing\n---\n", "etcd.yml": "a: 1"} {
				s.world.Files["/patches/"+name] = memory.File{Data: []byte(text), Mode: 0o644}
			}
			s.world.Files["/patched.yaml"] = memory.File{Data: slices.Concat(
				[]byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\npatches: {directory: /patches}\n---"), quick), Mode: 0o644}
			for _, files := range []string{"certs", "kubeconfig"} {
				if err := s.run(t.Context(), "init", "phase", files, "all", "--config",
					"/patched.yaml"); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.run(t.Context(),
				append(append([]string{"init", "phase"}, strings.Fields(phase)...), "--config",
					"/patched.yaml")...); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`[patches] warning: patch file "/patches/kubeapiserver.yaml" is skipped: its name must begin with one of etcd, `,
				"did you mean kube-apiserver?",
				`patch file "/patches/` + target + `" is skipped: it is empty`,
				`patch file "/patches/etcd.yml" is skipped: its name must end in .yaml or .json`,
			} {
				if got := strings.Count(s.err.String(), want); got != 1 {
					t.Errorf("%q is there %d times in\n%s", want, got, &s.err)
				}
			}
		})
	}
}

var tokenInText = regexp.MustCompile(`--token (\S+)`)

func TestInitResumesAfterInterrupt(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	err := s.interruptAt("[kubelet-start] starting", "init", "--config", "/init.yaml")
	// A change in progress is finished, so the interrupt may take effect in a phase that waits for it.
	if err == nil || !regexp.MustCompile(`^phase [a-z/-]+: .*interrupted`).MatchString(err.Error()) {
		t.Fatalf("got %v, want the phase that was interrupted", err)
	}
	if hints := problem.Hints(err); !slices.ContainsFunc(hints,
		func(h string) bool { return strings.Contains(h, "re-run the command") }) {
		t.Errorf("hints %q do not say that the command goes on", hints)
	}
	kept, _ := s.journal.Load("values")
	if err := s.run(t.Context(), "init", "--config", "/init.yaml", "--upload-certs"); err != nil {
		t.Fatal(err)
	}
	m := tokenInText.FindStringSubmatch(s.out.String())
	if m == nil || !bytes.Contains(kept, []byte(m[1])) {
		t.Errorf("the token of the first run is not that of the second: %v", m)
	}
	if !strings.Contains(s.out.String(), `using the existing "ca"`) {
		t.Errorf("the second run did not go on with what the first made:\n%s", &s.out)
	}
}

func TestInitInterruptedBeforeFirstChange(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	before := s.world.Snapshot()
	err := s.interruptAt("[preflight]", "init", "--config", "/init.yaml")
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Fatalf("got %v, want that init was interrupted", err)
	}
	if hints := problem.Hints(err); !slices.Contains(hints, "nothing was changed: re-run the command") {
		t.Errorf("hints %q do not say that nothing was changed", hints)
	}
	if s.world.Snapshot() != before {
		t.Error("init changed the machine before it was interrupted")
	}
}

func TestInitResumesWithFixedArguments(t *testing.T) {
	s := newTestMachine(t)
	wrong := bytes.Replace(quick, []byte("kind: ClusterConfiguration\n"),
		[]byte("kind: ClusterConfiguration\nscheduler: {extraArgs: [{name: leader-elect-resource-name, value: loud}]}\n"), 1)
	if bytes.Equal(wrong, quick) {
		t.Fatal("the configuration has no ClusterConfiguration to change")
	}
	s.world.Files["/init.yaml"] = memory.File{Data: wrong, Mode: 0o644}
	if err := s.interruptAt("[wait-control-plane] waiting", "init", "--config",
		"/init.yaml"); err == nil {
		t.Fatal("the interruption was not heeded")
	}
	ca := s.world.Files["/etc/kubernetes/pki/ca.key"]
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err != nil {
		t.Fatal(err)
	}
	if manifest := s.world.Files["/etc/kubernetes/manifests/kube-scheduler.yaml"]; bytes.Contains(
		manifest.Data, []byte("loud")) {
		t.Error("the manifest still has the wrong argument")
	}
	if after := s.world.Files["/etc/kubernetes/pki/ca.key"]; !bytes.Equal(ca.Data, after.Data) {
		t.Error("the CA was made again")
	}
	s.world.Files["/init.yaml"] = memory.File{Data: wrong, Mode: 0o644}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err == nil {
		t.Error("a finished cluster took other arguments from an init")
	}
}

// What is behind a label changes from one day to the next. Whoever gives a command again did not
// ask for another version.
func TestVersionLabelIsKept(t *testing.T) {
	s := newTestMachine(t)
	s.world.Names["dl.k8s.io"] = []string{"192.0.2.80"}
	net := &network{World: s.world, answer: state.Response{Status: 200, Body: []byte("v1.37.1")}}
	s.Host.World = func() world.World { return net }
	s.world.Files["/init.yaml"] = memory.File{Data: bytes.Replace(quick, []byte("v1.37.1"),
		[]byte("stable-1"), 1), Mode: 0o644}
	if err := s.interruptAt("[kubelet-start] starting", "init", "--config",
		"/init.yaml"); err == nil {
		t.Fatal("the interruption was not heeded")
	}
	for _, c := range []struct{ now, want string }{
		{"v1.37.2", "stable-1 is now v1.37.2; continuing with v1.37.1"},
		{"v1.37.3", "nothing was changed"},
	} {
		net.answer.Body = []byte(c.now)
		if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err != nil {
			t.Fatalf("when the label stands for %s: %v", c.now, err)
		}
		if !strings.Contains(s.out.String(), c.want) {
			t.Errorf("when the label stands for %s, this is not said: %s\n%s", c.now, c.want,
				&s.out)
		}
	}
	for _, component := range []string{"kube-apiserver", "kube-scheduler"} {
		if text := s.world.Files["/etc/kubernetes/manifests/"+component+
			".yaml"].Data; !bytes.Contains(text, []byte(component+":v1.37.1")) {
			t.Errorf("%s is of another version:\n%s", component, text)
		}
	}
	s.world.Files["/init.yaml"] = memory.File{Data: bytes.Replace(quick, []byte("v1.37.1"),
		[]byte("v1.37.2"), 1), Mode: 0o644}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err == nil {
		t.Error("a finished cluster took another version from an init")
	}
}

func TestFinishedInitHonorsSkippedClosingText(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	err := s.run(t.Context(), "init", "--config", "/init.yaml", "--skip-phases",
		"show-join-command,mark-control-plane")
	if out := s.out.String(); err != nil || tokenInText.MatchString(out) ||
		!strings.Contains(out, "nothing was changed") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A value that an unfinished run kept is used again only if it was made from the same arguments.
func TestResumedInitTakesOtherTokensAndTTLs(t *testing.T) {
	const one, other = "aaaaaa.0123456789abcdef", "bbbbbb.fedcba9876543210"
	keys := []string{strings.Repeat("ab", 32), strings.Repeat("cd", 32)}
	expires := func(s *testMachine, token string) string {
		id, _, _ := strings.Cut(token, ".")
		ref := state.Ref{GVK: secretKind, Namespace: "kube-system", Name: "bootstrap-token-" + id}
		u, err := s.world.World.Object(t.Context(), ref)
		if err != nil {
			t.Fatalf("token %s: %v", token, err)
		}
		text, _, _ := unstructured.NestedString(u.Object, "data", "expiration")
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			return "never"
		}
		end, err := time.Parse(time.RFC3339, string(data))
		if err != nil {
			t.Fatal(err)
		}
		return end.Sub(s.world.Now()).Round(time.Hour).String()
	}
	tokens := func(fields string) string { return "bootstrapTokens: [{" + fields + "}]\n" }
	for name, c := range map[string]struct {
		first, second  string // of the InitConfiguration
		token, expires string // of the second run; an empty token is one of its own
	}{
		"another TTL": {"", tokens("ttl: 2h"), "", "2h0m0s"},
		"no end": {tokens("token: " + one), tokens("ttl: 0s, token: " + one), one,
			"never"},
		"an end": {tokens("ttl: 0s, token: " + one), tokens("token: " + one), one,
			"24h0m0s"},
		"a token for a random": {"", tokens("token: " + one), one, "24h0m0s"},
		"another token": {tokens("token: " + one), tokens("token: " + other), other,
			"24h0m0s"},
		"another token and TTL": {tokens("ttl: 1h, token: " + one),
			tokens("ttl: 3h, token: " + other), other, "3h0m0s"},
		"a random for a token": {tokens("token: " + one), "", "", "24h0m0s"},
		"the same TTL": {tokens("ttl: 9h, token: " + one), tokens("ttl: 9h, token: " + one),
			one, "4h0m0s"},
		"another key": {"certificateKey: " + keys[0] + "\n",
			"certificateKey: " + keys[1] + "\n", "", "19h0m0s"},
		"a key for a random": {"", "certificateKey: " + keys[1] + "\n", "", "19h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestMachine(t)
			begin := func(init string) []string {
				text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n" + init +
					"---" + string(quick) + "controlPlaneEndpoint: cluster.example:6443\n"
				s.world.Files["/init.yaml"] = memory.File{Data: []byte(text), Mode: 0o644}
				return []string{"init", "--config", "/init.yaml", "--upload-certs"}
			}
			if err := s.interruptAt("[addon] deploying CoreDNS", begin(c.first)...); err == nil {
				t.Fatal("the interruption was not heeded")
			}
			s.world.Clock = memory.NewTickingClock(s.world.Now().Add(5 * time.Hour))
			if err := s.run(t.Context(), begin(c.second)...); err != nil {
				t.Fatal(err)
			}
			m := tokenInText.FindStringSubmatch(s.out.String())
			if m == nil || c.token != "" && m[1] != c.token || c.token == "" &&
				(m[1] == one || m[1] == other) {
				t.Fatalf("the join command has the token %q", m)
			}
			if got := expires(s, m[1]); got != c.expires {
				t.Errorf("it expires in %s, want %s", got, c.expires)
			}
			if strings.Contains(c.second, keys[1]) &&
				!strings.Contains(s.out.String(), "--certificate-key "+keys[1]) {
				t.Errorf("the join command has another certificate key:\n%s", &s.out)
			}
			if err := s.run(t.Context(), begin(c.second)...); err != nil ||
				!strings.Contains(s.out.String(), m[1]) {
				t.Errorf("the finished run given again: %v; it does not show token %s:\n%s", err,
					m[1], &s.out)
			}
		})
	}
}

// Of two labels that stand for the same minor version, each keeps what it stood for.
func TestEachVersionLabelIsKeptApart(t *testing.T) {
	s := newTestMachine(t)
	s.world.Names["dl.k8s.io"] = []string{"192.0.2.80"}
	net := &network{World: s.world, answer: state.Response{Status: 200, Body: []byte("v1.37.1")}}
	s.Host.World = func() world.World { return net }
	begin := func(label string) []string {
		s.world.Files["/init.yaml"] = memory.File{Data: bytes.Replace(quick, []byte("v1.37.1"),
			[]byte(label), 1), Mode: 0o644}
		return []string{"init", "--config", "/init.yaml"}
	}
	if err := s.interruptAt("[kubelet-start] starting", begin("stable-1")...); err == nil {
		t.Fatal("the interruption was not heeded")
	}
	net.answer.Body = []byte("v1.37.3")
	if err := s.run(t.Context(), begin("stable-1.37")...); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.out.String(), "using Kubernetes version v1.37.3") {
		t.Errorf("another version is used:\n%s", &s.out)
	}
}

func TestInitWithOtherSettingsIsRefused(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	if err := s.interruptAt("[kubelet-start] starting", "init", "--config",
		"/init.yaml"); err == nil {
		t.Fatal("the interruption was not heeded")
	}
	err := s.run(t.Context(), "init", "--kubernetes-version", "v1.36.1")
	if err == nil {
		t.Fatal("files of an unfinished run were taken for others")
	}
	want := "an unfinished \"kubeadm init\" with other settings left files here"
	if hints := problem.Hints(err); !slices.ContainsFunc(hints,
		func(h string) bool { return strings.Contains(h, want) }) {
		t.Errorf("hints %q do not say %q", hints, want)
	}
}

func TestRunWithoutChangesLeavesNoJournal(t *testing.T) {
	s := newTestMachine(t)
	s.world.Sockets = nil
	if err := s.run(t.Context(), "init", "--kubernetes-version", "v1.37.1"); err == nil {
		t.Fatal("init without a container runtime succeeds")
	}
	for _, name := range []string{"journal", "values"} {
		if data, err := s.journal.Load(name); err == nil {
			t.Errorf("the journal keeps %s", data)
		}
	}
}

func TestRefusedRunKeepsJournal(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	before, _ := s.journal.Load("journal")
	if err := s.run(t.Context(), "init", "--kubernetes-version", "v1.36.1"); err == nil {
		t.Fatal("a second cluster was made on the machine")
	}
	if after, _ := s.journal.Load("journal"); len(before) == 0 || !bytes.Equal(before, after) {
		t.Errorf("the journal was %d bytes long and now is %d", len(before), len(after))
	}
}

func TestSinglePhaseGeneratesNewToken(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	var tokens []string
	for range 2 {
		if err := s.run(t.Context(), "init", "phase", "bootstrap-token", "--config",
			"/init.yaml"); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, regexp.MustCompile(`using token: (\S+)`).FindString(s.out.String()))
	}
	if tokens[0] == "" || tokens[0] == tokens[1] {
		t.Errorf("two runs made up %q", tokens)
	}
}

func TestDryRunKeepsJournalUnchanged(t *testing.T) {
	s := newTestMachine(t)
	s.initCluster(t)
	before, _ := s.journal.Load("journal")
	if err := s.run(t.Context(), "init", "--config", "/init.yaml", "--dry-run"); err != nil {
		t.Fatal(err)
	}
	if after, _ := s.journal.Load("journal"); !bytes.Equal(before, after) {
		t.Errorf("the journal grew by %s", after[len(before):])
	}
	if strings.Contains(s.out.String(), "would write file") {
		t.Errorf("the dry run of a finished init would write files:\n%s", &s.out)
	}
}
