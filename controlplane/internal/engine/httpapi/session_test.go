package httpapi_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	plainCookie  = "gpuaas_session"
	secureCookie = "__Host-gpuaas_session"
)

var sessionEnds = time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)

type cookieAnswer struct {
	SetCookie string `header:"Set-Cookie"`
}

func post(opID, path string, access httpapi.Access) httpapi.Operation {
	return httpapi.Operation{
		ID: opID, Method: http.MethodPost, Path: path, Summary: opID, Tag: "test", Access: access,
		Status: http.StatusNoContent,
	}
}

// sessionFrame has operations that open and end a session, read, change and
// stream.
func sessionFrame(t *testing.T, change ...func(*httpapi.Config)) *frame {
	t.Helper()
	f := streamFrame(t, func(context.Context, *feedInput, sender) error { return nil }, change...)
	open := post("open", "/open", httpapi.Public())
	open.OpensSession = true
	httpapi.Register(f.API, open, func(ctx context.Context, _ *noInput) (*cookieAnswer, error) {
		return &cookieAnswer{SetCookie: httpapi.NewSession(ctx, redact.New("viewer"), sessionEnds)}, nil
	})
	httpapi.Register(f.API, post("end", "/end", httpapi.Authenticated()),
		func(ctx context.Context, _ *noInput) (*cookieAnswer, error) {
			return &cookieAnswer{SetCookie: httpapi.EndSession(ctx)}, nil
		})
	httpapi.Register(f.API, get("read", "/read", httpapi.Authenticated()), ok)
	httpapi.Register(f.API, post("change", "/change", httpapi.Authenticated()), ok)
	return f
}

func session(token string) func(*http.Request) {
	return func(r *http.Request) {
		name := plainCookie
		if port := r.URL.Port(); port != "" { // of a server, not of a handler that is called
			name += "_" + port
		}
		r.AddCookie(&http.Cookie{Name: name, Value: token})
	}
}

func cookiesOf(t *testing.T, r *result) *http.Cookie {
	t.Helper()
	found := (&http.Response{Header: r.header}).Cookies()
	if len(found) > 1 {
		t.Fatalf("%d cookies: %v", len(found), r.header["Set-Cookie"])
	}
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

func byTLS(r *http.Request) { r.TLS = &tls.ConnectionState{} }

func TestASessionIsACookieThatOnlyThisHostSees(t *testing.T) {
	f := sessionFrame(t, func(c *httpapi.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(
			"10.0.0.0/8")}
	})
	from := func(addr, proto string) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr = addr + ":4711"
			r.Header.Set("X-Forwarded-Proto", proto)
		}
	}
	for name, c := range map[string]struct {
		request func(*http.Request)
		secure  bool
	}{
		"plain HTTP":                  {func(*http.Request) {}, false},
		"TLS":                         {byTLS, true},
		"TLS at a trusted proxy":      {from("10.1.2.3", "https"), true},
		"TLS at the first of proxies": {from("10.1.2.3", "https, http"), true},
		"HTTP at a trusted proxy":     {from("10.1.2.3", "http"), false},
		"TLS says a stranger":         {from("192.0.2.7", "https"), false},
	} {
		t.Run(name, func(t *testing.T) {
			set := cookiesOf(t, f.call(t, http.MethodPost, "/open", "", "", c.request).expect(t, 204, ""))
			wantName := plainCookie
			if c.secure {
				wantName = secureCookie
			}
			if set == nil || set.Name != wantName || set.Value != "viewer" || set.Secure != c.secure {
				t.Fatalf("cookie is %+v", set)
			}
			if !set.HttpOnly || set.SameSite != http.SameSiteStrictMode || set.Path != "/" || set.Domain != "" ||
				!set.Expires.Equal(sessionEnds) {
				t.Errorf("cookie is %s", set.Raw)
			}
			back := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: set.Name, Value: set.Value}) }
			f.call(t, http.MethodGet, "/read", "", "", c.request, back).expect(t, 204, "")
			ended := cookiesOf(t, f.call(t, http.MethodPost, "/end", "", "", c.request, back,
				header("Sec-Fetch-Site", "same-origin")).expect(t, 204, ""))
			if ended == nil || ended.Name != wantName || ended.MaxAge >= 0 || ended.Value != "" || ended.Path != "/" ||
				ended.Secure != c.secure {
				t.Errorf("the end of the session is %+v", ended)
			}
		})
	}
}

// Somebody may have planted the cookie of the other kind of connection: over
// TLS, the name without the prefix does not count.
func TestOnlyTheCookieOfTheConnectionCounts(t *testing.T) {
	f := sessionFrame(t)
	f.call(t, http.MethodGet, "/read", "", "", byTLS, session("viewer")).expect(t, 401, "token_missing")
	f.call(t, http.MethodGet, "/read", "", "", func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: secureCookie, Value: "viewer"})
	}).expect(t, 401, "token_missing")
	f.call(t, http.MethodGet, "/read", "", "", session("")).expect(t, 401, "token_missing")
}

