package identity_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/people/identity"
)

// world is a control plane with nothing but identity in it.
type world struct {
	db      *postgres.DB
	service *identity.Service
	api     *httpapi.API
	clock   *clock
	denials *denials
	logs    *bytes.Buffer
}

func newWorld(tb testing.TB, oidc identity.OIDCConfig) *world {
	tb.Helper()
	w := &world{
		db: postgrestest.New(tb), clock: &clock{now: time.Now().Truncate(time.Microsecond)}, denials: &denials{},
		logs: &bytes.Buffer{},
	}
	logger := slog.New(slog.NewTextHandler(&lockedWriter{to: w.logs}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.service = identity.New(identity.Config{DB: w.db, Logger: logger, Clock: w.clock.Now, OIDC: oidc})
	w.api = httpapitest.New(w.db, func(c *httpapi.Config) {
		c.Logger, c.Auth, c.Projects, c.Denials = logger, w.service, w.service, w.denials
	})
	w.service.Register(w.api)
	return w
}

type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// clock is the time as the test tells it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// denials counts what the API refused.
type denials struct {
	mu    sync.Mutex
	count int
}

func (d *denials) RecordDenial(context.Context, httpapi.Denial) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	return nil
}

func (d *denials) take() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.count
	d.count = 0
	return n
}

func system(tb testing.TB) context.Context {
	return auth.With(tb.Context(), auth.System("test"))
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func (w *world) tenant(tb testing.TB, slug string) identity.Tenant {
	tb.Helper()
	return must(w.service.CreateTenant(system(tb), identity.Naming{Slug: slug, Name: slug}))(tb)
}

func (w *world) project(tb testing.TB, org id.Org, slug string) identity.Project {
	tb.Helper()
	return must(w.service.CreateProject(system(tb), org, identity.Naming{Slug: slug, Name: slug}))(tb)
}

func (w *world) user(tb testing.TB, email string, platform auth.Role) identity.User {
	tb.Helper()
	return must(w.service.CreateUser(system(tb), identity.NewUser{Email: email, PlatformRole: platform}))(tb)
}

func (w *world) account(tb testing.TB, project id.Project, name string, role auth.Role) identity.ServiceAccount {
	tb.Helper()
	return must(w.service.CreateServiceAccount(system(tb), project, identity.NewServiceAccount{Name: name, Role: role}))(
		tb)
}

// token makes a token for a person, as they would themselves.
func (w *world) token(tb testing.TB, who id.User, scopes ...auth.Permission) redact.Secret {
	tb.Helper()
	_, plain, err := w.service.CreateOwnToken(auth.With(tb.Context(), person(who)),
		identity.NewToken{Name: "test", Scopes: scopes})
	if err != nil {
		tb.Fatal(err)
	}
	return plain
}

func person(who id.User) *auth.Principal {
	return &auth.Principal{Kind: auth.KindUser, ID: who.String(), Name: "test"}
}

// as is the context of a request that comes with a token.
func (w *world) as(tb testing.TB, token redact.Secret) context.Context {
	tb.Helper()
	return auth.With(tb.Context(), must(w.service.Authenticate(tb.Context(), token))(tb))
}

func (w *world) wantRows(tb testing.TB, query string, want int64) {
	tb.Helper()
	var got int64
	if err := w.db.QueryRow(tb.Context(), query).Scan(&got); err != nil {
		tb.Fatal(err)
	}
	if got != want {
		tb.Errorf("%s\n= %d, want %d", query, got, want)
	}
}

func wantCode(tb testing.TB, err error, code string) {
	tb.Helper()
	switch {
	case err == nil && code != "":
		tb.Errorf("succeeded, want %s", code)
	case err != nil && (code == "" || fault.CodeOf(err) != code):
		tb.Errorf("got %v, want %q", err, code)
	}
}

// callAs sends one request; ifMatch is left out when it is empty.
func (w *world) callAs(
	tb testing.TB, token redact.Secret, method, path, ifMatch string, body any,
) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: token.Reveal(), Method: method, Path: path, IfMatch: ifMatch, Body: body,
	})
}

// browserWith is a browser on our page, with the cookie of a session.
func browserWith(cookie *http.Cookie) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
}

// firstPage is the beginning of any listing.
func firstPage[key any]() postgres.Slice[key] { return postgres.Slice[key]{Limit: 100} }
