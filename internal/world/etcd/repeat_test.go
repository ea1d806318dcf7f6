package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsAreSlowedBySlowEtcd(t *testing.T) {
	for name, c := range map[string]struct {
		answer      time.Duration // duration of each request
		least, most int           // requests in fifteen seconds
	}{
		"a fast disk":        {500 * time.Microsecond, 2000, 3500},
		"an ordinary disk":   {5 * time.Millisecond, 900, 1001},
		"a slow disk":        {100 * time.Millisecond, 45, 51},
		"a disk that stalls": {2 * time.Second, 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithTimeout(t.Context(), 15*time.Second)
				defer end()
				asked, underway := 0, 0
				err := repeatRequest(ctx, func() error {
					if asked++; underway > 0 {
						t.Error("two requests at the same time")
					}
					underway++
					time.Sleep(c.answer)
					underway--
					return nil
				})
				if err != nil || asked < c.least || asked > c.most {
					t.Errorf("%d requests (%v), want %d to %d", asked, err, c.least, c.most)
				}
			})
		})
	}
}

func TestRequestsEndWithFirstFailure(t *testing.T) {
	failed := errors.New("no leader")
	for answers, want := range map[int]error{0: failed, 3: nil} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			err := repeatRequest(t.Context(), func() error {
				if asked++; asked > answers {
					return failed
				}
				return nil
			})
			if !errors.Is(err, want) || asked != answers+1 {
				t.Errorf("after %d responses: %d requests, %v", answers, asked, err)
			}
		})
	}
}
