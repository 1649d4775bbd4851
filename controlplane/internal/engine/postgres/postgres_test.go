package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

func exec(t *testing.T, db *postgres.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func counterTable(t *testing.T) (db *postgres.DB) {
	t.Helper()
	db, owner := postgrestest.NewWithOwner(t)
	exec(t, owner, "CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL)")
	exec(t, owner, "GRANT ALL ON counters TO gpuaas_app")
	exec(t, db, "INSERT INTO counters VALUES (1, 0)")
	return db
}

func TestTransactionsInEachOthersWayAreRepeated(t *testing.T) {
	db := counterTable(t)
	const writers, rounds = 4, 10
	var attempts atomic.Int32
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
					attempts.Add(1)
					if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"); err != nil {
						return err
					}
					var n int
					if err := tx.QueryRow(ctx, "SELECT n FROM counters WHERE id = 1").Scan(&n); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE counters SET n = $1 WHERE id = 1", n+1)
					return err
				})
				if err != nil && fault.CodeOf(err) != "transaction_contended" {
					t.Error(err)
				}
				if err != nil {
					attempts.Add(1 << 16) // told, not lost: counted below
				}
			}
		})
	}
	wg.Wait()
	told := int(attempts.Load() >> 16)
	var n int
	if err := db.QueryRow(t.Context(), "SELECT n FROM counters WHERE id = 1").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n+told != writers*rounds {
		t.Errorf("%d increments and %d refusals for %d transactions", n, told, writers*rounds)
	}
}

func TestAFailedTransactionLeavesNothing(t *testing.T) {
	db := counterTable(t)
	boom := errors.New("boom")
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE counters SET n = 9"); err != nil {
			return err
		}
		return boom
	})
	var n int
	if scanErr := db.QueryRow(t.Context(), "SELECT n FROM counters").Scan(&n); scanErr != nil || n != 0 ||
		!errors.Is(err, boom) {
		t.Errorf("n = %d, err = %v, %v", n, err, scanErr)
	}
}

func TestTheCommitHookSharesTheFateOfTheTransaction(t *testing.T) {
	db := counterTable(t)
	refuse := errors.New("refused by the hook")
	ctx := postgres.WithCommitHook(t.Context(), func(context.Context, pgx.Tx) error { return refuse })
	err := db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE counters SET n = 9")
		return err
	})
	var n int
	if scanErr := db.QueryRow(t.Context(), "SELECT n FROM counters").Scan(&n); scanErr != nil || n != 0 ||
		!errors.Is(err, refuse) {
		t.Errorf("n = %d, err = %v, %v", n, err, scanErr)
	}
}

func TestWhatIsCalledAfterTheCommitIsCalledOnceAndOnlyThen(t *testing.T) {
	db, calls, tries := postgrestest.New(t), 0, 0
	err := db.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx) error {
		postgres.AfterCommit(ctx, func() { calls++ })
		if tries++; tries == 1 {
			return &pgconn.PgError{Code: "40001"} // another transaction was in the way
		}
		if calls != 0 {
			t.Error("it was called before the commit")
		}
		return nil
	})
	if err != nil || tries != 2 || calls != 1 {
		t.Errorf("%v after %d tries: called %d times", err, tries, calls)
	}
	refused := errors.New("refused")
	err = db.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx) error {
		postgres.AfterCommit(ctx, func() { calls++ })
		return refused
	})
	if !errors.Is(err, refused) || calls != 1 {
		t.Errorf("%v: called %d times", err, calls)
	}
}

