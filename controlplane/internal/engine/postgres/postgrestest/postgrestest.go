// Package postgrestest gives each test its own database: a clone of a template
// with the newest schema. Tests use it with the restricted role of the product. The
// owner may also write the views that show jobs whole (writable.sql).
package postgrestest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/stack/stacktest"
)

//go:embed writable.sql
var writable string

// template names the template: after the schema, and what is added to it here.
func template() string {
	h := sha256.Sum256([]byte(postgres.MigrationsHash() + writable))
	return hex.EncodeToString(h[:])[:16]
}

// New clones a database that lives as long as the test.
func New(tb testing.TB) *postgres.DB {
	tb.Helper()
	db, _ := NewWithOwner(tb)
	return db
}

// NewWithOwner is New for tests that also need the owner of the schema.
func NewWithOwner(tb testing.TB) (db, owner *postgres.DB) {
	tb.Helper()
	clone := stacktest.Postgres(tb, migrate, template())
	return open(tb, clone.URL), open(tb, clone.OwnerURL)
}

// URL returns how the product reaches a clone.
func URL(tb testing.TB) redact.Secret {
	tb.Helper()
	return redact.New(stacktest.Postgres(tb, migrate, template()).URL)
}

// OwnerURL returns how the owner of a clone reaches it.
func OwnerURL(tb testing.TB) redact.Secret {
	tb.Helper()
	return redact.New(stacktest.Postgres(tb, migrate, template()).OwnerURL)
}

func open(tb testing.TB, url string) *postgres.DB {
	tb.Helper()
	db, err := postgres.Open(postgres.Config{URL: redact.New(url), MaxConns: 10})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

func migrate(ctx context.Context, ownerURL string) error {
	if _, err := postgres.Migrate(ctx, redact.New(ownerURL)); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return fmt.Errorf("connect to template: %w", err)
	}
	_, err = conn.Exec(ctx, writable)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	return err
}
