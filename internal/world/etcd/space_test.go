package etcd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world/etcd"
	"kubeadm/internal/world/worldtest/plane"
)

// TestRealSpace fills a database, frees it, and disarms an alarm.
func TestRealSpace(t *testing.T) {
	e := plane.StartEtcd(t)
	k := etcd.New(os.ReadFile)
	config, err := k.TLSConfig(e.Via)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Via.Endpoints, TLS: config})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 20 {
		if _, err := c.Put(ctx, fmt.Sprintf("key%d", i%2), strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := k.Members(ctx, e.Via)
	if err != nil {
		t.Fatal(err)
	}
	status := func() state.MemberStatus {
		t.Helper()
		s, err := k.MemberStatus(ctx, e.Via, all[0])
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	full := status()
	for range 100 { // etcd writes to the file a tenth of a second later
		if full.DBSize >= 20<<20 {
			break
		}
		time.Sleep(100 * time.Millisecond)
		full = status()
	}
	if full.DBSize < 20<<20 || full.Revision < 20 {
		t.Fatalf("after 20 MiB of writes: %+v", full)
	}
	defragment := change.Defragment{Member: all[0], MinFree: 1 << 20, Via: e.Via}
	compact := change.CompactHistory{Revision: full.Revision, Via: e.Via}
	for range 2 { // a repeated request does no harm
		if err := k.Do(ctx, compact); err != nil {
			t.Fatal(err)
		}
	}
	isFragmented := func(s state.MemberStatus) bool { return s.DBSize-s.DBInUse > s.DBSize/10 }
	for !isFragmented(status()) && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	if err := k.Do(ctx, defragment); err != nil {
		t.Fatal(err)
	}
	if after := status(); after.DBSize > 5<<20 || isFragmented(after) {
		t.Errorf("after the defragmentation: %+v", after)
	}
	if _, err := c.Put(ctx, "key", "value"); err != nil {
		t.Error(err)
	}

	if err := k.RaiseAlarm(ctx, e.Via, all[0].ID, etcdserverpb.AlarmType_NOSPACE); err != nil {
		t.Fatal(err)
	}
	if s := status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "NOSPACE") {
		t.Errorf("with an alarm: %+v", s)
	}
	disarm := change.DisarmAlarm{Member: all[0].ID, Kind: "NOSPACE", Via: e.Via}
	for range 2 {
		if err := k.Do(ctx, disarm); err != nil {
			t.Fatal(err)
		}
	}
	if s := status(); len(s.Problems) > 0 {
		t.Errorf("without the alarm: %+v", s)
	}
	if err := k.RaiseAlarm(ctx, e.Via, all[0].ID, etcdserverpb.AlarmType_CORRUPT); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Snapshot(ctx, e.Via); err == nil || !strings.Contains(err.Error(), "has raised the alarm CORRUPT") {
		t.Errorf("a snapshot of a corrupt member: %v", err)
	}
	disarm.Kind = "CORRUPT"
	if err := k.Do(ctx, disarm); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Snapshot(ctx, e.Via); err != nil {
		t.Error(err)
	}
	disarm.Kind = "NOTHING"
	if err := k.Do(ctx, disarm); err == nil {
		t.Error("an unknown alarm was disarmed")
	}
	gone := defragment
	gone.Member.ClientURLs = []string{"https://127.0.0.1:1"}
	if err := k.Do(ctx, gone); err == nil {
		t.Error("a member that does not answer was defragmented")
	}
}
