package secrets_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/stack/stacktest"
)

func open(tb testing.TB, change func(*secrets.Config)) *secrets.Engine {
	tb.Helper()
	bao := stacktest.Bao(tb)
	cfg := secrets.Config{
		Address: bao.Address, RoleIDFile: bao.RoleIDFile, SecretIDFile: bao.SecretIDFile, KVMount: "gpuaas-kv",
	}
	if change != nil {
		change(&cfg)
	}
	e, err := secrets.Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestASecretIsStoredReadReplacedAndRemoved(t *testing.T) {
	e, path := open(t, nil), "test/"+id.NewString()
	if _, err := e.Get(t.Context(), path); !errors.Is(err, secrets.ErrNotFound) {
		t.Fatalf("before: %v", err)
	}
	for _, value := range []string{"first", "second"} {
		if err := e.Put(t.Context(), path, map[string]redact.Secret{"k": redact.New(value)}); err != nil {
			t.Fatal(err)
		}
		got, err := e.Get(t.Context(), path)
		if err != nil || got["k"].Reveal() != value {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	for range 2 { // removing it again is no error: a removal is repeated after a crash
		if err := e.Delete(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Get(t.Context(), path); !errors.Is(err, secrets.ErrNotFound) {
		t.Fatalf("after: %v", err)
	}
}

func TestTheProductReachesNothingBesideItsOwnMounts(t *testing.T) {
	e := open(t, func(c *secrets.Config) { c.KVMount = "secret" })
	err := e.Put(t.Context(), "x", map[string]redact.Secret{"k": redact.New("v")})
	if fault.CodeOf(err) != "secrets_refused" {
		t.Errorf("got %v", err)
	}
}

func TestReplacedCredentialsAreTakenUp(t *testing.T) {
	bao := stacktest.Bao(t)
	file := filepath.Join(t.TempDir(), "secret-id")
	if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, func(c *secrets.Config) { c.SecretIDFile = file })
	if err := e.Check(t.Context()); fault.CodeOf(err) != "secrets_refused" {
		t.Fatalf("with a wrong secret id: %v", err)
	}
	right, err := os.ReadFile(bao.SecretIDFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Errorf("with the right one: %v", err)
	}
}

func TestAnEngineThatIsNotThereIsUnavailable(t *testing.T) {
	e := open(t, func(c *secrets.Config) { c.Address = "http://127.0.0.1:1" })
	err := e.Put(t.Context(), "x", map[string]redact.Secret{"k": redact.New("canary-value")})
	if fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), "canary-value") {
		t.Errorf("got %v", err)
	}
	e = open(t, func(c *secrets.Config) { c.RoleIDFile = "/nonexistent" })
	if err := e.Check(t.Context()); fault.CodeOf(err) != "secrets_credentials_unreadable" {
		t.Errorf("got %v", err)
	}
}
