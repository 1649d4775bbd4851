package identity_test

import (
	"crypto/sha256"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

func TestTokensThatAreNone(t *testing.T) {
	s := newStage(t)
	good := s.token(t, s.dev.ID).Reveal()
	last := "A"
	if strings.HasSuffix(good, "A") {
		last = "E"
	}
	for _, bad := range []string{"", "x", good[:len(good)-1] + last, good + "x", "gpuaas_s" + good[8:]} {
		wantRefused(t, s.world, redact.New(bad), "token_invalid")
	}
}

func TestTokenExpires(t *testing.T) {
	s := newStage(t)
	_, plain, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.dev.ID)),
		identity.NewToken{Name: "x", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.advance(time.Hour - time.Millisecond)
	s.as(t, plain)
	s.clock.advance(time.Millisecond)
	wantRefused(t, s.world, plain, "token_expired")
}

func TestTokenDefaultLife(t *testing.T) {
	s := newStage(t)
	token, _, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.dev.ID)), identity.NewToken{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if life := token.ExpiresAt.Sub(token.CreatedAt); life != 30*24*time.Hour {
		t.Errorf("a token lives %s", life)
	}
}

func TestRevokedTokenIsRefusedAtOnce(t *testing.T) {
	s := newStage(t)
	plain := s.token(t, s.dev.ID)
	ctx := s.as(t, plain)
	wantCode(t, s.service.SignOut(ctx), "")
	wantRefused(t, s.world, plain, "token_invalid")
	wantCode(t, s.service.SignOut(ctx), "not_found")
	left := must(s.service.OwnTokens(ctx, firstPage[id.Token]()))(t)
	if len(left) != 0 {
		t.Errorf("revoked tokens are listed: %v", left)
	}
}

func TestDisablingAPersonRevokesTheirTokensForGood(t *testing.T) {
	s := newStage(t)
	one, two := s.token(t, s.dev.ID), s.token(t, s.dev.ID)
	ctx := s.as(t, one)
	yes, no := true, false
	u := must(s.service.UpdateUser(system(t), s.dev.ID, 1, identity.UserChange{Disabled: &yes}))(t)
	wantRefused(t, s.world, one, "token_invalid")
	wantRefused(t, s.world, two, "token_invalid")
	s.wantRows(t, "SELECT count(*) FROM api_tokens WHERE user_id IS NOT NULL AND revoked_at IS NULL", 0)
	_, _, err := s.service.CreateOwnToken(ctx, identity.NewToken{Name: "late"}) // a request that was admitted before
	wantCode(t, err, "token_invalid")
	must(s.service.UpdateUser(system(t), s.dev.ID, u.Version, identity.UserChange{Disabled: &no}))(t)
	wantRefused(t, s.world, one, "token_invalid")
	s.as(t, s.token(t, s.dev.ID))
}

// The flag alone is enough, should a token ever be left.
func TestTokenOfADisabledPersonIsRefused(t *testing.T) {
	s := newStage(t)
	plain := s.token(t, s.dev.ID)
	if _, err := s.db.Exec(t.Context(), "UPDATE users SET disabled = true WHERE id = $1", s.dev.ID); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s.world, plain, "token_invalid")
}

