package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

// shop has effects in a real database: each order is one row of organizations.
type shop struct {
	*frame
	db *postgres.DB
	// These run inside the handler, before and after the effect.
	before, after func(context.Context) error
}

type order struct {
	Name string `json:"name" minLength:"1"`
}

type orderInput struct {
	Body order
}

type orderOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     order
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return openShop(t, postgrestest.New(t))
}

func openShop(t *testing.T, db *postgres.DB) *shop {
	t.Helper()
	s := &shop{db: db, frame: newFrame(t, func(c *httpapi.Config) { c.DB = db })}
	s.before = func(context.Context) error { return nil }
	s.after = s.before
	op := httpapi.Operation{
		ID: "create-order", Method: http.MethodPost, Path: "/orders", Summary: "Order", Tag: "test",
		Access: httpapi.Authenticated(), Status: http.StatusCreated,
	}
	httpapi.Register(s.API, op, s.handle)
	op.ID, op.Path, op.SecretResponse = "create-secret", "/secrets", true
	httpapi.Register(s.API, op, s.handle)
	op.ID, op.Path, op.SecretResponse, op.SecretRequest = "take-secret", "/taken", false, true
	httpapi.Register(s.API, op, s.handle)
	return s
}

func (s *shop) handle(ctx context.Context, in *orderInput) (*orderOutput, error) {
	if err := s.before(ctx); err != nil {
		return nil, err
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		fresh := id.NewString()
		_, err := tx.Exec(ctx, `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, $3)`, fresh, fresh, in.Body.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.after(ctx); err != nil {
		return nil, err
	}
	return &orderOutput{Location: "/orders/1", ETag: httpapi.ETag(1), Body: in.Body}, nil
}

// effects counts what was really done.
func (s *shop) effects(t *testing.T) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM organizations`)
}

func (s *shop) keys(t *testing.T) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM idempotency_keys`)
}

func (s *shop) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := s.db.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *shop) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	tag, err := s.db.Exec(t.Context(), statement, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %d rows, %v", statement, tag.RowsAffected(), err)
	}
}

func (s *shop) order(t *testing.T, key, body string, options ...func(*http.Request)) *result {
	t.Helper()
	return s.call(t, http.MethodPost, "/orders", "nobody", body, append(options, header("Idempotency-Key", key))...)
}

const expireLease = `UPDATE idempotency_keys SET locked_until = clock_timestamp() - interval '1 second'`

func TestRepeatedRequestIsReplayed(t *testing.T) {
	s := newShop(t)
	first := s.order(t, "k1", `{"name":"a"}`).expect(t, 201, "")
	second := s.order(t, "k1", `{"name":"a"}`).expect(t, 201, "")
	third := s.call(t, http.MethodPost, "/orders", "nobody", `{"name":"a"}`, header("X-Idempotency-Key", "k1")).expect(t,
		201, "")
	for _, r := range []*result{second, third} {
		if r.body != first.body || r.header.Get("Idempotency-Replayed") != "true" ||
			r.header.Get("Location") != "/orders/1" ||
			r.header.Get("ETag") != `"1"` || r.header.Get("Content-Type") != first.header.Get("Content-Type") {
			t.Errorf("replayed %q %v", r.body, r.header)
		}
		if r.header.Get("X-Correlation-Id") == first.header.Get("X-Correlation-Id") ||
			r.header.Get("Cache-Control") != "no-store" {
			t.Error("a replay is a request of its own")
		}
	}
	if first.header.Get("Idempotency-Replayed") != "" || s.effects(t) != 1 {
		t.Errorf("%d effects", s.effects(t))
	}
	s.order(t, "k2", `{"name":"a"}`).expect(t, 201, "")
	s.call(t, http.MethodPost, "/orders", "nobody", `{"name":"a"}`).expect(t, 201, "")
	if s.effects(t) != 3 {
		t.Errorf("%d effects", s.effects(t))
	}
}

func TestKeyBelongsToOneRequestAndCaller(t *testing.T) {
	s := newShop(t)
	s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	s.order(t, "k", `{"name":"b"}`).expect(t, 409, "idempotency_key_reused")
	s.call(t, http.MethodPost, "/secrets", "nobody", `{"name":"a"}`, header("Idempotency-Key", "k")).expect(t, 409,
		"idempotency_key_reused")
	other := s.call(t, http.MethodPost, "/orders", "nobody-else", `{"name":"a"}`, header("Idempotency-Key", "k")).expect(t,
		201, "")
	if other.header.Get("Idempotency-Replayed") != "" || s.effects(t) != 2 {
		t.Error("one caller was given the answer of another")
	}
	s.world.set(func(w *world) { w.revoked["nobody"] = true })
	s.order(t, "k", `{"name":"a"}`).expect(t, 401, "token_invalid")
}

