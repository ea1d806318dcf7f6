package staticpod_test

import (
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/staticpod"
)

// After a failed upgrade, the record of its version is removed once all previous static Pods run
// again. If one of them does not, the next run resumes, and needs the record.
func TestRecordOfFailedUpgrade(t *testing.T) {
	const version = "v1.37.1"
	for _, c := range []struct {
		name, component, arg string
		crash                func(manifest string, upgraded bool) string
		resumes              bool
	}{
		{name: "rolled back", component: scheduler, arg: "--bad"},
		{name: "the previous version crashes too", component: scheduler, arg: "--bad", resumes: true,
			crash: func(manifest string, upgraded bool) string {
				if upgraded && strings.Contains(manifest, "kube-scheduler:v1") {
					return "panic: no configuration"
				}
				return ""
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newMachine(t)
			crash, upgraded := w.CrashLog, false
			w.CrashLog = func(component string, manifest []byte) string {
				upgraded = upgraded || strings.Contains(string(manifest), c.component+":v2")
				if text := crash(component, manifest); text != "" || c.crash == nil {
					return text
				}
				return c.crash(string(manifest), upgraded)
			}
			n := newReplacement().Node
			if err := w.Do(t.Context(), staticpod.BeginUpgrade(n.Paths, version)); err != nil {
				t.Fatal(err)
			}
			out := runReplace(t.Context(), w, staticpod.Manifest{Component: c.component,
				Data: newManifest(c.component, "v2", c.arg)})
			if out.err == nil {
				t.Fatal("the replacement did not fail")
			}
			e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
			if err := staticpod.EndFailedUpgrade(t.Context(), e, n); err != nil {
				t.Fatal(err)
			}
			resumes, err := staticpod.IsUpgradeUnfinished(t.Context(), w, n.Paths, version)
			if err != nil || resumes != c.resumes {
				t.Errorf("resumes: %v, %v, after %v", resumes, err, out.err)
			}
		})
	}
}