// A browser has one cookie jar for all ports of a host. Control planes that are
// tried out side by side must not end each other's sessions.
func TestSessionsOfTwoPortsAreApart(t *testing.T) {
	f := sessionFrame(t)
	at := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	for host, want := range map[string]string{
		"127.0.0.1:8080": plainCookie + "_8080", "[::1]:8090": plainCookie + "_8090", "gpu.example": plainCookie,
		"gpu.example:x;y": plainCookie,
	} {
		set := cookiesOf(t, f.call(t, http.MethodPost, "/open", "", "", at(host)).expect(t, 204, ""))
		if set == nil || set.Name != want {
			t.Fatalf("at %s the cookie is %+v, want %s", host, set, want)
		}
		back := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: set.Name, Value: set.Value}) }
		f.call(t, http.MethodGet, "/read", "", "", at(host), back).expect(t, 204, "")
		f.call(t, http.MethodGet, "/read", "", "", at("127.0.0.1:9"), back).expect(t, 401, "token_missing")
	}
}

func TestASessionThatIsOverIsForgotten(t *testing.T) {
	f := sessionFrame(t)
	f.world.set(func(w *world) { w.revoked["viewer"] = true })
	for token, code := range map[string]string{
		"expired": "token_expired", "viewer": "token_invalid",
		"rubbish": "token_invalid",
	} {
		r := f.call(t, http.MethodGet, "/read", "", "", session(token)).expect(t, 401, code)
		if set := cookiesOf(t, r); set == nil || set.Name != plainCookie || set.MaxAge >= 0 {
			t.Errorf("%s: cookie is %+v", token, set)
		}
		if set := cookiesOf(t, f.call(t, http.MethodGet, "/read", token, "").expect(t, 401, code)); set != nil {
			t.Errorf("%s in the header: cookie is %+v", token, set)
		}
	}
	f.world.set(func(w *world) { w.down = true })
	r := f.call(t, http.MethodGet, "/read", "", "", session("admin")).expect(t, 503, "postgres_unavailable")
	if set := cookiesOf(t, r); set != nil {
		t.Errorf("an outage ends the session: %+v", set)
	}
}

func TestTheHeaderWinsOverTheCookie(t *testing.T) {
	f := sessionFrame(t)
	f.call(t, http.MethodGet, "/read", "expired", "", session("viewer")).expect(t, 401, "token_expired")
	f.call(t, http.MethodGet, "/read", "viewer", "", session("expired")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/read", "", "", session("viewer"), header("Authorization", "Basic eDp5")).expect(t, 401,
		"token_missing")
	if set := cookiesOf(t, f.call(t, http.MethodPost, "/end", "viewer", "", session("viewer")).expect(t, 204,
		"")); set != nil {
		t.Errorf("who signs out with a token ends the session of the browser: %+v", set)
	}
}

func TestPagesOfOtherOriginsCannotUseTheCookie(t *testing.T) {
	const own, other = "http://example.com", "http://evil.example.com" // httptest asks example.com
	f := sessionFrame(t)
	for _, c := range []struct {
		site, origin          string
		read, change, watch   int
		openSession, byHeader int
	}{
		{"", "", 204, 403, 200, 204, 204},
		{"same-origin", "", 204, 204, 200, 204, 204},
		{"same-origin", own, 204, 204, 200, 204, 204},
		{"none", "", 204, 204, 200, 204, 204},
		{"same-site", other, 204, 403, 403, 403, 204},
		{"cross-site", other, 204, 403, 403, 403, 204},
		{"cross-site", "", 204, 403, 403, 403, 204},
		{"cross-site", own, 204, 403, 403, 403, 204},
		{"", own, 204, 204, 200, 204, 204},
		{"", other, 204, 403, 403, 403, 204},
		{"", "http://example.com:8080", 204, 403, 403, 403, 204},
		{"", "null", 204, 403, 403, 403, 204},
	} {
		origin := func(r *http.Request) {
			for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Origin": c.origin} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
		}
		for _, try := range []struct {
			method, path, token string
			cookie              func(*http.Request)
			want                int
		}{
			{http.MethodGet, "/read", "", session("viewer"), c.read},
			{http.MethodPost, "/change", "", session("viewer"), c.change},
			{http.MethodGet, "/watch", "", session("viewer"), c.watch},
			{http.MethodPost, "/open", "", func(*http.Request) {}, c.openSession},
			{http.MethodPost, "/change", "viewer", session("viewer"), c.byHeader},
		} {
			code := ""
			if try.want == 403 {
				code = "cross_origin_request"
			}
			r := f.call(t, try.method, try.path, try.token, "", try.cookie, origin).expect(t, try.want, code)
			if t.Failed() {
				t.Fatalf("%s %s with Sec-Fetch-Site %q and Origin %q: %d", try.method, try.path, c.site, c.origin, r.status)
			}
		}
	}
	if !strings.Contains(f.log.String(), "request of another origin refused") {
		t.Error("the refusals are not in the log")
	}
}

