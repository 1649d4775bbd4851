package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Notify tells the listeners of a channel, once the transaction of this context
// has committed.
//
// The notification is not part of the transaction: PostgreSQL lets only one
// notifying transaction commit at a time, and that includes the write to disk,
// so unrelated changes would wait for each other's disks. It is sent right
// after the commit instead, together with others. If the process ends in
// between, nobody is told. So listeners must look by themselves now and then,
// and when they begin to listen.
func Notify(ctx context.Context, tx pgx.Tx, channel, payload string) error {
	if n, ok := ctx.Value(noticesKey{}).(*notices); ok {
		n.add(notice{channel, payload})
		return nil
	}
	// Nobody would send it after a transaction that InTx did not begin.
	if _, err := tx.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
		return fmt.Errorf("notify %s: %w", channel, err)
	}
	return nil
}

// Notify tells the listeners of a channel now.
func (db *DB) Notify(ctx context.Context, channel, payload string) error {
	_, err := db.Exec(ctx, sendNotices, []string{channel}, []string{payload})
	return err
}

// NotifySoon tells the listeners of a channel after a change that was a statement of
// its own, together with others. It waits for nothing, and may be lost as those of
// Notify.
func (db *DB) NotifySoon(channel, payload string) { db.notifier.send([]notice{{channel, payload}}) }

type noticesKey struct{}

type notice struct{ channel, payload string }

// notices are what one transaction leaves to be done once it has committed.
type notices struct {
	all   []notice
	after []func()
}

func (n *notices) add(one notice) { n.all = append(n.all, one) }

// AfterCommit calls a function once the transaction of this context has
// committed, and never when it has not: for what is counted, not for what must
// happen. It must be quick.
func AfterCommit(ctx context.Context, fn func()) {
	if n, ok := ctx.Value(noticesKey{}).(*notices); ok {
		n.after = append(n.after, fn)
		return
	}
	fn() // a transaction that InTx did not begin has nobody to call it afterwards
}

// A lost notification does no harm, so its commit need not wait for the disk.
const sendNotices = `SELECT set_config('synchronous_commit', 'off', true), pg_notify(n.channel, n.payload)
	FROM unnest($1::text[], $2::text[]) AS n(channel, payload)`

// notifier sends the notifications of committed transactions in as few
// statements as possible: while one is under way, the next batch gathers.
type notifier struct {
	pool   *pgxpool.Pool
	start  sync.Once
	end    context.CancelFunc
	ended  chan struct{}
	woken  chan struct{}
	mu     sync.Mutex
	unsent map[notice]struct{}
}

func newNotifier(pool *pgxpool.Pool) *notifier {
	return &notifier{pool: pool, unsent: map[notice]struct{}{}, woken: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (n *notifier) send(all []notice) {
	if len(all) == 0 {
		return
	}
	n.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		n.end = cancel
		go n.run(ctx)
	})
	n.mu.Lock()
	for _, one := range all {
		n.unsent[one] = struct{}{}
	}
	n.mu.Unlock()
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

func (n *notifier) run(ctx context.Context) {
	defer close(n.ended)
	for {
		select {
		case <-ctx.Done():
			n.flush(context.WithoutCancel(ctx)) // the rest, if that still works
			return
		case <-n.woken:
			n.flush(ctx)
		}
	}
}

// flush sends what has gathered. If the database is away, the notifications are
// lost: listeners look by themselves when it is back.
func (n *notifier) flush(ctx context.Context) {
	n.mu.Lock()
	batch := n.unsent
	n.unsent = map[notice]struct{}{}
	n.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	var channels, payloads []string
	for one := range batch {
		channels, payloads = append(channels, one.channel), append(payloads, one.payload)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for attempt := range 3 {
		if _, err := n.pool.Exec(ctx, sendNotices, channels, payloads); err == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(attempt+1) * 100 * time.Millisecond):
		}
	}
}

// close sends the rest and ends.
func (n *notifier) close() {
	n.start.Do(func() {}) // from now on nothing can start
	if n.end != nil {
		n.end()
		<-n.ended
	}
}
