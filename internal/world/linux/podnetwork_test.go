//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

func TestParseVirtualServers(t *testing.T) {
	got := parseVirtualServers(`IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> C0A80002:192B      Masq    1      3          0
UDP  [2001:0db8:0000:0000:0000:0000:0000:0001]:0035 rr persistent 10800
FWM  00000001 wlc
`)
	want := []state.VirtualServer{{Protocol: "TCP", IP: "10.96.0.1", Port: 443},
		{Protocol: "UDP", IP: "2001:db8::1", Port: 53}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// On distributions with one implementation of iptables its programs have no suffix.
func TestFindIPTables(t *testing.T) {
	for name, c := range map[string]struct {
		installed []string
		want      map[string]string // by program; all others are missing
	}{
		"both": {[]string{"iptables", "iptables-nft", "iptables-legacy"},
			map[string]string{"iptables-nft": "iptables-nft", "iptables-legacy": "iptables-legacy"}},
		"old":      {[]string{"iptables"}, map[string]string{"iptables-legacy": "iptables"}},
		"nft only": {[]string{"iptables", "iptables-nft"}, map[string]string{"iptables-nft": "iptables-nft"}},
		"none":     {nil, nil},
	} {
		bin := t.TempDir()
		t.Setenv("PATH", bin)
		for _, program := range c.installed {
			script := "#!/bin/sh\necho rules of " + program + "\n"
			if err := os.WriteFile(filepath.Join(bin, program+"-save"), []byte(script),
				0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, program := range []string{"iptables-nft", "iptables-legacy", "ip6tables-nft"} {
			rules, err := Machine{}.PacketRules(t.Context(), program)
			want := c.want[program]
			if (err == nil) != (want != "") || err == nil && rules != "rules of "+want+"\n" {
				t.Errorf("%s, %s: got %q and %v, want those of %q", name, program, rules, err, want)
			}
		}
	}
}

// A failed iptables-restore is an error with its message.
func TestFailedRemovalOfRules(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	for program, script := range map[string]string{
		"iptables-nft-save":    `printf '*nat\n:KUBE-FORWARD - [0:0]\nCOMMIT\n'`,
		"iptables-nft-restore": "cat > $0.input; echo line 3 failed >&2; exit 1",
	} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := Machine{}.Do(t.Context(), change.RemovePacketRules{Program: "iptables-nft"})
	if err == nil || !cmp.Equal(readTestFile(t, filepath.Join(bin, "iptables-nft-restore.input")),
		"*nat\n:KUBE-FORWARD - [0:0]\n-X KUBE-FORWARD\nCOMMIT\n") {
		t.Errorf("got %v", err)
	}
}

func readTestFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
