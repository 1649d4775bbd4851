package apiclient

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const canary = "canary-token-7f3a"

// script answers requests one after the other.
type script struct {
	t       *testing.T
	answers []http.HandlerFunc

	mu     sync.Mutex
	seen   []*http.Request
	bodies []string
	pauses []time.Duration
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen, s.bodies = append(s.seen, r), append(s.bodies, string(b))
	n := len(s.seen)
	s.mu.Unlock()
	if n > len(s.answers) {
		s.t.Errorf("unexpected request %d: %s %s", n, r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	s.answers[n-1](w, r)
}

func (s *script) client(cfg Config) *Client {
	s.t.Helper()
	server := httptest.NewUnstartedServer(s)
	server.Config.SetKeepAlivesEnabled(false) // the transport would repeat requests by itself
	server.Start()
	s.t.Cleanup(server.Close)
	cfg.URL = server.URL
	cfg.Wait = func(ctx context.Context, d time.Duration) error {
		s.pauses = append(s.pauses, d)
		return ctx.Err()
	}
	c, err := New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// requests are those that arrived so far.
func (s *script) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func problem(status int, code string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"urn:gpuaas:problem:`+code+`","title":"T","status":`+strconv.Itoa(status)+
			`,"code":"`+code+`","detail":"it is so","remedy":"do this","correlation_id":"c-1"}`)
	}
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const noTenants = `{"items":[]}`

func TestReadsAreRepeated(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{
		problem(503, "database_unavailable", "Retry-After", "5"), hangUp, problem(429, "rate_limit_exceeded"),
		answer(noTenants),
	}}
	resp, err := s.client(Config{Token: canary, UserAgent: "test/1"}).ListTenantsWithResponse(t.Context(), nil)
	if err != nil || resp.JSON == nil {
		t.Fatal(resp, err)
	}
	if s.pauses[0] < 5*time.Second || s.pauses[1] > 5*time.Second {
		t.Errorf("Retry-After was not honoured: %v", s.pauses)
	}
	for i, r := range s.requests() {
		if r.Header.Get("Authorization") != "Bearer "+canary || r.Header.Get("User-Agent") != "test/1" ||
			r.Header.Get(headerCorrelation) == "" || r.Header.Get(headerKey) != "" {
			t.Errorf("request %d: %v", i, r.Header)
		}
	}
	if s.requests()[0].Header.Get(headerCorrelation) != s.requests()[3].Header.Get(headerCorrelation) {
		t.Error("attempts of one call must share a correlation id")
	}
}

func TestChangesAreRepeatedUnderOneKey(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{
		hangUp, problem(503, "x"),
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{}`)
		},
	}}
	c := s.client(Config{Token: canary})
	if _, err := c.CreateTenantWithResponse(t.Context(), &CreateTenantParams{},
		IdentityNamingBody{Slug: "a", Name: "A"}); err != nil {
		t.Fatal(err)
	}
	key := s.requests()[0].Header.Get(headerKey)
	s.mu.Lock()
	bodies := slices.Clone(s.bodies)
	s.mu.Unlock()
	for i, r := range s.requests() {
		if r.Header.Get(headerKey) != key || key == "" || bodies[i] != `{"name":"A","slug":"a"}` {
			t.Errorf("attempt %d: key %q, body %q", i, r.Header.Get(headerKey), bodies[i])
		}
	}
	s.answers = append(s.answers, answer(`{}`))
	if _, err := c.CreateTenantWithResponse(t.Context(), &CreateTenantParams{}, IdentityNamingBody{}); err != nil {
		t.Fatal(err)
	}
	if s.requests()[3].Header.Get(headerKey) == key {
		t.Error("two changes had the same key")
	}
}

func TestGivenKey(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{answer(`{}`)}}
	if _, err := s.client(Config{Token: canary, IdempotencyKey: "mine"}).CreateTenantWithResponse(t.Context(),
		&CreateTenantParams{}, IdentityNamingBody{}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests()[0].Header.Get(headerKey); got != "mine" {
		t.Error(got)
	}
}

// Anonymous callers have no keys, so their changes are never repeated.
func TestSignInIsNotRepeated(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{problem(503, "x")}}
	_, err := s.client(Config{}).FinishOidcSignInWithResponse(t.Context(), IdentityFinishSignInBody{})
	if p := (*Problem)(nil); !errors.As(err, &p) || p.Status != 503 || s.requests()[0].Header.Get(headerKey) != "" {
		t.Error(err, s.requests()[0].Header)
	}
}

