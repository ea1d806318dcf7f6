package kube

import (
	"bytes"
	"flag"
	"net/http"
	"testing"

	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
)

// client-go looks for a transport that can cancel requests, and logs a warning if it finds none.
func TestTransportSupportsCancel(t *testing.T) {
	var log bytes.Buffer
	var set flag.FlagSet
	klog.InitFlags(&set)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := set.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&log)
	outer := transport.NewUserAgentRoundTripper("kubeadm",
		trackingTransport{next: &http.Transport{}})
	request, err := http.NewRequest(http.MethodGet, "https://192.0.2.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	outer.(interface{ CancelRequest(*http.Request) }).CancelRequest(request)
	klog.Flush()
	if log.Len() != 0 {
		t.Errorf("client-go logs: %s", log.String())
	}
}
