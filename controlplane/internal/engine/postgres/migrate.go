package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migrations returns the ordered history of the schema.
func Migrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}

// MigrationsHash names a schema: the template of test databases has this name.
func MigrationsHash() string {
	h := sha256.New()
	names, _ := fs.Glob(Migrations(), "*.sql")
	for _, name := range names {
		b, _ := fs.ReadFile(Migrations(), name)
		_, _ = fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Applied is one migration that a run of Migrate carried out.
type Applied struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
}

// Migrate brings the schema forward, under a lock, so that several replicas may
// start at once. There is no way back.
func Migrate(ctx context.Context, ownerURL redact.Secret) ([]Applied, error) {
	cfg, err := pgx.ParseConfig(ownerURL.Reveal())
	if err != nil { // the library's error quotes the URL with the password
		return nil, fault.New(fault.Invalid, "postgres_url_invalid", "the PostgreSQL URL for migrations cannot be parsed")
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	// Replicas that start together wait for the one that migrates.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("prepare migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, Migrations(), goose.WithSessionLocker(locker),
		goose.WithAllowOutofOrder(true)) // a gap is filled, not reported for ever
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	var applied []Applied
	for _, r := range results {
		applied = append(applied, Applied{Version: r.Source.Version, Name: r.Source.Path})
	}
	if err != nil {
		return applied, classify(fmt.Errorf("migrate database: %w", err))
	}
	return applied, nil
}

// CheckSchema reports whether the schema has everything that this program knows of.
// A migration may be missing although a later one was applied: programs of two lines
// of development used the same database.
func (db *DB) CheckSchema(ctx context.Context) error {
	names, err := fs.Glob(Migrations(), "*.sql")
	if err != nil || len(names) == 0 {
		return fmt.Errorf("list migrations: %w", err)
	}
	wanted := make([]int64, len(names))
	for i, name := range names {
		if wanted[i], err = goose.NumericComponent(name); err != nil {
			return fmt.Errorf("read version of %s: %w", name, err)
		}
	}
	behind := fault.New(fault.Unavailable, "schema_behind", "the database schema is older than this program").
		WithRemedy("run: gpuaas migrate")
	var missing int
	err = db.QueryRow(ctx, `SELECT count(*) FROM unnest($1::bigint[]) AS w
		WHERE NOT EXISTS (SELECT FROM goose_db_version v WHERE v.version_id = w AND v.is_applied)`, wanted).Scan(&missing)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "42501") { // no such table yet, or not readable yet
		return behind
	}
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if missing > 0 {
		return behind
	}
	return nil
}
