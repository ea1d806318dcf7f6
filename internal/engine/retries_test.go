package engine_test

import (
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

func TestRetriesWarnOnce(t *testing.T) {
	warned := 0
	e := engine.New(engine.Env{World: fake.New(), Emit: func(engine.Event) { warned++ }})
	ctx := e.WithRetries(t.Context(), time.Minute)
	for _, port := range []string{"40001", "40002", "40003"} {
		world.ReportProgress(ctx, "still waiting: read tcp 192.0.2.1:%s: refused", port)
	}
	if warned != 1 {
		t.Errorf("there are %d warnings", warned)
	}
}
