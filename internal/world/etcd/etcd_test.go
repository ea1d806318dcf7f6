package etcd_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world/etcd"
)

const peer = "https://192.0.2.11:2380"

func TestUnusableEtcdFailsAtOnce(t *testing.T) {
	files := map[string]string{"/ca.crt": "no PEM", "/client.crt": "no PEM",
		"/client.key": "no PEM"}
	k := etcd.New(func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	})
	nowhere := []string{"https://127.0.0.1:1"}
	for name, c := range map[string]struct {
		via  state.Etcd
		text string
	}{
		"no endpoint": {state.Etcd{}, "no etcd endpoint is known"},
		"no CA file": {state.Etcd{Endpoints: nowhere, CAFile: "/none"},
			"/none: file does not exist"},
		"no CA in file": {state.Etcd{Endpoints: nowhere, CAFile: "/ca.crt"},
			"/ca.crt contains no certificate"},
		"no key file": {state.Etcd{Endpoints: nowhere, CertFile: "/client.crt", KeyFile: "/none"},
			"/none: file does not exist"},
		"no key pair": {state.Etcd{Endpoints: nowhere, CertFile: "/client.crt",
			KeyFile: "/client.key"}, "/client.crt and /client.key"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := k.Members(t.Context(), c.via)
			wantError(t, err, "listing etcd members: ", c.text)
			err = k.Do(t.Context(),
				change.SetMember{PeerURL: peer, State: change.Learner, Via: c.via})
			wantError(t, err, c.text)
			if took := time.Since(start); took > time.Minute { // and not two, which is the limit
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestUnreachableEtcdEndsAtTimeout(t *testing.T) {
	k := etcd.New(nil)
	via := state.Etcd{Endpoints: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}}
	_, err := k.Members(t.Context(), via)
	wantError(t, err, "at http://127.0.0.1:1: ", "127.0.0.1:2: connect: connection refused")
	// A busy machine may not reach the refused connection within a short timeout.
	for k.Timeout = 200 * time.Millisecond; k.Timeout < time.Minute; k.Timeout *= 4 {
		err = k.Do(t.Context(), change.SetMember{PeerURL: peer, State: change.Absent, Via: via})
		if strings.Contains(err.Error(), "connection refused") {
			break
		}
	}
	wantError(t, err, fmt.Sprintf("waited %s for etcd: at http://127.0.0.1:1: ", k.Timeout),
		"connection refused")
	wantError(t, k.Do(t.Context(), change.PullImage{}), "change.PullImage")
}

func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v does not contain %q", err, text)
		}
	}
}
