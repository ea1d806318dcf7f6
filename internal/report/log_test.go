package report

import (
	"bytes"
	"errors"
	"io"
	"log"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestLibrariesNeverLogRequests(t *testing.T) {
	defer func() {
		if _, _, err := Log(io.Discard, 0, ""); err != nil {
			t.Error(err)
		}
	}()
	for level, want := range map[int]klog.Level{0: 0, 3: 0, 4: 4, 7: 7, 8: 7, 10: 7} {
		if _, _, err := Log(io.Discard, level, ""); err != nil {
			t.Fatal(err)
		}
		if !klog.V(want).Enabled() || klog.V(want+1).Enabled() {
			t.Errorf("-v %d lets libraries log at another level than %d", level, want)
		}
	}
}

func TestVModuleNeverLogsRequests(t *testing.T) {
	defer func() {
		if _, _, err := Log(io.Discard, 0, ""); err != nil {
			t.Error(err)
		}
	}()
	for _, files := range []string{"log_test=9", "other=1,*=10", "log_t*=7"} {
		if _, _, err := Log(io.Discard, 0, files); err != nil {
			t.Fatal(err)
		}
		if !klog.V(7).Enabled() || klog.V(8).Enabled() {
			t.Errorf("--vmodule %s lets a file log at another level than 7", files)
		}
	}
	for _, files := range []string{"log_test", "log_test=x", "=3"} {
		if _, _, err := Log(io.Discard, 0, files); err == nil {
			t.Errorf("--vmodule %s is taken", files)
		}
	}
}

func TestLibrariesLogNothingByDefault(t *testing.T) {
	defer func() {
		if _, _, err := Log(io.Discard, 0, ""); err != nil {
			t.Error(err)
		}
	}()
	for level, want := range map[int]int{0: 0, 1: 4, 4: 4} {
		var b bytes.Buffer
		warnings, errs, err := Log(&b, level, "")
		if err != nil {
			t.Fatal(err)
		}
		klog.Info("Warning: unable to cancel request of k3h9wd." + secret)
		klog.Warning("\x1b[2J")
		klog.ErrorS(errors.New("broken"), "failed")
		log.Print("Unsolicited response received on idle HTTP channel")
		klog.Flush()
		if lines := strings.Count(b.String(), "\n"); lines != want ||
			strings.Contains(b.String(), secret) || strings.Contains(b.String(), "\x1b") {
			t.Errorf("-v %d: %d lines, want %d:\n%s", level, lines, want, b.String())
		}
		_, err = io.WriteString(warnings, "a warning of gRPC")
		_, err2 := io.WriteString(errs, "an error of gRPC")
		if err := errors.Join(err, err2); err != nil || strings.Contains(b.String(), "a warning") != (level >= 4) ||
			strings.Contains(b.String(), "an error") != (level > 0) {
			t.Errorf("-v %d: %v, %s", level, err, b.String())
		}
	}
}
