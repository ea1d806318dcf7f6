package report

import (
	"testing"

	"k8s.io/klog/v2"
)

func TestLibrariesNeverWriteOutRequests(t *testing.T) {
	defer func() {
		if err := Log(0, ""); err != nil {
			t.Error(err)
		}
	}()
	for level, want := range map[int]klog.Level{0: 0, 3: 0, 4: 4, 7: 7, 8: 7, 10: 7} {
		if err := Log(level, ""); err != nil {
			t.Fatal(err)
		}
		if !klog.V(want).Enabled() || klog.V(want+1).Enabled() {
			t.Errorf("-v %d lets libraries log at another level than %d", level, want)
		}
	}
}
