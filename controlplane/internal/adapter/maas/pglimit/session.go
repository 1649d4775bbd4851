package pglimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// session owns the connection that holds the slots of a replica. Only the
// goroutine of run uses its fields, except the channels.
type session struct {
	class   int32
	slots   int
	held    map[int32]bool
	waiting []*ask
	asks    chan *ask
	gives   chan int32
	gone    chan struct{} // closed when the session is over; err is set before
	err     error
}

func (s *session) over() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// give returns a slot. A session that is over has returned all of them.
func (s *session) give(slot int32) {
	select {
	case s.gives <- slot:
	case <-s.gone:
	}
}

// run serves until nobody needs the session, the limiter closes, or the
// connection breaks.
func (s *session) run(ctx context.Context, tx pgx.Tx) error {
	err := s.serve(ctx, tx)
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	}
	if err != nil {
		// Close the connection, so that its locks do not return to the pool
		// with it.
		_ = tx.Conn().Close(context.WithoutCancel(ctx))
		return fmt.Errorf("hold MAAS slots: %w", err)
	}
	return nil
}

func (s *session) serve(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', $1, true)",
		strconv.FormatInt(silence.Milliseconds(), 10))
	if err != nil {
		return err
	}
	wait := leastWait
	for {
		timer := time.NewTimer(s.pause(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case a := <-s.asks:
			s.waiting = append(s.waiting, a)
			wait = leastWait
		case slot := <-s.gives:
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", s.class, slot); err != nil {
				return err
			}
			delete(s.held, slot)
		case <-timer.C:
			if len(s.waiting) == 0 && len(s.held) == 0 {
				return nil
			}
			if len(s.waiting) == 0 {
				if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
					return err
				}
			}
			wait = min(wait*2, mostWait)
		}
		timer.Stop()
		if err := s.grant(ctx, tx); err != nil {
			return err
		}
	}
}

// pause is how long to wait before the next step.
func (s *session) pause(wait time.Duration) time.Duration {
	switch {
	case len(s.waiting) > 0:
		return wait/2 + rand.N(wait) //nolint:gosec // jitter, not a secret
	case len(s.held) > 0:
		return pulse
	default:
		return idleAfter
	}
}

// grant serves the waiting callers in order while there are free slots.
func (s *session) grant(ctx context.Context, tx pgx.Tx) error {
	for len(s.waiting) > 0 {
		first := s.waiting[0]
		if first.settled.Load() {
			s.waiting = s.waiting[1:]
			continue
		}
		slot, ok, err := s.take(ctx, tx)
		if err != nil || !ok {
			return err
		}
		s.waiting = s.waiting[1:]
		s.held[slot] = true
		if first.settled.CompareAndSwap(false, true) {
			first.granted <- slot
			continue
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", s.class, slot); err != nil {
			return err
		}
		delete(s.held, slot)
	}
	return nil
}

// take locks one of the slots that this session does not hold, because a
// session could lock the same one twice.
func (s *session) take(ctx context.Context, tx pgx.Tx) (slot int32, ok bool, err error) {
	var free []int32
	for _, i := range rand.Perm(s.slots) { //nolint:gosec // any order will do
		if n := int32(i); !s.held[n] { //nolint:gosec // a handful of slots
			free = append(free, n)
		}
	}
	rows, err := tx.Query(ctx, "SELECT slot FROM unnest($2::int[]) AS slot WHERE pg_try_advisory_lock($1, slot) LIMIT 1",
		s.class, free)
	if err != nil {
		return 0, false, err
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(got) == 0 {
		return 0, false, err
	}
	return got[0], true, nil
}
