package doctor

import "testing"

func TestNoProxy(t *testing.T) {
	for _, c := range []struct {
		host, noProxy string
		want          bool
	}{
		{"10.0.0.5", "", false},
		{"127.0.0.1", "", true},
		{"10.0.0.5", "*", true},
		{"10.0.0.5", "example.com, 10.0.0.5", true},
		{"10.0.0.5", "10.0.0.0/24", true},
		{"10.0.1.5", "10.0.0.0/24", false},
		{"fd00::5", "fd00::/64", true},
		{"api.example.com", "example.com", true},
		{"api.example.com", ".example.com", true},
		{"example.com", ".example.com", false},
		{"example.com", "example.com", true},
		{"notexample.com", "example.com", false},
	} {
		if got := isExcluded(c.host, c.noProxy); got != c.want {
			t.Errorf("%s, NO_PROXY=%s: got %v", c.host, c.noProxy, got)
		}
	}
}
