package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

var script = strings.Repeat("console.log('hello');\n", 100)

func built() fstest.MapFS {
	return fstest.MapFS{
		".keep":                {},
		"index.html":           {Data: []byte("<!doctype html><title>gpuaas</title>" + strings.Repeat("<p></p>", 50))},
		"favicon.svg":          {Data: []byte("<svg/>")},
		"assets/app-1a2b.js":   {Data: []byte(script)},
		"assets/font-3c.woff2": {Data: bytes.Repeat([]byte{1}, 1000)},
		"assets/odd-4d.xyz":    {Data: []byte("?")},
	}
}

// elsewhere stands for the API, which says that there is nothing.
var elsewhere = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

func ask(t *testing.T, h http.Handler, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
	r.URL.Path = path // as it is: no client would send some of these
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func newTestSite(t *testing.T, files fstest.MapFS) *site {
	t.Helper()
	s, err := newSite(files, elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatStandsWhere(t *testing.T) {
	s := newTestSite(t, built())
	const page, forever, elsewhere = "no-cache", "public, max-age=31536000, immutable", ""
	for _, c := range []struct {
		method, path, accept string
		cache, kind          string
	}{
		{"GET", "/", browser, page, "text/html; charset=utf-8"},
		{"GET", "/", "*/*", page, "text/html; charset=utf-8"},
		{"HEAD", "/", browser, page, "text/html; charset=utf-8"},
		{"GET", "/index.html", "*/*", page, "text/html; charset=utf-8"},
		{"GET", "/nodes/c07u31", browser, page, "text/html; charset=utf-8"},
		{"GET", "/nodes/v1.2", "TEXT/HTML", page, "text/html; charset=utf-8"},
		{"GET", "/favicon.svg", "image/*", page, "image/svg+xml"},
		{"GET", "/assets/app-1a2b.js", "*/*", forever, "text/javascript; charset=utf-8"},
		{"HEAD", "/assets/app-1a2b.js", "*/*", forever, "text/javascript; charset=utf-8"},
		{"GET", "/assets/font-3c.woff2", "*/*", forever, "font/woff2"},
		{"GET", "/assets/odd-4d.xyz", "*/*", forever, "application/octet-stream"},
		{"GET", "/nodes/c07u31", "application/json", elsewhere, ""},
		{"GET", "/nodes/c07u31", "*/*", elsewhere, ""},
		{"GET", "/nodes/c07u31", "", elsewhere, ""},
		{"GET", "/assets/gone.js", browser, elsewhere, ""},
		{"GET", "/assets/", browser, elsewhere, ""},
		{"GET", "/.keep", "*/*", elsewhere, ""},
		{"GET", "/assets/../index.html", "*/*", elsewhere, ""},
		{"GET", "/assets/../../embed.go", browser, elsewhere, ""},
		{"GET", "/../embed.go", "*/*", elsewhere, ""},
		{"GET", "//etc/passwd", "*/*", elsewhere, ""},
		{"POST", "/", browser, elsewhere, ""},
		{"DELETE", "/assets/app-1a2b.js", browser, elsewhere, ""},
	} {
		r := ask(t, s, c.method, c.path, "Accept", c.accept)
		body := bodyOf(t, r)
		if c.cache == elsewhere {
			if r.StatusCode != http.StatusTeapot {
				t.Errorf("%s %s (%s): %d", c.method, c.path, c.accept, r.StatusCode)
			}
			continue
		}
		h := r.Header
		if r.StatusCode != http.StatusOK || h.Get("Cache-Control") != c.cache || h.Get("Content-Type") != c.kind ||
			h.Get("ETag") == "" || h.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s %s (%s): %d %v", c.method, c.path, c.accept, r.StatusCode, h)
		}
		if (body == "") != (c.method == http.MethodHead) || h.Get("Content-Length") == "0" || h.Get("Content-Length") == "" {
			t.Errorf("%s %s: %d bytes, said to be %s", c.method, c.path, len(body), h.Get("Content-Length"))
		}
		wantProtected(t, c.path, h)
	}
}

func wantProtected(t *testing.T, path string, h http.Header) {
	t.Helper()
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"base-uri 'none'", "frame-ancestors 'none'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: the policy lacks %s: %s", path, want, policy)
		}
	}
	for _, bad := range []string{"unsafe", "http", "*"} {
		if strings.Contains(policy, bad) {
			t.Errorf("%s: the policy allows %s: %s", path, bad, policy)
		}
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %s is %q", path, name, h.Get(name))
		}
	}
	if !strings.Contains(h.Get("Permissions-Policy"), "camera=()") {
		t.Errorf("%s: Permissions-Policy is %q", path, h.Get("Permissions-Policy"))
	}
}