// If somebody makes a token for a person while that person is being disabled,
// no token survives, whichever comes first.
func TestNoTokenSlipsPastDisabling(t *testing.T) {
	s := newStage(t)
	yes := true
	var plain redact.Secret
	var made error
	var wg sync.WaitGroup
	wg.Go(func() {
		_, plain, made = s.service.CreateOwnToken(auth.With(t.Context(), person(s.dev.ID)), identity.NewToken{Name: "x"})
	})
	wg.Go(func() {
		if _, err := s.service.UpdateUser(system(t), s.dev.ID, 1, identity.UserChange{Disabled: &yes}); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if made == nil {
		wantRefused(t, s.world, plain, "token_invalid")
	}
	s.wantRows(t, "SELECT count(*) FROM api_tokens WHERE user_id IS NOT NULL AND revoked_at IS NULL", 0)
}

func TestServiceAccountTokens(t *testing.T) {
	s := newStage(t)
	_, plain, err := s.service.CreateServiceAccountToken(system(t), s.project.ID, s.bot.ID, identity.NewToken{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	p := auth.From(s.as(t, plain))
	want := auth.ProjectRole{Org: s.acme.ID, Role: auth.ProjectMember}
	if p.Kind != auth.KindServiceAccount || p.Name != "bot" || len(p.Projects) != 1 || p.Projects[s.project.ID] != want {
		t.Errorf("principal is %+v", p)
	}
	_, _, err = s.service.CreateOwnToken(s.as(t, plain), identity.NewToken{Name: "forever"})
	wantCode(t, err, "person_required")

	off, on := identity.ServiceAccountDisabled, identity.ServiceAccountActive
	a := must(s.service.UpdateServiceAccount(system(t), s.project.ID, s.bot.ID, 1,
		identity.ServiceAccountChange{Status: &off}))(t)
	wantRefused(t, s.world, plain, "token_invalid")
	_, _, err = s.service.CreateServiceAccountToken(system(t), s.project.ID, s.bot.ID, identity.NewToken{Name: "x"})
	wantCode(t, err, "service_account_disabled")
	must(s.service.UpdateServiceAccount(system(t), s.project.ID, s.bot.ID, a.Version,
		identity.ServiceAccountChange{Status: &on}))(t)
	s.as(t, plain)

	wantCode(t, s.service.DeleteServiceAccount(system(t), s.project.ID, s.bot.ID), "")
	wantRefused(t, s.world, plain, "token_invalid")
	wantCode(t, s.service.DeleteServiceAccount(system(t), s.project.ID, s.bot.ID), "not_found")
	_, err = s.service.ServiceAccount(system(t), s.project.ID, s.bot.ID)
	wantCode(t, err, "not_found")
	s.account(t, s.project.ID, "bot", auth.ProjectViewer) // the name is free again
}

func TestScopedTokenMakesNoWiderOne(t *testing.T) {
	s := newStage(t)
	narrow := s.as(t, s.token(t, s.boss.ID, auth.ServiceAccountManage, auth.ProjectRead))
	for _, c := range []struct {
		scopes []auth.Permission
		code   string
	}{
		{nil, "scope_above_own"},
		{[]auth.Permission{auth.TenantUpdate}, "scope_above_own"},
		{[]auth.Permission{auth.ProjectRead}, ""},
	} {
		_, _, err := s.service.CreateOwnToken(narrow, identity.NewToken{Name: "x", Scopes: c.scopes})
		wantCode(t, err, c.code)
		_, _, err = s.service.CreateServiceAccountToken(narrow, s.project.ID, s.bot.ID,
			identity.NewToken{Name: "x", Scopes: c.scopes})
		wantCode(t, err, c.code)
	}
}

func TestScopedTokenRevokesOnlyItself(t *testing.T) {
	s := newStage(t)
	wide, narrow := s.token(t, s.boss.ID), s.token(t, s.boss.ID, auth.ProjectRead)
	ctx := s.as(t, narrow)
	wantCode(t, s.service.RevokeOwnToken(ctx, auth.From(s.as(t, wide)).Token), "scope_above_own")
	wantCode(t, s.service.RevokeOwnToken(ctx, auth.From(ctx).Token), "")
	wantRefused(t, s.world, narrow, "token_invalid")
	s.as(t, wide)
}

func TestServiceAccountRevokesItsOwnToken(t *testing.T) {
	s := newStage(t)
	_, plain, err := s.service.CreateServiceAccountToken(system(t), s.project.ID, s.bot.ID, identity.NewToken{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := s.as(t, plain)
	if tokens := must(s.service.OwnTokens(ctx, firstPage[id.Token]()))(t); len(tokens) != 2 {
		t.Errorf("its tokens are %+v", tokens)
	}
	wantCode(t, s.service.SignOut(ctx), "")
	wantRefused(t, s.world, plain, "token_invalid")
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'token.revoke' AND org_id = '"+s.acme.ID.String()+
		"' AND project_id = '"+s.project.ID.String()+"'", 1)
}

func TestUseOfATokenIsNotedOnceAMinute(t *testing.T) {
	s := newStage(t)
	plain := s.token(t, s.dev.ID)
	used := func() time.Time {
		tokens := must(s.service.OwnTokens(s.as(t, plain), firstPage[id.Token]()))(t)
		if len(tokens) != 1 || tokens[0].LastUsedAt == nil {
			t.Fatalf("tokens are %+v", tokens)
		}
		return *tokens[0].LastUsedAt
	}
	first := used()
	s.clock.advance(59 * time.Second)
	if got := used(); !got.Equal(first) {
		t.Errorf("a use within the minute was written: %s after %s", got, first)
	}
	s.clock.advance(time.Second)
	if got := used(); got.Sub(first) != time.Minute {
		t.Errorf("a use a minute later reads %s after the first", got.Sub(first))
	}
}

// The text of a token must be nowhere but in the answer that made it.
func TestTokensAreStoredNowhere(t *testing.T) {
	s := newStage(t)
	plain := s.token(t, s.dev.ID)
	s.as(t, plain)
	var dump string
	err := s.db.QueryRow(t.Context(), `SELECT string_agg(row_to_json(x)::text, '') FROM (
		SELECT row_to_json(t) FROM api_tokens t UNION ALL SELECT row_to_json(a) FROM audit_logs a
		UNION ALL SELECT row_to_json(o) FROM outbox_events o) x`).Scan(&dump)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(dump, plain.Reveal()) || strings.Contains(dump, plain.Reveal()[8:]) {
		t.Error("a row holds the token")
	}
	var hash []byte
	sum := sha256.Sum256([]byte(plain.Reveal()))
	err = s.db.QueryRow(t.Context(), "SELECT hash FROM api_tokens WHERE hash = $1", sum[:]).Scan(&hash)
	if err != nil {
		t.Errorf("the hash is not that of the token: %v", err)
	}
}