// Nothing is asked about a session before its page is known to be ours.
func TestAForeignPageLearnsNothingAboutTheSession(t *testing.T) {
	f := sessionFrame(t)
	r := f.call(t, http.MethodPost, "/change", "", "", session("expired"),
		header("Sec-Fetch-Site", "cross-site")).expect(t, 403, "cross_origin_request")
	if set := cookiesOf(t, r); set != nil {
		t.Errorf("a foreign page ends the session: %+v", set)
	}
}

func TestForeignPagesAreCountedAsStrangers(t *testing.T) {
	f := sessionFrame(t, func(c *httpapi.Config) { c.Limits = httpapi.Limits{RequestsPerSecond: 0.001, Burst: 2} })
	f.call(t, http.MethodPost, "/change", "", "", session("viewer"), header("Sec-Fetch-Site", "same-origin")).expect(t,
		204, "")
	f.call(t, http.MethodPost, "/change", "", "", session("viewer")).expect(t, 403, "cross_origin_request")
	f.call(t, http.MethodPost, "/change", "", "", session("viewer")).expect(t, 403, "cross_origin_request")
	f.call(t, http.MethodPost, "/change", "", "", session("viewer")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodPost, "/change", "", "", session("viewer"), header("Sec-Fetch-Site", "same-origin")).expect(t,
		204, "")
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	f := streamFrame(t, func(ctx context.Context, _ *feedInput, send sender) error {
		if err := send(httpapi.Event{}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}, func(c *httpapi.Config) { c.Heartbeat = time.Millisecond })
	l := listen(t, f, "/watch", "", func(r *http.Request) { r.Header.Del("Authorization") }, session("viewer"))
	l.next() // it is open
	f.world.set(func(w *world) { w.revoked["viewer"] = true })
	for {
		message := l.next()
		if strings.Contains(message, "token_invalid") {
			return
		}
		if message == "" {
			t.Fatal("the stream ended without saying why")
		}
	}
}

func TestGuardedHandlers(t *testing.T) {
	f := newFrame(t)
	guarded := f.Guarded("lab", auth.SiteManage, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/lab/panic" {
			panic("as asked")
		}
		w.Header().Set("X-Caller", auth.From(r.Context()).Name)
		w.WriteHeader(http.StatusAccepted)
	}))
	mux := http.NewServeMux()
	mux.Handle("/lab/", guarded)
	f.handler = mux
	same := header("Sec-Fetch-Site", "same-origin")
	f.call(t, http.MethodGet, "/lab/x", "", "").expect(t, 401, "token_missing")
	f.call(t, http.MethodGet, "/lab/x", "tenant-admin", "").expect(t, 403, "insufficient_permissions")
	f.call(t, http.MethodGet, "/lab/x", "scoped", "").expect(t, 403, "insufficient_permissions")
	f.call(t, http.MethodPost, "/lab/x", "", "{}", session("admin")).expect(t, 403, "cross_origin_request")
	f.call(t, http.MethodGet, "/lab/x", "", "", session("expired")).expect(t, 401, "token_expired")
	f.call(t, http.MethodGet, "/lab/panic", "admin", "").expect(t, 500, "internal")
	if got := f.call(t, http.MethodPost, "/lab/x", "", "{}", session("admin"), same).expect(t, 202,
		""); got.header.Get("X-Caller") != "admin" ||
		got.header.Get("X-Correlation-Id") == "" || got.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%+v", got.header)
	}
	denials := f.world.recorded()
	want := httpapi.Denial{
		OperationID: "lab", Method: http.MethodGet, Path: "/lab/", Permission: auth.SiteManage,
		Reason: "insufficient permissions by user-tenant-admin",
	}
	if len(denials) != 2 || denials[0] != want {
		t.Errorf("denials are %+v", denials)
	}
}

func TestBeyondTheOperations(t *testing.T) {
	f := sessionFrame(t)
	f.call(t, http.MethodGet, "/somewhere", "", "").expect(t, 404, "not_found")
	f.Beyond("get-page", func(missing http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/nothing" {
				missing.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		})
	})
	for path, want := range map[string]int{
		"/": 202, "/somewhere": 202, "/docsy": 202, "/docs": 200, "/read": 401,
		"/nothing": 404, "/api": 404, "/api/v1/nothing": 404, "/docs/nothing": 404, "/lab": 404, "/lab/": 404,
	} {
		code := map[int]string{404: "not_found", 401: "token_missing"}[want]
		f.call(t, http.MethodGet, path, "", "", header("Accept", "text/html")).expect(t, want, code)
	}
	if !strings.Contains(f.log.String(), "get-page") {
		t.Error("the log does not name the page")
	}
}
