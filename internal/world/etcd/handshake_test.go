package etcd_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"kubeadm/internal/state"
	"kubeadm/internal/world/etcd"
)

type memberLister struct {
	etcdserverpb.UnimplementedClusterServer
}

func (memberLister) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return &etcdserverpb.MemberListResponse{Members: []*etcdserverpb.Member{{ID: 1, Name: "cp1"}}}, nil
}

// listen returns a listener on an unused port, which is closed at the end of the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A member on a busy machine accepts connections at once and completes the handshake seconds later. It is
// waited for if no other member answers, and only within a bound.
func TestSlowHandshake(t *testing.T) {
	member := listen(t)
	s := grpc.NewServer()
	etcdserverpb.RegisterClusterServer(s, memberLister{})
	go func() { _ = s.Serve(member) }()
	t.Cleanup(s.Stop)
	busy := func(delay time.Duration) string {
		l := listen(t)
		go func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer func() { _ = client.Close() }()
					select {
					case <-t.Context().Done():
						return
					case <-time.After(delay):
					}
					server, err := net.Dial("tcp", member.Addr().String())
					if err != nil {
						return
					}
					go func() {
						_, _ = io.Copy(server, client)
						_ = server.Close()
					}()
					_, _ = io.Copy(client, server)
				}()
			}
		}()
		return "http://" + l.Addr().String()
	}
	k := etcd.New(os.ReadFile)
	for name, c := range map[string]struct {
		endpoints []string
		within    time.Duration
		err       string
	}{
		"one that is slow":       {[]string{busy(3 * time.Second)}, 20 * time.Second, ""},
		"another one is quicker": {[]string{busy(time.Hour), "http://" + member.Addr().String()}, 8 * time.Second, ""},
		"one that hangs":         {[]string{busy(time.Hour)}, 30 * time.Second, "no connection to etcd within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			all, err := k.Members(t.Context(), state.Etcd{Endpoints: c.endpoints})
			if took := time.Since(began); took > c.within {
				t.Errorf("it took %s", took)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v", err)
				}
			} else if err != nil || len(all) != 1 || all[0].Name != "cp1" {
				t.Errorf("got %+v, %v", all, err)
			}
		})
	}
}
