package portable

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestProxyOf runs itself again with other environment variables, since net/http reads them once.
func TestProxyOf(t *testing.T) {
	if host, ok := os.LookupEnv("TEST_PROXY_OF"); ok {
		proxy, err := Machine{}.Proxy(t.Context(), host)
		fmt.Printf("proxy=%s error=%v\n", proxy, err != nil)
		return
	}
	for _, c := range []struct{ host, env, want string }{
		{"192.0.2.1", "", "proxy= error=false"},
		{"192.0.2.1", "HTTPS_PROXY=http://user:secret@proxy.example:3128",
			"proxy=http://proxy.example:3128 error=false"},
		{"192.0.2.1", "HTTPS_PROXY=http:/user:secret@proxy.example:3128",
			"proxy=http://http: error=false"},
		{"192.0.2.1", "https_proxy=proxy.example:3128 no_proxy=192.0.2.0/24", "proxy= error=false"},
		{"198.51.100.1", "https_proxy=proxy.example:3128 no_proxy=192.0.2.0/24",
			"proxy=http://proxy.example:3128 error=false"},
		{"2001:db8::1", "HTTPS_PROXY=http://proxy.example NO_PROXY=2001:db8::/32",
			"proxy= error=false"},
		{"2001:db9::1", "HTTPS_PROXY=http://proxy.example NO_PROXY=2001:db8::/32",
			"proxy=http://proxy.example error=false"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxyOf$", "-test.v")
		cmd.Env = append(strings.Fields(c.env), "TEST_PROXY_OF="+c.host)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want+"\n") {
			t.Errorf("%s in %q: got %v and %s, want %s", c.host, c.env, err, out, c.want)
		}
	}
}

func TestAddressesOfRoutesComeFirst(t *testing.T) {
	all, err := Addresses(func(net.Interface) int { return -1 })
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.DefaultRoute {
			t.Errorf("%+v has no default route", a)
		}
		got, err := Addresses(func(i net.Interface) int {
			if i.Name == a.Interface {
				return 0
			}
			return -1
		})
		if err != nil || len(got) != len(all) || got[0].Interface != a.Interface || !got[0].DefaultRoute {
			t.Errorf("with the default route on %s: %+v, %v", a.Interface, got, err)
		}
	}
}
