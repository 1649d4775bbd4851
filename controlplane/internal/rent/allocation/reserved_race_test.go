package allocation_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/reservation"
	"gpuaas/testkit"
)

// A node that becomes free between the look at what is reserved and the claim belongs
// to the reservation that is short, and not to whoever is about to claim something.
func TestANodeThatBecomesFreeMeanwhileDoesNotGoPastAReservation(t *testing.T) {
	w := newWorld(t)
	other := w.stranger(t, "other")
	n := w.node(t, "n1", `hold_reason = 'fan', schedulable = false`)
	r := w.reserve(t, w.wish(1, reservation.Selector{}))
	w.reserved(t, r.ID, 0, 0) // it is short
	refused := make(chan error, 1)
	err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		// Nothing but the claim needs this table, so that the request stops before it.
		if _, err := tx.Exec(ctx, `LOCK TABLE allocation_resource_claims IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		go func() {
			_, err := w.try(allocation.Ask{Project: other})
			refused <- err
		}()
		testkit.Eventually(t, "the request is about to claim a node", func() bool {
			return w.count(t, `SELECT count(*) FROM pg_locks WHERE relation = 'allocation_resource_claims'::regclass AND NOT granted`) > 0
		})
		_, err := tx.Exec(ctx, `UPDATE nodes SET hold_reason = '', schedulable = true WHERE id = $1`, n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the answer to the request", refused); !refusedFor(err, "reserved") {
		t.Errorf("somebody else got the node: %v", err)
	}
	w.reserved(t, r.ID, 0, 1)
	w.create(t, allocation.Ask{})
	w.reserved(t, r.ID, 1, 0)
}
