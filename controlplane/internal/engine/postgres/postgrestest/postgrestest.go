// Package postgrestest gives each test its own database: a clone of a template
// with the newest schema. Tests use it with the restricted role of the product.
package postgrestest

import (
	"context"
	"testing"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/stack/stacktest"
)

// New clones a database that lives as long as the test.
func New(tb testing.TB) *postgres.DB {
	tb.Helper()
	db, _ := NewWithOwner(tb)
	return db
}

// NewWithOwner is New for tests that also need the owner of the schema.
func NewWithOwner(tb testing.TB) (db, owner *postgres.DB) {
	tb.Helper()
	clone := stacktest.Postgres(tb, migrate, postgres.MigrationsHash())
	return open(tb, clone.URL), open(tb, clone.OwnerURL)
}

// URL returns how the product reaches a clone.
func URL(tb testing.TB) redact.Secret {
	tb.Helper()
	return redact.New(stacktest.Postgres(tb, migrate, postgres.MigrationsHash()).URL)
}

// OwnerURL returns how the owner of a clone reaches it.
func OwnerURL(tb testing.TB) redact.Secret {
	tb.Helper()
	return redact.New(stacktest.Postgres(tb, migrate, postgres.MigrationsHash()).OwnerURL)
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
	_, err := postgres.Migrate(ctx, redact.New(ownerURL))
	return err
}
