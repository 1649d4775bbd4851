// Package postgres is the only way to the database: a pool whose errors are
// already classified, transactions that are retried where that is safe, and the
// ordered history of migrations.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Config says how to reach the database.
type Config struct {
	URL      redact.Secret
	MaxConns int32
}

// DB is a pool. Generated queries accept it as a connection.
type DB struct {
	pool     *pgxpool.Pool
	notifier *notifier
}

// Querier is what reads: the pool, or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Open prepares a pool without connecting: while a database is not up yet,
// calls fail as unavailable.
func Open(cfg Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		// The library's error quotes the URL with the password.
		return nil, fault.New(fault.Invalid, "postgres_url_invalid", "the PostgreSQL URL cannot be parsed").
			WithRemedy("use the form postgres://user:password@host:port/database")
	}
	if cfg.MaxConns > 0 {
		pc.MaxConns = cfg.MaxConns
	}
	pc.MaxConnLifetime = time.Hour
	pc.HealthCheckPeriod = 15 * time.Second
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	pc.ConnConfig.RuntimeParams["application_name"] = "gpuaas"
	pc.ConnConfig.RuntimeParams["statement_timeout"] = "30000"
	pc.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "60000"
	pc.ConnConfig.Tracer = otelpgx.NewTracer()
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return &DB{pool: pool, notifier: newNotifier(pool)}, nil
}

// Close ends all connections.
func (db *DB) Close() {
	db.notifier.close()
	db.pool.Close()
}

// Exec runs a statement.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := db.pool.Exec(ctx, sql, args...)
	return tag, classify(err)
}

// Query runs a query.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := db.pool.Query(ctx, sql, args...)
	return classifiedRows{rows}, classify(err)
}

// QueryRow runs a query for one row.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return classifiedRow{db.pool.QueryRow(ctx, sql, args...)}
}

// Send sends statements together. They are one transaction, which the end of the
// last one commits; the callbacks of the batch read what they bring.
func (db *DB) Send(ctx context.Context, b *pgx.Batch) error {
	return classify(db.pool.SendBatch(ctx, b).Close())
}

// Listen calls fn for each notification on a channel until the context ends or
// the connection breaks. It calls ready once the subscription stands.
func (db *DB) Listen(ctx context.Context, channel string, ready func(), fn func(payload string)) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return classify(err)
	}
	raw := conn.Hijack() // a listening connection must not go back to the pool
	defer func() { _ = raw.Close(context.WithoutCancel(ctx)) }()
	if _, err := raw.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return classify(err)
	}
	ready()
	for {
		n, err := await(ctx, raw)
		if err != nil {
			return classify(err)
		}
		if n != nil {
			fn(n.Payload)
		}
	}
}

// listenPatience is after which silence the connection is checked.
const listenPatience = 15 * time.Second

// await waits for a notification. After a while without one it asks whether the
// server is still there, because a broken connection is silent too.
func await(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	patience, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	n, err := conn.WaitForNotification(patience)
	if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
		return n, err
	}
	ctx, cancel = context.WithTimeout(ctx, listenPatience)
	defer cancel()
	return nil, conn.Ping(ctx)
}

type classifiedRows struct{ pgx.Rows }

func (r classifiedRows) Err() error { return classify(r.Rows.Err()) }

type classifiedRow struct{ row pgx.Row }

func (r classifiedRow) Scan(dest ...any) error { return classify(r.row.Scan(dest...)) }

// ErrUnavailable says that the database cannot be reached.
var ErrUnavailable = fault.New(fault.Unavailable, "postgres_unavailable", "the database cannot be reached").
	WithRemedy("check that PostgreSQL is running and reachable; the request can be repeated")

// classify turns errors of the driver into faults where their meaning is known.
// Errors that depend on the statement, such as a violated constraint, stay as
// they are: the caller knows what they mean.
func classify(err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if _, ok := fault.As(err); ok {
		return err
	}
	if unreachable(err) {
		return fault.Wrap(err, fault.Unavailable, ErrUnavailable.Code, "%s", ErrUnavailable.Message).WithRemedy("%s",
			ErrUnavailable.Remedy)
	}
	return err
}

func unreachable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:2] {
		case "08", "53", "57": // connection lost, out of resources, operator intervention (shutdown, cancel)
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}

// Violates reports whether an error is the violation of a named constraint.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code[:2] == "23" && pg.ConstraintName == constraint
}

// Slice is one page of a listing: what comes after a key, and how many. The
// zero key comes before all others.
type Slice[key any] struct {
	After key
	Limit int32
}
