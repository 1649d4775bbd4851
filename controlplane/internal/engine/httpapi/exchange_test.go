package httpapi_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/telemetry"
)

func TestCorrelation(t *testing.T) {
	f := newFrame(t)
	var seen string
	httpapi.Register(f.API, get("see", "/see", httpapi.Public()),
		func(ctx context.Context, _ *noInput) (*struct{}, error) {
			seen = telemetry.Correlation(ctx)
			return nil, nil
		})
	for _, c := range []struct {
		header, value string
		kept          bool
	}{
		{"X-Correlation-Id", "abc-1.2:3_", true},
		{"X-Request-Id", "req-1", true},
		{"X-Correlation-Id", strings.Repeat("x", 128), true},
		{"X-Correlation-Id", strings.Repeat("x", 129), false},
		{"X-Correlation-Id", "two words", false},
		{"X-Correlation-Id", "line\nbreak", false},
		{"X-Correlation-Id", "", false},
	} {
		r := f.call(t, http.MethodGet, "/see", "", "", header(c.header, c.value))
		answered := r.header.Get("X-Correlation-Id")
		if answered == "" || answered != seen || (answered == c.value) != c.kept {
			t.Errorf("%s %q: answered %q, handler saw %q", c.header, c.value, answered, seen)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	f := accessFrame(t)
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff",
		"X-Frame-Options":         "DENY",
		"Referrer-Policy":         "no-referrer",
		"Cache-Control":           "no-store",
	}
	for _, path := range []string{"/public", "/known", "/nowhere"} {
		r := f.call(t, http.MethodGet, path, "", "")
		for name, value := range want {
			if got := r.header.Get(name); got != value {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
		if r.header.Get("Strict-Transport-Security") != "" {
			t.Error("HSTS without TLS")
		}
	}
	r := f.call(t, http.MethodGet, "/public", "", "", func(r *http.Request) { r.TLS = &tls.ConnectionState{} })
	if r.header.Get("Strict-Transport-Security") == "" {
		t.Error("no HSTS with TLS")
	}
}

func TestAccessLogHasNoSecrets(t *testing.T) {
	f := inputFrame(t)
	f.call(t, http.MethodGet, "/things?cursor=c4nary", "nobody-c4nary", "", header("Cookie", "c4nary=c4nary"))
	log := f.log.String()
	for _, want := range []string{
		`"operation":"list-things"`, `"status":422`, `"method":"GET"`, `"correlation_id":`,
		`"duration":`, `"client":"192.0.2.1"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("log lacks %s: %s", want, log)
		}
	}
	// The principal is named after the token by the test's own authenticator.
	if strings.Contains(strings.ReplaceAll(log, "user-nobody-c4nary", ""), "c4nary") {
		t.Errorf("log holds a header or a query value: %s", log)
	}
}

func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		peer, forwarded, want string
	}{
		"direct":              {"203.0.113.9:1", "", "203.0.113.9"},
		"liar":                {"203.0.113.9:1", "198.51.100.1", "203.0.113.9"},
		"through a proxy":     {"10.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		"through two":         {"10.0.0.1:1", "198.51.100.1, 10.0.0.2", "198.51.100.1"},
		"liar behind a proxy": {"10.0.0.1:1", "192.0.2.5, 198.51.100.1", "198.51.100.1"},
		"rubbish":             {"10.0.0.1:1", "rubbish", "10.0.0.1"},
		"mapped":              {"[::ffff:203.0.113.9]:1", "", "203.0.113.9"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, func(c *httpapi.Config) { c.TrustedProxies = proxies })
			var got string
			httpapi.Register(f.API, get("see", "/see", httpapi.Public()),
				func(ctx context.Context, _ *noInput) (*struct{}, error) {
					got = httpapi.ClientAddr(ctx)
					return nil, nil
				})
			f.call(t, http.MethodGet, "/see", "", "", func(r *http.Request) {
				r.RemoteAddr = c.peer
				r.Header.Set("X-Forwarded-For", c.forwarded)
			})
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Not parallel with others: the meter and tracer are process-wide.
func TestMetricsAndSpans(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	spans := tracetest.NewSpanRecorder()
	meters, traces := otel.GetMeterProvider(), otel.GetTracerProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetMeterProvider(meters); otel.SetTracerProvider(traces) })

	f := newFrame(t)
	var inside trace.SpanContext
	httpapi.Register(f.API, get("see", "/see/{id}", httpapi.Public()), func(ctx context.Context, _ *struct {
		ID string `path:"id"`
	},
	) (*struct{}, error) {
		inside = trace.SpanContextFromContext(ctx)
		return nil, nil
	})
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736"
	f.call(t, http.MethodGet, "/see/1", "", "", header("Traceparent", "00-"+parent+"-00f067aa0ba902b7-01"))
	f.call(t, http.MethodGet, "/see/2", "", "")
	f.call(t, http.MethodGet, "/invented/1", "", "")
	f.call(t, "BREW", "/invented/2", "", "")

	if inside.TraceID().String() == parent {
		t.Error("the second request continued the trace of the first")
	}
	ended := spans.Ended()
	if ended[0].Name() != "see" || ended[0].SpanContext().TraceID().String() != parent ||
		ended[0].SpanKind() != trace.SpanKindServer {
		t.Errorf("first span %v", ended[0])
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		h, isHistogram := m.Data.(metricdata.Histogram[float64])
		if m.Name != "http.server.request.duration" || !isHistogram {
			t.Fatalf("metric %s %T", m.Name, m.Data)
		}
		for _, p := range h.DataPoints {
			got[label(p.Attributes, "operation")+" "+label(p.Attributes, "method")+" "+label(p.Attributes, "status")] += p.Count
		}
	}
	for key, n := range map[string]uint64{"see GET 204": 2, "unmatched GET 404": 1, "unmatched other 405": 1} {
		if got[key] != n {
			t.Errorf("%s: %d, want %d (all: %v)", key, got[key], n, got)
		}
	}
}

func label(set attribute.Set, key attribute.Key) string {
	v, _ := set.Value(key)
	return v.String()
}

func TestServerIsGuarded(t *testing.T) {
	s := httpapi.Server(http.NotFoundHandler(), "127.0.0.1:0")
	if s.ReadHeaderTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 || s.Addr == "" || s.Handler == nil {
		t.Errorf("%+v", s)
	}
}
