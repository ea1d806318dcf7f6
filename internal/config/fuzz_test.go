package config

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// seeds are the contents of the files that match the pattern.
func seeds(f *testing.F, pattern string) (all [][]byte) {
	f.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// FuzzRead passes files to every command: none may panic, an error must name the file and a place
// in it and be the same each time, and an accepted cluster must be accepted again as it is
// stored.
func FuzzRead(f *testing.F) {
	for _, data := range seeds(f, "testdata/peer/*") {
		f.Add(data)
	}
	for _, text := range []string{
		joinHead + "discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: 'a:1', unsafeSkipCAVerification: true}}\ncontrolPlane: {}\n",
		resetHead + "unmountFlags: [MNT_FORCE]\n", "a: &a [*a, *a]\n", "---\n...\n--- {}\n",
		clusterHead + "etcd: {local: null, external: {}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := File{Name: "f", Data: data}
		read := func(command string, err error, again func() error) {
			checkErrorPlace(t, command, err)
			if second := again(); (err == nil) != (second == nil) || err != nil &&
				second.Error() != err.Error() {
				t.Errorf("%s: the second time it is %v, the first time %v", command, second, err)
			}
		}
		join := func() error { _, _, err := Join(file, NewJoinFlags(), testFacts(t)); return err }
		reset := func() error { _, _, err := Reset(file, NewResetFlags(), testFacts(t)); return err }
		begin := func() error { _, _, err := Init(file, NewInitFlags(), testFacts(t)); return err }
		read("join", join(), join)
		read("reset", reset(), reset)
		read("init", begin(), begin)
		storesTheSame(t, file)
	})
}

// place matches what an error must name: a document, a line, a field, or the missing kinds.
var place = regexp.MustCompile(`document \d+|line \d+|[a-z][A-Za-z0-9]*(\[[^\]]*\])?(\.[A-Za-z0-9]+(\[[^\]]*\])?)*: |it (has|is) `)

func checkErrorPlace(t *testing.T, command string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text, named := strings.CutPrefix(err.Error(), "configuration file f:")
	if !named || !place.MatchString(text) {
		t.Errorf("%s: the error names no file and place: %v", command, err)
	}
}

// storesTheSame checks that the stored document results in the same cluster.
func storesTheSame(t *testing.T, file File) {
	t.Helper()
	n, _, err := Init(file, NewInitFlags(), testFacts(t))
	if err != nil {
		return
	}
	again, _, err := Cluster(File{Name: "stored", Data: []byte(n.Cluster.Document)}, NewInitFlags(), testFacts(t))
	if err != nil {
		t.Fatalf("what would be stored is refused: %v\n%s", err, n.Cluster.Document)
	}
	if again.Document != n.Cluster.Document {
		t.Errorf("storing again changes the document:\n%s\n%s", n.Cluster.Document, again.Document)
	}
}

// FuzzConvert converts files of all versions to v1beta4: the result must be accepted and convert
// to itself, and an error must name the file and a place in it.
func FuzzConvert(f *testing.F) {
	for _, data := range seeds(f, "testdata/peer/*.yaml") {
		f.Add(data)
		f.Add([]byte(strings.ReplaceAll(string(data), "/v1beta4", "/v1")))
	}
	f.Add([]byte("apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer: {timeoutForControlPlane: 1m, extraArgs: {b: x, a: y}}\n"))
	f.Add([]byte("apiVersion: kubeadm.k8s.io/v1\nkind: ClusterConfiguration\nscheduler: {extraArgs: [{name: a, value: b, mergeMethod: append}]}\n"))
	f.Add([]byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\nplan: {printConfig: true}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, _, err := Migrate(File{Name: "f", Data: data, AllowDeprecated: true, AllowExperimental: true}, testFacts(t))
		checkErrorPlace(t, "migrate", err)
		if err != nil {
			return
		}
		once := printed(t, documents)
		documents, _, err = Migrate(File{Name: "f", Data: []byte(once)}, testFacts(t))
		if err != nil {
			t.Fatalf("what was converted is refused: %v\n%s", err, once)
		}
		if twice := printed(t, documents); twice != once {
			t.Errorf("what was converted converts into something else:\n%s\n%s", once, twice)
		}
	})
}

func printed(t *testing.T, documents []any) string {
	t.Helper()
	var texts []string
	for _, d := range documents {
		texts = append(texts, encoded(t, d))
	}
	return strings.Join(texts, "---\n")
}

// FuzzEndpoint checks that the parts of an accepted endpoint make up the same endpoint.
func FuzzEndpoint(f *testing.F) {
	for _, text := range []string{"api.example:6443", "api.example", "[fd00::1]:6443", "[fd00::1]", "fd00::1", "10.0.0.1:0", "a:b:c", "[a]:1", "[::1%eth0]:1", ":1", "x:+1", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, number, err := splitEndpoint(text)
		if err != nil {
			return
		}
		whole := host
		if number != "" {
			whole = net.JoinHostPort(host, number)
		}
		if again, same, err := splitEndpoint(whole); err != nil || again != host || same != number {
			t.Errorf("%q is %q, %q; put together %q, it is %q, %q, %v", text, host, number, whole, again, same, err)
		}
		if strings.ContainsAny(host, " []/%@") {
			t.Errorf("%q has the host %q", text, host)
		}
	})
}

// FuzzSubnets checks that accepted text is one CIDR, or one of each IP family, and that an error
// names the field and value.
func FuzzSubnets(f *testing.F) {
	for _, text := range []string{"10.244.0.0/16", "10.96.0.0/12,fd00::/112", "10.0.0.0/8, fd00::/8", "10.1.2.3/16", "fd00::/64,fd01::/64", "::ffff:10.0.0.0/104", "fe80::%a/64", "/", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, faults := checkSubnets(field.NewPath("networking", "podSubnet"), text, podBitsMin)
		if len(faults) > 0 {
			if got := faults.ToAggregate().Error(); !strings.HasPrefix(got, "networking.podSubnet: ") {
				t.Errorf("the error does not begin with the field: %s", got)
			}
			return
		}
		var parts []string
		families := map[bool]int{}
		for _, s := range list {
			parts = append(parts, s.String())
			families[s.Addr().Is4()]++
		}
		if families[true] > 1 || families[false] > 1 || len(list) == 0 {
			t.Errorf("%q was accepted as %v", text, list)
		}
		again, faults := checkSubnets(field.NewPath("x"), strings.Join(parts, ","), podBitsMin)
		if len(faults) > 0 || !samePrefixes(again, list) {
			t.Errorf("%q is %v, and that is %v, %v", text, list, again, faults)
		}
	})
}

func samePrefixes(a, b []netip.Prefix) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
