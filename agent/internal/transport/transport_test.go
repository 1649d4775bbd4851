package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// serve starts a server and gives a client of it.
func serve(t *testing.T, h http.Handler, change func(*transport.Options)) *transport.Client {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return clientOf(t, s, change)
}

func clientOf(t *testing.T, s *httptest.Server, change func(*transport.Options)) *transport.Client {
	t.Helper()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	o := transport.Options{
		Base: base, Roots: roots, Node: "n", Version: "1", Instance: "i", Session: "s", Now: time.Now,
		Certificate: func() *tls.Certificate { return nil },
		Trust:       func(h http.Header) { h.Set(agentwire.HeaderVerifierVersion, "7") },
	}
	if change != nil {
		change(&o)
	}
	return transport.New(o)
}

func TestAnswersBecomeErrors(t *testing.T) {
	problem := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"status":400,"code":"`+code+`","title":"T","detail":"D","correlation_id":"c"}`)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		kind    transport.Kind
		code    string
		remedy  string
	}{
		"a refusal": {
			problem(401, agentwire.CodeCertificateExpired), transport.Refused,
			agentwire.CodeCertificateExpired, "recovery token",
		},
		"an outage":      {problem(503, "postgres_unavailable"), transport.Unavailable, "postgres_unavailable", ""},
		"too many calls": {problem(429, "rate_limit_exceeded"), transport.Unavailable, "rate_limit_exceeded", ""},
		"a proxy's error": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
			transport.Unavailable, transport.CodeNotControlPlane, "GPUAAS_API_URL",
		},
		"a stranger": {
			func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }, transport.Refused,
			transport.CodeNotControlPlane, "GPUAAS_API_URL",
		},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com", http.StatusFound)
		}, transport.Refused, transport.CodeNotControlPlane, "GPUAAS_API_URL"},
		"nonsense": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
			transport.Malformed, transport.CodeMalformed, "",
		},
		"an endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(w, strings.Repeat(" ", 3<<20))
		}, transport.Malformed, transport.CodeMalformed, ""},
		"a connection that ends": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			transport.Unreachable, transport.CodeUnreachable, "the agent keeps trying",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, c.handler, nil)
			_, err := client.Wait(t.Context(), time.Second)
			var e *transport.Error
			if !errors.As(err, &e) || e.Kind != c.kind || e.Code != c.code || !strings.Contains(e.Remedy, c.remedy) {
				t.Fatalf("got %#v", err)
			}
			if e.Kind == transport.Unavailable && e.Code != transport.CodeNotControlPlane && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

func TestWhomNotToTrust(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for code, change := range map[string]func(*transport.Options){
		transport.CodeServerUnknownIssuer: func(o *transport.Options) { o.Roots = x509.NewCertPool() },
		transport.CodeServerName:          func(o *transport.Options) { o.Base.Host = "localhost:" + o.Base.Port() },
		transport.CodeServerCertificateDate: func(
			o *transport.Options,
		) {
			o.Now = func() time.Time { return time.Now().AddDate(100, 0, 0) }
		},
		transport.CodeUnreachable: func(o *transport.Options) { o.Base.Host = "127.0.0.1:1" },
	} {
		client := serve(t, ok, change)
		if _, err := client.Wait(t.Context(), time.Second); transport.CodeOf(err) != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
}

func TestConnectionsAreKeptUntilTheCertificateChanges(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(agentwire.HeaderAgentSession) != "s" || r.Header.Get(agentwire.HeaderVerifierVersion) != "7" {
			t.Errorf("headers %v", r.Header)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	client := clientOf(t, s, nil)
	for round := range int32(3) {
		for range 10 {
			if _, err := client.Wait(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if n := connections.Load(); n != round+1 {
			t.Errorf("%d connections in round %d", n, round)
		}
		client.Reload(nil)
	}
}

func TestACallThatIsGivenUpIsNotAnOutage(t *testing.T) {
	client := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := client.Wait(ctx, time.Minute); !errors.Is(err, context.Canceled) || transport.KindOf(err) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestSkewIsMeasured(t *testing.T) {
	client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusNoContent)
	}), nil)
	if _, known := client.Skew(); known {
		t.Error("known before the first answer")
	}
	if _, err := client.Wait(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if skew, known := client.Skew(); !known || skew > -9*time.Minute || skew < -11*time.Minute {
		t.Errorf("skew %s, %v", skew, known)
	}
}

func TestBackoff(t *testing.T) {
	b := transport.Backoff{First: time.Second, Most: time.Minute}
	var longest time.Duration
	for n := range 10000 {
		got := b.Next(0)
		if bound := min(time.Second<<min(n, 16), time.Minute); got < 0 || got >= bound {
			t.Fatalf("after %d failures: %s", n, got)
		}
		longest = max(longest, got)
	}
	if longest < 50*time.Second {
		t.Errorf("never longer than %s", longest)
	}
	b.Reset()
	if got := b.Next(5 * time.Second); got < 5*time.Second || got >= 6*time.Second {
		t.Errorf("after a success, with a wish: %s", got)
	}
}