func TestRefusalsAreProblems(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 412, 422, 500, 504} {
		s := &script{t: t, answers: []http.HandlerFunc{problem(status, "some_code")}}
		_, err := s.client(Config{Token: canary}).GetMeWithResponse(t.Context())
		var p *Problem
		if !errors.As(err, &p) || p.Status != int64(status) || p.Code != "some_code" || *p.Remedy != "do this" ||
			*p.CorrelationId != "c-1" {
			t.Errorf("%d: %v", status, err)
		}
		if len(s.pauses) > 0 {
			t.Errorf("%d was repeated", status)
		}
	}
}

func TestAttemptsEnd(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{hangUp, hangUp, hangUp, hangUp}}
	_, err := s.client(Config{Token: canary}).RevokeMyTokenWithResponse(t.Context(), [16]byte{1}, &RevokeMyTokenParams{})
	var call *CallError
	if !errors.As(err, &call) || call.Attempts != 4 || call.IdempotencyKey != s.requests()[0].Header.Get(headerKey) ||
		call.Method != http.MethodDelete {
		t.Fatalf("%#v", err)
	}
	if strings.Contains(err.Error(), canary) {
		t.Error("the error holds the token")
	}
}

func TestLongRetryAfterIsToldAtOnce(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{problem(503, "maintenance", "Retry-After", "3600")}}
	if _, err := s.client(Config{}).ListTenantsWithResponse(t.Context(), nil); err == nil || len(s.pauses) > 0 {
		t.Error(err, s.pauses)
	}
}

func TestForeignAnswers(t *testing.T) {
	html := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>sign in</html>")
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		detail string
	}{
		"page": {html(404), "text/html"},
		"redirect": {
			http.RedirectHandler("https://elsewhere.example.com/", http.StatusFound).ServeHTTP,
			"https://elsewhere.example.com/",
		},
		"success": {html(200), "the API answers in JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, answers: []http.HandlerFunc{c.answer}}
			_, err := Read(s.client(Config{Token: canary}).GetMeWithResponse(t.Context()))
			var p *Problem
			if !errors.As(err, &p) || p.Code != CodeNotTheAPI || !strings.Contains(*p.Detail, c.detail) {
				t.Error(err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}}
	_, err := s.client(Config{Timeout: 20 * time.Millisecond, Attempts: 1}).GetMeWithResponse(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 20ms") {
		t.Error(err)
	}
}

func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &script{t: t, answers: []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) {
		cancel(errors.New("interrupt signal received"))
		<-r.Context().Done()
	}}}
	_, err := s.client(Config{Token: canary}).CreateSelfCheckWithResponse(ctx, &CreateSelfCheckParams{})
	var call *CallError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &call) || call.IdempotencyKey == "" || len(s.requests()) != 1 {
		t.Error(err)
	}
}

func TestURLs(t *testing.T) {
	for _, url := range []string{
		"", "gpuaas.example.com", "ftp://x", "https://", "https://user:" + canary + "@host",
		"https://host?x=1", "https://host#x", ":",
	} {
		if _, err := New(Config{URL: url}); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:8080", "https://host/", "https://host/gpuaas"} {
		if _, err := New(Config{URL: url}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestPathBeforeAPI(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{answer(noTenants)}}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := New(Config{URL: server.URL + "/gpuaas"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListTenantsWithResponse(t.Context(), nil); err != nil ||
		s.requests()[0].URL.Path != "/gpuaas/api/v1/tenants" {
		t.Error(err, s.requests()[0].URL)
	}
}

func TestCAFile(t *testing.T) {
	server := httptest.NewUnstartedServer(answer(noTenants))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	refusing := func(context.Context, time.Duration) error { t.Error("repeated although hopeless"); return nil }
	for caFile, trusted := range map[string]bool{"": false, file: true} {
		c, err := New(Config{URL: server.URL, CAFile: caFile, Wait: refusing})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ListTenantsWithResponse(t.Context(), nil); (err == nil) != trusted {
			t.Errorf("CA file %q: %v", caFile, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{empty, empty + ".missing"} {
		if _, err := New(Config{URL: server.URL, CAFile: bad}); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
