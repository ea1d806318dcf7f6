package config

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead feeds files to every command: none may panic, and a cluster that was
// accepted must be accepted again as it is stored.
func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/peer/*")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range seeds {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		joinHead + "discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: 'a:1', unsafeSkipCAVerification: true}}\ncontrolPlane: {}\n",
		resetHead + "unmountFlags: [MNT_FORCE]\n", "a: &a [*a, *a]\n", "---\n...\n--- {}\n", clusterHead + "etcd: {local: null, external: {}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, facts := File{Name: "f", Data: data}, aMachine(t)
		_, _, _ = Join(file, NewJoinFlags(), facts)
		_, _, _ = Reset(file, NewResetFlags(), facts)
		n, _, err := Init(file, NewInitFlags(), facts)
		if err != nil {
			return
		}
		again, _, err := Cluster(File{Name: "stored", Data: []byte(n.Cluster.Document)}, NewInitFlags(), facts)
		if err != nil {
			t.Fatalf("what would be stored is refused: %v\n%s", err, n.Cluster.Document)
		}
		if again.Document != n.Cluster.Document {
			t.Errorf("storing again changes the document:\n%s\n%s", n.Cluster.Document, again.Document)
		}
	})
}
