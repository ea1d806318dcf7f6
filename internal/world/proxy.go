package world

import "strings"

// ProxyHint returns what to do about an error of a request whose proxy is named by a malformed URL, or
// nothing for another error. Go has no type for it.
func ProxyHint(err error) string {
	if err == nil || !strings.Contains(err.Error(), "invalid proxy address") {
		return ""
	}
	return "correct the proxy in HTTPS_PROXY or HTTP_PROXY (or in lower case) of this shell, or in proxy-url of the kubeconfig; " +
		"a URL such as http://proxy.example:3128"
}
