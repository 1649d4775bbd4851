package identity_test

import (
	"errors"
	"sync"
	"testing"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

func TestBootstrapMakesOneAdministratorAmongManyReplicas(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	const replicas = 6
	tokens := make([]redact.Secret, replicas)
	created := make([]bool, replicas)
	var wg sync.WaitGroup
	for i := range replicas {
		wg.Go(func() {
			var err error
			tokens[i], created[i], err = w.service.Bootstrap(t.Context())
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var made []redact.Secret
	for i := range replicas {
		if created[i] {
			made = append(made, tokens[i])
		} else if !tokens[i].IsZero() {
			t.Error("a replica that created nothing was given a token")
		}
	}
	if len(made) != 1 {
		t.Fatalf("%d replicas created the administrator, want 1", len(made))
	}
	p, err := w.service.Authenticate(t.Context(), made[0])
	if err != nil {
		t.Fatal(err)
	}
	if p.Platform != auth.PlatformAdmin || p.Name != "admin" {
		t.Errorf("the token belongs to %s with role %q", p.Name, p.Platform)
	}
	w.wantRows(t, "SELECT count(*) FROM users", 1)
	w.wantRows(t, "SELECT count(*) FROM audit_logs WHERE actor_id = 'system:bootstrap' AND action IN ('user.create', "+
		"'token.create')", 2)
}

func TestBootstrapLeavesAnExistingAdministratorAlone(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	if _, err := w.service.CreateUser(system(t),
		identity.NewUser{Email: "a@example.com", PlatformRole: auth.PlatformAdmin}); err != nil {
		t.Fatal(err)
	}
	token, created, err := w.service.Bootstrap(t.Context())
	if err != nil || created || !token.IsZero() {
		t.Fatalf("created %v, token %v, error %v", created, token, err)
	}
}

func TestBootstrapPutsItsAdministratorBackIntoOffice(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	if _, _, err := w.service.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Only a direct change of the database can bring the platform into this
	// state.
	if _, err := w.db.Exec(t.Context(), "UPDATE users SET platform_role = NULL, disabled = true"); err != nil {
		t.Fatal(err)
	}
	token, created, err := w.service.Bootstrap(t.Context())
	if err != nil || !created {
		t.Fatalf("created %v, error %v", created, err)
	}
	if p, err := w.service.Authenticate(t.Context(), token); err != nil || p.Platform != auth.PlatformAdmin {
		t.Fatalf("principal %+v, error %v", p, err)
	}
	w.wantRows(t, "SELECT count(*) FROM users", 1)
}

func TestBootstrapCreatesNothingWhenItsTokenCannotBeKept(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	full := errors.New("disk full")
	_, created, err := w.service.Bootstrap(t.Context(), func(redact.Secret) error { return full })
	if created || !errors.Is(err, full) {
		t.Fatalf("created %v, error %v", created, err)
	}
	w.wantRows(t, "SELECT count(*) FROM users", 0)
	var kept redact.Secret
	token, created, err := w.service.Bootstrap(t.Context(), func(s redact.Secret) error { kept = s; return nil })
	if err != nil || !created || kept.Reveal() != token.Reveal() {
		t.Fatalf("created %v, error %v", created, err)
	}
}
