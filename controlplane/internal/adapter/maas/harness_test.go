package maas_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

const (
	apiBase = "/MAAS/api/2.0"
	secret  = "canarysecretcanarysecretcanary01"
	key     = "consumerconsumer01:tokentokentoken001:" + secret
)

// exchange is one recorded request and the answer of a real region to it.
type exchange struct {
	Key         string            `json:"key"`
	Label       string            `json:"label"`
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        json.RawMessage   `json:"body"`
}

func (e exchange) body() string {
	var text string
	if !strings.HasPrefix(e.ContentType, "application/json") && json.Unmarshal(e.Body, &text) == nil {
		return text
	}
	return string(e.Body)
}

var recorded = sync.OnceValue(func() map[string]exchange {
	file, err := os.Open("testdata/exchanges.jsonl")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	out := map[string]exchange{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			panic(err)
		}
		out[e.Key] = e
	}
	return out
})

// request is what the client sent.
type request struct {
	Method string
	Path   string
	Query  url.Values
	Form   url.Values
	Auth   string
}

func (r request) op() string { return r.Query.Get("op") }

// region answers in the order of its script and records what it was asked.
type region struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

func (g *region) asked() []request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]request(nil), g.requests...)
}

// serve starts a region whose n-th request is handled by answer(n, …).
func serve(t testing.TB, answer func(n int, r request, w http.ResponseWriter)) *region {
	t.Helper()
	g := &region{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Errorf("parse form: %v", err)
		}
		got := request{
			Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, apiBase), Query: r.URL.Query(), Form: r.PostForm,
			Auth: r.Header.Get("Authorization"),
		}
		g.mu.Lock()
		g.requests = append(g.requests, got)
		n := len(g.requests) - 1
		g.mu.Unlock()
		answer(n, got, w)
	}))
	t.Cleanup(g.Close)
	return g
}

// replay starts a region that expects exactly the recorded requests.
func replay(t testing.TB, keys ...string) (*region, *maas.Client) {
	t.Helper()
	g := serve(t, func(n int, r request, w http.ResponseWriter) {
		if n >= len(keys) {
			t.Errorf("request %d %s %s is one too many", n, r.Method, r.Path)
			return
		}
		e, ok := recorded()[keys[n]]
		if !ok {
			t.Errorf("no exchange %s", keys[n])
			return
		}
		want, err := url.Parse(e.Path)
		if err != nil {
			t.Error(err)
		}
		if r.Method != e.Method || r.Path != want.Path ||
			!maps.EqualFunc(r.Query, want.Query(), func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("request %d is %s %s %v, recorded was %s %s", n, r.Method, r.Path, r.Query, e.Method, e.Path)
		}
		put(w, e)
	})
	t.Cleanup(func() {
		if n := len(g.asked()); n != len(keys) && !t.Failed() {
			t.Errorf("%d requests, expected %d", n, len(keys))
		}
	})
	return g, client(t, g.URL)
}

func put(w http.ResponseWriter, e exchange) {
	for name, value := range e.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", e.ContentType)
	w.WriteHeader(e.Status)
	_, _ = w.Write([]byte(e.body()))
}

// anyPort lets the regions of tests be here.
func anyPort(netip.AddrPort) bool { return true }

func client(t testing.TB, url string, options ...func(*maas.Config)) *maas.Client {
	t.Helper()
	cfg := maas.Config{URL: url, Token: redact.New(key), RetryWait: time.Millisecond, Loopback: anyPort}
	for _, option := range options {
		option(&cfg)
	}
	c, err := maas.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// checkFault compares kind and code, and that the fault is fit to be shown.
func checkFault(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		t.Fatalf("got %s %s, want %s %s: %v", fault.KindOf(err), fault.CodeOf(err), kind, code, err)
	}
	f, _ := fault.As(err)
	if f.Message == "" || (f.Remedy == "" && f.Fields == nil) {
		t.Errorf("fault without message or remedy: %#v", f)
	}
	checkShown(t, err.Error())
	checkShown(t, f.Message)
	if d, ok := maas.DetailOf(err); ok && len(d.Snippet) > 300 {
		t.Errorf("snippet of %d bytes", len(d.Snippet))
	}
}

var control = regexp.MustCompile(`[\x00-\x1f\x7f]`)

func checkShown(t testing.TB, text string) {
	t.Helper()
	for _, part := range strings.Split(key, ":") {
		if strings.Contains(text, part) {
			t.Errorf("a part of the API key is shown: %q", text)
		}
	}
	if control.MatchString(text) {
		t.Errorf("control characters in %q", text)
	}
}
