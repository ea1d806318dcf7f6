package world

import (
	"errors"
	"strings"
	"testing"
)

func TestMalformedProxyHasARemedy(t *testing.T) {
	// as package http says it, which reads the environment only once in a process
	err := errors.New(`invalid proxy address "http://me:p w@proxy:3128": parse "http://me:p w@proxy:3128": net/url: invalid userinfo`)
	if hint := ProxyHint(err); !strings.Contains(hint, "HTTPS_PROXY") {
		t.Errorf("%v has the hint %q", err, hint)
	}
	if hint := ProxyHint(errors.New("connection refused")) + ProxyHint(nil); hint != "" {
		t.Errorf("another error has the hint %q", hint)
	}
}