func TestADatabaseThatIsNotThereIsUnavailable(t *testing.T) {
	db, err := postgres.Open(postgres.Config{URL: redact.New("postgres://u:canary@127.0.0.1:1/x?connect_timeout=1")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	for what, err := range map[string]error{
		"scan":        db.QueryRow(t.Context(), "SELECT 1").Scan(&n),
		"transaction": db.InTx(t.Context(), func(context.Context, pgx.Tx) error { return nil }),
		"schema":      db.CheckSchema(t.Context()),
	} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTheURLIsNeverPartOfAnError(t *testing.T) {
	for _, url := range []string{"postgres://u:canary@host:notaport/x", "canary://"} {
		_, err := postgres.Open(postgres.Config{URL: redact.New(url)})
		if err == nil {
			_, err = postgres.Migrate(t.Context(), redact.New(url))
		}
		if err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v", err)
		}
	}
}

func TestMigratingTwiceAtOnceIsSafe(t *testing.T) {
	url := postgrestest.OwnerURL(t)
	owner, err := postgres.Open(postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	exec(t, owner, "DROP SCHEMA public CASCADE")
	exec(t, owner, "CREATE SCHEMA public")
	var wg sync.WaitGroup
	var applied atomic.Int32
	for range 3 {
		wg.Go(func() {
			done, err := postgres.Migrate(t.Context(), url)
			if err != nil {
				t.Error(err)
			}
			applied.Add(int32(len(done)))
		})
	}
	wg.Wait()
	if err := owner.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	var migrations int32
	if err := owner.QueryRow(t.Context(), "SELECT count(*) FROM goose_db_version WHERE version_id > 0").Scan(
		&migrations); err != nil {
		t.Fatal(err)
	}
	if applied.Load() != migrations {
		t.Errorf("%d applied, %d in the history", applied.Load(), migrations)
	}
}

// A migration that another line of development brought first leaves no gap behind.
func TestAGapInTheHistoryIsNoticedAndFilled(t *testing.T) {
	url := postgrestest.OwnerURL(t)
	owner, err := postgres.Open(postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	exec(t, owner, "DELETE FROM goose_db_version WHERE version_id = 33")
	exec(t, owner, "ALTER TABLE maas_sites DROP COLUMN required_scripts, DROP COLUMN required_capabilities")
	if err := owner.CheckSchema(t.Context()); fault.CodeOf(err) != "schema_behind" {
		t.Errorf("got %v", err)
	}
	if applied, err := postgres.Migrate(t.Context(), url); err != nil || len(applied) != 1 || applied[0].Version != 33 {
		t.Fatalf("applied %v, %v", applied, err)
	}
	if err := owner.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnOlderSchemaIsNotUsed(t *testing.T) {
	db, owner := postgrestest.NewWithOwner(t)
	exec(t, owner, "DELETE FROM goose_db_version WHERE version_id > 1")
	if err := db.CheckSchema(t.Context()); fault.CodeOf(err) != "schema_behind" {
		t.Errorf("got %v", err)
	}
	exec(t, owner, "DROP TABLE goose_db_version")
	if err := db.CheckSchema(t.Context()); fault.CodeOf(err) != "schema_behind" {
		t.Errorf("got %v", err)
	}
}

func TestNotificationsArrive(t *testing.T) {
	db := postgrestest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, heard, ended := make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- db.Listen(ctx, "test channel", func() { close(ready) }, func(string) { heard <- struct{}{} })
	}()
	<-ready
	exec(t, db, `SELECT pg_notify('test channel', '')`)
	<-heard
	cancel()
	if err := <-ended; err == nil {
		t.Error("Listen ended without saying why")
	}
}

// Listeners hear of a change once, after it was committed, and never of one
// that was rolled back.
func TestATransactionNotifiesOnceItHasCommitted(t *testing.T) {
	db := postgrestest.New(t)
	ready, heard := make(chan struct{}), make(chan string, 10)
	go func() {
		// ends with the test
		_ = db.Listen(t.Context(), "changes", func() { close(ready) }, func(payload string) { heard <- payload })
	}()
	<-ready
	refused := errors.New("refused")
	change := func(payload string, outcome error) error {
		return db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			for range 2 {
				if err := postgres.Notify(ctx, tx, "changes", payload); err != nil {
					return err
				}
			}
			return outcome
		})
	}
	if err := change("rolled back", refused); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for _, payload := range []string{"first", "second"} {
		if err := change(payload, nil); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != payload {
			t.Fatalf("heard %q, want %q", got, payload)
		}
	}
	if err := db.Notify(t.Context(), "changes", "now"); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "now" {
		t.Errorf("heard %q: one transaction was told of twice", got)
	}
}
