package onboarding_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// A server waits for its turn to boot as long as it takes: no attempt is used
// up, and the waiting is not mistaken for workers that die.
func TestAStageThatWaitsItsTurnIsNeitherFailedNorLost(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	const turns = 150
	y.script.on(bringup.CreateOrFindInMAAS, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n <= turns {
			return job.Result{Await: &job.Await{Most: time.Second}}, nil
		}
		return y.script.well(ctx, bringup.CreateOrFindInMAAS, w)
	})
	done := y.run(t, o.ID)
	got := slices.DeleteFunc(y.ledger(t, o.ID), func(e string) bool {
		return !strings.HasPrefix(e, bringup.CreateOrFindInMAAS)
	})
	want := []string{bringup.CreateOrFindInMAAS + "/1:started", bringup.CreateOrFindInMAAS + "/1:succeeded"}
	if done.Status != job.Completed || !slices.Equal(got, want) {
		t.Errorf("%s %s %q", done.Status, done.ErrorCode, got)
	}
}
