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

func TestSingleFilesNeverWriteOutRequestsEither(t *testing.T) {
	defer func() {
		if err := Log(0, ""); err != nil {
			t.Error(err)
		}
	}()
	for _, files := range []string{"log_test=9", "other=1,*=10", "log_t*=7"} {
		if err := Log(0, files); err != nil {
			t.Fatal(err)
		}
		if !klog.V(7).Enabled() || klog.V(8).Enabled() {
			t.Errorf("--vmodule %s lets a file log at another level than 7", files)
		}
	}
	for _, files := range []string{"log_test", "log_test=x", "=3"} {
		if Log(0, files) == nil {
			t.Errorf("--vmodule %s is taken", files)
		}
	}
}
