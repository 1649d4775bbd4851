package postgrestest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/stack/stacktest"
)

// Earlier is a database with the schema of an earlier version, for tests of what
// a migration makes of its rows.
type Earlier struct {
	Owner *postgres.DB
	url   redact.Secret
}

// At clones a database whose schema has come as far as a migration.
func At(tb testing.TB, version int64) Earlier {
	tb.Helper()
	clone := stacktest.Postgres(tb, func(ctx context.Context, ownerURL string) error {
		cfg, err := pgx.ParseConfig(ownerURL)
		if err != nil {
			return fmt.Errorf("parse URL: %w", err)
		}
		db := stdlib.OpenDB(*cfg)
		defer func() { _ = db.Close() }()
		provider, err := goose.NewProvider(goose.DialectPostgres, db, postgres.Migrations())
		if err == nil {
			_, err = provider.UpTo(ctx, version)
		}
		return err
	}, fmt.Sprintf("%s_at_%d", postgres.MigrationsHash(), version))
	return Earlier{Owner: open(tb, clone.OwnerURL), url: redact.New(clone.OwnerURL)}
}

// Forward brings the schema to the newest version.
func (e Earlier) Forward(tb testing.TB) {
	tb.Helper()
	if _, err := postgres.Migrate(tb.Context(), e.url); err != nil {
		tb.Fatal(err)
	}
}