func TestWhichAnswersAreKept(t *testing.T) {
	for _, c := range []struct {
		kind fault.Kind
		kept bool
	}{
		{fault.Invalid, true},
		{fault.NotFound, true},
		{fault.Conflict, true},
		{fault.Stale, true},
		{fault.Unauthenticated, false},
		{fault.Forbidden, false},
		{fault.RateLimited, false},
		{fault.Unavailable, false},
		{fault.Ambiguous, false},
		{fault.Internal, false},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			s := newShop(t)
			s.before = func(context.Context) error { return fault.New(c.kind, "some_code", "no") }
			first := s.order(t, "k", `{"name":"a"}`)
			s.before = func(context.Context) error { return nil }
			again := s.order(t, "k", `{"name":"a"}`)
			if c.kept && (again.body != first.body || s.effects(t) != 0 || again.header.Get("Idempotency-Replayed") != "true") {
				t.Errorf("not replayed: %s", again.body)
			}
			if !c.kept && (again.status != 201 || s.effects(t) != 1) {
				t.Errorf("not carried out: %d %s", again.status, again.body)
			}
		})
	}
}

func TestRejectedInputIsReplayed(t *testing.T) {
	s := newShop(t)
	s.order(t, "k", `{"name":7}`).expect(t, 422, "validation_error")
	r := s.order(t, "k", `{"name":7}`).expect(t, 422, "validation_error")
	if r.header.Get("Idempotency-Replayed") != "true" {
		t.Error("not replayed")
	}
}

func TestConcurrentRequestsHaveOneEffect(t *testing.T) {
	s := newShop(t)
	const n = 12
	var all sync.WaitGroup
	results := make([]*result, n)
	for i := range n {
		all.Go(func() { results[i] = s.order(t, "k", `{"name":"a"}`) })
	}
	all.Wait()
	created := 0
	for _, r := range results {
		switch {
		case r.status == 201:
			created++
		case r.problem.Code == "idempotency_in_progress" && r.header.Get("Retry-After") != "":
		default:
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if created == 0 || s.effects(t) != 1 {
		t.Errorf("%d answered, %d effects", created, s.effects(t))
	}
}

func TestInProgress(t *testing.T) {
	s := newShop(t)
	entered, proceed := make(chan struct{}), make(chan struct{})
	s.before = func(context.Context) error { close(entered); <-proceed; return nil }
	done := make(chan *result)
	go func() { done <- s.order(t, "k", `{"name":"a"}`) }()
	<-entered
	r := s.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_in_progress")
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	s.order(t, "k", `{"name":"b"}`).expect(t, 409, "idempotency_key_reused")
	close(proceed)
	(<-done).expect(t, 201, "")
	s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	if s.effects(t) != 1 {
		t.Errorf("%d effects", s.effects(t))
	}
}

// The process died after the commit and before the answer was stored. Only the
// row remains, as that process left it.
func TestCrashAfterEffect(t *testing.T) {
	s := newShop(t)
	s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	s.exec(t, `UPDATE idempotency_keys SET status = NULL, headers = NULL, body = NULL,
		locked_until = clock_timestamp() + interval '1 minute' WHERE effect_committed`)
	s.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_in_progress")
	s.exec(t, expireLease)
	s.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_outcome_unknown")
	s.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_outcome_unknown")
	if s.effects(t) != 1 {
		t.Errorf("%d effects", s.effects(t))
	}
}

// The database goes away after the commit: the caller gets the answer, but it
// is not stored. Another replica that still has the database takes the next
// request.
func TestDatabaseLostAfterEffect(t *testing.T) {
	mine, others := postgrestest.NewWithOwner(t)
	s, replica := openShop(t, mine), openShop(t, others)
	s.after = func(context.Context) error { mine.Close(); return nil }
	s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	replica.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_in_progress")
	replica.exec(t, expireLease)
	replica.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_outcome_unknown")
	if replica.effects(t) != 1 {
		t.Errorf("%d effects", replica.effects(t))
	}
}

// If a handler fails after its commit, the effect must not become repeatable.
func TestFailureAfterEffect(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("lost") },
		"panic": func(context.Context) error { panic("lost") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.after = fail
			s.order(t, "k", `{"name":"a"}`).expect(t, 500, "internal")
			s.after = func(context.Context) error { return nil }
			s.order(t, "k", `{"name":"a"}`).expect(t, 409, "idempotency_outcome_unknown")
			if s.effects(t) != 1 {
				t.Errorf("%d effects", s.effects(t))
			}
		})
	}
}

func TestFailureBeforeEffectIsRepeatable(t *testing.T) {
	s := newShop(t)
	s.before = func(context.Context) error { panic("lost") }
	s.order(t, "k", `{"name":"a"}`).expect(t, 500, "internal")
	s.before = func(context.Context) error { return nil }
	s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	if s.effects(t) != 1 {
		t.Errorf("%d effects", s.effects(t))
	}
}

