package stacktest_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/openbao/openbao/api/v2"

	"gpuaas/stack"
	"gpuaas/stack/stacktest"
)

// schema has the size of a real product's, because the cost of a clone depends
// on the number of relations.
func schema(ctx context.Context, ownerURL string) error {
	var sql strings.Builder
	for i := range 60 {
		fmt.Fprintf(&sql, `CREATE TABLE thing_%d (id bigint PRIMARY KEY, name text NOT NULL, at timestamptz, body jsonb);
			CREATE INDEX ON thing_%d (name); CREATE INDEX ON thing_%d (at);
			GRANT SELECT, INSERT, UPDATE, DELETE ON thing_%d TO gpuaas_app;`, i, i, i, i)
	}
	return execute(ctx, ownerURL, sql.String())
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

func TestPostgresGivesEachTestItsOwnDatabase(t *testing.T) {
	var made atomic.Int32
	key := rand.Text() // other processes share the cluster
	migrate := func(ctx context.Context, ownerURL string) error {
		made.Add(1)
		return schema(ctx, ownerURL)
	}
	t.Run("group", func(t *testing.T) {
		for i := range 4 {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				db := stacktest.Postgres(t, migrate, key)
				if err := execute(t.Context(), db.URL, "INSERT INTO thing_0 VALUES (1, 'mine')"); err != nil {
					t.Errorf("insert the row that every test inserts: %v", err)
				}
			})
		}
	})
	if n := made.Load(); n != 1 {
		t.Errorf("the template was migrated %d times, want once", n)
	}
}

func TestProductRoleHasNoMoreThanItWasGranted(t *testing.T) {
	db := stacktest.Postgres(t, schema, "things")
	for _, forbidden := range []string{
		"CREATE TABLE mine ()",
		"DROP TABLE thing_0",
		"CREATE ROLE mine",
		"CREATE DATABASE mine",
		"SELECT * FROM pg_authid",
	} {
		if err := execute(t.Context(), db.URL, forbidden); err == nil {
			t.Errorf("%s: allowed to the product's role, want refused", forbidden)
		}
	}
	if err := execute(t.Context(), db.OwnerURL, "CREATE ROLE mine"); err == nil {
		t.Error("the owner may create roles, want refused")
	}
	if err := execute(t.Context(), db.OwnerURL, "ALTER TABLE thing_0 ADD COLUMN more text"); err != nil {
		t.Errorf("the owner may not migrate: %v", err)
	}
}

func TestMigrationFailureIsToldAndRepaired(t *testing.T) {
	var probe failing
	key := rand.Text()
	probe.TB = t
	var wait sync.WaitGroup
	wait.Go(func() { // Fatal ends its goroutine
		stacktest.Postgres(&probe, func(ctx context.Context, url string) error {
			return execute(ctx, url, "CREATE TABLE half (); SELECT broken")
		}, key)
	})
	wait.Wait()
	if !strings.Contains(probe.said, `column "broken" does not exist`) {
		t.Errorf("failed migration said %q, want the database's words", probe.said)
	}
	db := stacktest.Postgres(t, schema, key)
	if err := execute(t.Context(), db.URL, "SELECT FROM thing_59"); err != nil {
		t.Errorf("use the repaired template: %v", err)
	}
}

// failing records what a failing test would say.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestNATSIsPrivateAndGuarded(t *testing.T) {
	one, two := stacktest.NATS(t), stacktest.NATS(t)
	if one.URL == two.URL {
		t.Fatalf("two servers share %s", one.URL)
	}
	if c, err := natsgo.Connect(one.URL); err == nil {
		c.Close()
		t.Error("NATS lets a client in without a token")
	}
	token, err := os.ReadFile(one.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := natsgo.Connect(one.URL, natsgo.Token(string(token)))
	if err != nil {
		t.Fatalf("connect with the token: %v", err)
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Errorf("make a stream: %v", err)
	}
}

func TestBaoAcceptsTheAppRole(t *testing.T) {
	access := stacktest.Bao(t)
	config := api.NewConfig()
	config.DisableEnvironment, config.Address = true, access.Address
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	roleID, err1 := os.ReadFile(access.RoleIDFile)
	secretID, err2 := os.ReadFile(access.SecretIDFile)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	login, err := c.Logical().WriteWithContext(t.Context(), "auth/approle/login",
		map[string]any{"role_id": string(roleID), "secret_id": string(secretID)})
	if err != nil || login.Auth == nil {
		t.Fatalf("log in with the AppRole: %v", err)
	}
}

func TestStartRunsAPrivateStack(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Only: []stack.Engine{stack.Postgres}})
	if err := execute(t.Context(), s.Endpoints().PostgresURL, "SELECT 1"); err != nil {
		t.Error(err)
	}
}

func BenchmarkClone(b *testing.B) {
	for b.Loop() {
		stacktest.Postgres(b, schema, "things")
	}
}
