package stacktest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"gpuaas/stack"
)

// PostgresDB is a database of one test.
type PostgresDB struct {
	URL      string // the product's role
	OwnerURL string // the role that owns the database and migrates
}

// Migrate brings an empty database to the schema that tests expect.
type Migrate func(ctx context.Context, ownerURL string) error

// Postgres returns a fresh database that is dropped after the test. migrate
// makes the schema once per cluster, in a template that key names (a hash of
// the migrations), and each test gets a copy.
func Postgres(tb testing.TB, migrate Migrate, key string) PostgresDB {
	tb.Helper()
	c := openCluster(tb)
	template, err := c.template(tb.Context(), migrate, key)
	if err != nil {
		tb.Fatalf("prepare the template database: %v", err)
	}
	name, err := c.clone(tb.Context(), template)
	if err != nil {
		tb.Fatalf("copy the template database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := c.drop(ctx, name); err != nil {
			tb.Errorf("drop the test database: %v", err)
		}
	})
	return c.database(name)
}

// cluster makes and drops databases as superuser.
type cluster struct {
	stack stack.TestStack
	admin *pgxpool.Pool

	mu        sync.Mutex
	templates map[string]string // key → name of a finished template
}

// clusters keeps one pool per server for the life of the test process.
var clusters = struct {
	mu    sync.Mutex
	byURL map[string]*cluster
}{byURL: map[string]*cluster{}}

func openCluster(tb testing.TB) *cluster {
	tb.Helper()
	s := engine(tb, stack.Postgres)
	clusters.mu.Lock()
	defer clusters.mu.Unlock()
	if c := clusters.byURL[s.SuperuserURL]; c != nil {
		return c
	}
	config, err := pgxpool.ParseConfig(s.SuperuserURL)
	if err != nil {
		tb.Fatalf("read the superuser URL: %v", err)
	}
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatalf("open the test cluster: %v", err)
	}
	c := &cluster{stack: s, admin: pool, templates: map[string]string{}}
	clusters.byURL[s.SuperuserURL] = c
	return c
}

func (c *cluster) database(name string) PostgresDB {
	return PostgresDB{
		URL:      inDatabase(c.stack.Endpoints.PostgresURL, name),
		OwnerURL: inDatabase(c.stack.Endpoints.PostgresMigrateURL, name),
	}
}

func inDatabase(raw, name string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw // the stack made it; a client reports the error better than we can
	}
	u.Path = "/" + name
	return u.String()
}

// template returns the finished template for key. Several test processes may
// ask at once; an advisory lock lets one of them make it. The template mark of
// a database says that it is complete.
func (c *cluster) template(ctx context.Context, migrate Migrate, key string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.templates[key]; ok {
		return name, nil
	}
	name := fmt.Sprintf("template_%x", sha256.Sum256([]byte(key)))[:25]
	conn, err := c.admin.Acquire(ctx)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return "", fmt.Errorf("lock template %s: %w", name, err)
	}
	err = c.ensureTemplate(ctx, conn.Conn(), name, migrate)
	_, unlockErr := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", name)
	if err := errors.Join(err, unlockErr); err != nil {
		return "", err
	}
	c.templates[key] = name
	return name, nil
}

func (c *cluster) ensureTemplate(ctx context.Context, conn *pgx.Conn, name string, migrate Migrate) error {
	var finished bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)",
		name).Scan(&finished)
	if err != nil {
		return fmt.Errorf("look for template %s: %w", name, err)
	}
	if finished {
		return nil
	}
	if err := c.drop(ctx, name); err != nil { // left incomplete by a process that died
		return err
	}
	if err := c.create(ctx, conn, name, ""); err != nil {
		return err
	}
	if err := migrate(ctx, c.database(name).OwnerURL); err != nil {
		return fmt.Errorf("migrate template: %w", err)
	}
	// Nobody may connect any more: a template in use cannot be copied.
	_, err = conn.Exec(ctx, "ALTER DATABASE "+quoted(name)+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")
	if err != nil {
		return fmt.Errorf("finish template %s: %w", name, err)
	}
	return nil
}

// clone copies the template file by file, which is faster than copying through
// the log for a schema of this size.
func (c *cluster) clone(ctx context.Context, template string) (string, error) {
	name := "test_" + strings.ToLower(rand.Text()[:16])
	conn, err := c.admin.Acquire(ctx)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	return name, c.create(ctx, conn.Conn(), name, " TEMPLATE "+quoted(template)+" STRATEGY FILE_COPY")
}

// create makes a database as the launcher does: for its owner and the product's
// role only.
func (c *cluster) create(ctx context.Context, conn *pgx.Conn, name, how string) error {
	statement := "CREATE DATABASE " + quoted(name) + " OWNER gpuaas_owner" + how
	for {
		_, err := conn.Exec(ctx, statement)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "55006" { // the last session of the template is just ending
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return fmt.Errorf("make database %s: %w", name, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("make database %s: %w", name, err)
		}
		break
	}
	_, err := conn.Exec(ctx, "REVOKE ALL ON DATABASE "+quoted(name)+" FROM PUBLIC; GRANT CONNECT ON DATABASE "+
		quoted(name)+" TO gpuaas_app")
	if err != nil {
		return fmt.Errorf("restrict database %s: %w", name, err)
	}
	return nil
}

func (c *cluster) drop(ctx context.Context, name string) error {
	if _, err := c.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