// The first request outlives its lease and the second takes over. Whichever
// commits first wins; the other is rolled back.
func TestOvertakenRequestHasNoEffect(t *testing.T) {
	s := newShop(t)
	entered, proceed := make(chan struct{}), make(chan struct{})
	s.before = func(context.Context) error { close(entered); <-proceed; return nil }
	slow := make(chan *result)
	go func() { slow <- s.order(t, "k", `{"name":"a"}`) }()
	<-entered
	s.exec(t, expireLease)
	s.before = func(context.Context) error { return nil }
	s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	close(proceed)
	(<-slow).expect(t, 409, "idempotency_overtaken")
	r := s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	if s.effects(t) != 1 || r.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d effects", s.effects(t))
	}
}

// The caller gives up while the request runs, and asks again.
func TestAnswerIsKeptForACallerWhoLeft(t *testing.T) {
	s := newShop(t)
	ctx, leave := context.WithCancel(t.Context())
	s.after = func(context.Context) error { leave(); return nil }
	s.order(t, "k", `{"name":"a"}`, func(r *http.Request) { *r = *r.WithContext(ctx) })
	r := s.order(t, "k", `{"name":"a"}`).expect(t, 201, "")
	if r.header.Get("Idempotency-Replayed") != "true" || s.effects(t) != 1 {
		t.Errorf("%d effects, %v", s.effects(t), r.header)
	}
}

func TestSecretAnswerIsNotStored(t *testing.T) {
	s := newShop(t)
	send := func() *result {
		return s.call(t, http.MethodPost, "/secrets", "nobody", `{"name":"c4nary"}`, header("Idempotency-Key", "k"))
	}
	if r := send().expect(t, 201, ""); !strings.Contains(r.body, "c4nary") {
		t.Errorf("first answer %s", r.body)
	}
	r := send().expect(t, 409, "idempotency_response_withheld")
	if r.problem.Remedy == "" || strings.Contains(r.body, "c4nary") {
		t.Errorf("second answer %s", r.body)
	}
	if s.effects(t) != 1 || s.count(t,
		`SELECT count(*) FROM idempotency_keys WHERE body IS NOT NULL AND body_withheld`) != 0 {
		t.Error("the answer was stored")
	}
}

// A hash of a body with a password would let readers of the table guess it.
func TestOfASecretRequestNotEvenAHashIsStored(t *testing.T) {
	s := newShop(t)
	for _, password := range []string{"one", "two"} {
		s.call(t, http.MethodPost, "/taken", "nobody", `{"name":"`+password+`"}`,
			header("Idempotency-Key", password)).expect(t, 201, "")
	}
	if n := s.count(t, `SELECT count(DISTINCT request_hash) FROM idempotency_keys`); n != 1 {
		t.Errorf("%d hashes: they depend on the body", n)
	}
}

func TestKeyOfAPublicOperationIsIgnored(t *testing.T) {
	s := newShop(t)
	calls := 0
	httpapi.Register(s.API, httpapi.Operation{
		ID: "sign-in", Method: http.MethodPost, Path: "/sign-in", Summary: "Sign in", Tag: "test", Access: httpapi.Public(),
	}, func(context.Context, *noInput) (*struct{}, error) { calls++; return nil, nil })
	for range 2 {
		s.call(t, http.MethodPost, "/sign-in", "", "", header("Idempotency-Key", "k")).expect(t, 204, "")
	}
	if calls != 2 || s.keys(t) != 0 {
		t.Errorf("%d calls, %d keys", calls, s.keys(t))
	}
}

func TestSweep(t *testing.T) {
	s := newShop(t)
	s.order(t, "old", `{"name":"a"}`).expect(t, 201, "")
	s.exec(t, `UPDATE idempotency_keys SET created_at = clock_timestamp() - interval '25 hours' WHERE key = 'old'`)
	s.order(t, "new", `{"name":"a"}`).expect(t, 201, "")
	n, err := s.Sweep(t.Context())
	if err != nil || n != 1 || s.keys(t) != 1 {
		t.Errorf("swept %d, %d left, %v", n, s.keys(t), err)
	}
	s.order(t, "old", `{"name":"b"}`).expect(t, 201, "")
}

func TestDatabaseDown(t *testing.T) {
	db, err := postgres.Open(postgres.Config{URL: redact.New("postgres://nobody:x@127.0.0.1:1/none")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f := inputFrame(t, func(c *httpapi.Config) { c.DB = db })
	r := f.call(t, http.MethodPost, "/things", "nobody", goodThing, header("Idempotency-Key", "k")).expect(t, 503,
		"postgres_unavailable")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
