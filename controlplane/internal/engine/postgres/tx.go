package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"gpuaas/controlplane/internal/base/fault"
)

const maxTxAttempts = 8

// TxFunc is the body of a transaction. It may run more than once, so it must
// have no effect outside the transaction.
type TxFunc func(ctx context.Context, tx pgx.Tx) error

// InTx runs a transaction, and repeats it if another transaction got in its
// way. An error before the commit means that nothing happened. If the commit
// itself fails without an answer, nobody can know, and the error says so.
func (db *DB) InTx(ctx context.Context, fn TxFunc) error {
	for attempt := 1; ; attempt++ {
		err := db.tryTx(ctx, fn)
		if !inTheWay(err) {
			return classify(err)
		}
		if attempt == maxTxAttempts {
			return fault.Wrap(err, fault.Unavailable, "transaction_contended",
				"the change collided with others %d times in a row", attempt).WithRemedy("repeat the request")
		}
		select {
		case <-ctx.Done():
			return classify(ctx.Err())
		case <-time.After(time.Duration(rand.Int64N(int64(attempt * int(5*time.Millisecond))))): //nolint:gosec // jitter, not a secret
		}
	}
}

func (db *DB) tryTx(ctx context.Context, fn TxFunc) error {
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	// The rollback must reach the server even if the caller has gone.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	left := &notices{}
	ctx = context.WithValue(ctx, noticesKey{}, left)
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if hook, ok := ctx.Value(commitHookKey{}).(TxFunc); ok {
		if err := hook(ctx, tx); err != nil {
			return err
		}
	}
	err = tx.Commit(ctx)
	var pg *pgconn.PgError
	if err == nil {
		db.notifier.send(left.all)
		for _, fn := range left.after {
			fn()
		}
		return nil
	}
	if errors.As(err, &pg) { // the server answered, so the outcome is known
		return err
	}
	return fault.Wrap(err, fault.Ambiguous, "commit_outcome_unknown",
		"the connection to the database broke while the change was being committed").
		WithRemedy("read the resource before repeating, or repeat with the same Idempotency-Key")
}

type commitHookKey struct{}

// WithCommitHook adds a statement to every transaction of a context. It runs
// just before the commit and is rolled back with the transaction.
func WithCommitHook(ctx context.Context, hook TxFunc) context.Context {
	return context.WithValue(ctx, commitHookKey{}, hook)
}

// inTheWay reports whether a transaction failed only because of another one.
func inTheWay(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}
