package kube

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kubeadm/internal/world"
)

// A long list reports after a page how far it is, at most every ten seconds.
func TestListReportsHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		ctx := world.WithProgress(t.Context(), func(text string) { told = append(told, text) })
		progress := listProgress{kind: "Node", reported: time.Now()}
		for range 6 {
			time.Sleep(4 * time.Second)
			progress.add(ctx, 500)
		}
		want := []string{"still listing Node objects: 1500 so far", "still listing Node objects: 3000 so far"}
		if !slices.Equal(told, want) {
			t.Errorf("reported %q", told)
		}
	})
}
