package portable

import (
	"fmt"
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