func TestFilesAreSentCompressedToThoseWhoTakeIt(t *testing.T) {
	s := newTestSite(t, built())
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "deflate, GZIP;q=0.5, br": true, "gzip;q=0": false, "gzip; q=0.0": false, "br": false,
		"gzip;q=x": false, "xgzip": false,
	} {
		r := ask(t, s, http.MethodGet, "/assets/app-1a2b.js", "Accept-Encoding", accept)
		body := bodyOf(t, r)
		if (r.Header.Get("Content-Encoding") == "gzip") != want {
			t.Errorf("%q: sent as %q", accept, r.Header.Get("Content-Encoding"))
			continue
		}
		if want {
			if len(body) >= len(script) {
				t.Errorf("%q: %d bytes for %d", accept, len(body), len(script))
			}
			body = inflated(t, body)
		}
		if body != script {
			t.Errorf("%q: %d bytes arrive", accept, len(body))
		}
	}
	for path, why := range map[string]string{
		"/assets/font-3c.woff2": "it is compressed already",
		"/favicon.svg":          "it would grow",
	} {
		if r := ask(t, s, http.MethodGet, path, "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed although %s", path, why)
		}
	}
}

func inflated(t *testing.T, s string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWhatACallerHasIsNotSentAgain(t *testing.T) {
	s := newTestSite(t, built())
	plain := ask(t, s, http.MethodGet, "/nodes", "Accept", browser).Header.Get("ETag")
	shrunk := ask(t, s, http.MethodGet, "/nodes", "Accept", browser, "Accept-Encoding", "gzip").Header.Get("ETag")
	if plain == shrunk {
		t.Errorf("two contents share the tag %s", plain)
	}
	for _, c := range []struct {
		tags string
		want int
	}{
		{plain, 304}, {shrunk, 304}, {"W/" + plain, 304}, {`"other", ` + plain, 304}, {"*", 304}, {`"other"`, 200}, {"", 200},
	} {
		r := ask(t, s, http.MethodGet, "/", "Accept-Encoding", "gzip", "If-None-Match", c.tags)
		if body := bodyOf(t, r); r.StatusCode != c.want || (body == "") != (c.want == 304) || r.Header.Get("ETag") != shrunk {
			t.Errorf("%s: %d with %d bytes and %s", c.tags, r.StatusCode, len(body), r.Header.Get("ETag"))
		}
		wantProtected(t, "/", r.Header)
	}
	changed := built()
	changed["index.html"].Data = []byte("another")
	if tag := ask(t, newTestSite(t, changed), http.MethodGet, "/").Header.Get("ETag"); tag == plain {
		t.Error("another content has the same tag")
	}
}

func TestAProgramWithoutTheConsoleSaysHowToBuildIt(t *testing.T) {
	s := newTestSite(t, fstest.MapFS{".keep": {}})
	for _, path := range []string{"/", "/nodes"} {
		r := ask(t, s, http.MethodGet, path, "Accept", browser)
		if body := bodyOf(t, r); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "make console") ||
			r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
		wantProtected(t, path, r.Header)
		if r := ask(t, s, http.MethodGet, path, "Accept", "application/json"); r.StatusCode != http.StatusTeapot {
			t.Errorf("%s for a program: %d", path, r.StatusCode)
		}
	}
	if body := bodyOf(t, ask(t, s, http.MethodHead, "/", "Accept", browser)); body != "" {
		t.Errorf("HEAD has a body: %s", body)
	}
}

// Whether the console was built or not, the program answers at its root.
func TestWhatIsEmbedded(t *testing.T) {
	var log bytes.Buffer
	h := Handler(slog.New(slog.NewTextHandler(&log, nil)), elsewhere)
	r := ask(t, h, http.MethodGet, "/", "Accept", browser)
	unbuilt := strings.Contains(log.String(), "make console")
	if body := bodyOf(t, r); (r.StatusCode == http.StatusOK) == unbuilt || body == "" {
		t.Errorf("%d %s\n%s", r.StatusCode, body, log.String())
	}
	wantProtected(t, "/", r.Header)
}

func BenchmarkServe(b *testing.B) {
	s, err := newSite(built(), elsewhere)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/assets/app-1a2b.js", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	for b.Loop() {
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}
