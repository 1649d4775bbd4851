package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas/fault"
	"gpuaas/testkit"
)

// TestSiteThatMAASCannotBeReadFor takes the ways away in which MAAS can be read,
// one after the other: nothing is derived from what was not answered, and
// everything goes on when it answers again.
func TestSiteThatMAASCannotBeReadFor(t *testing.T) {
	t.Parallel()
	l := openAgentsLab(t, lab.Options{}, 3)
	record := l.Record()
	front := openGate(t, l.URL)
	w := watch(t, record, t.TempDir(), false, onLoopback(t, record.URL, front.url))
	w.onboardAll(t, record.Machines)
	record.URL = front.url
	w.useLab(t, record)
	released, hidden, healthy := record.Machines[0].Hostname, record.Machines[1].Hostname, record.Machines[2].Hostname
	w.happens(t, "release", released)
	found := w.awaitFinding(t, released, "acted", "released")

	html := fault.Rule{
		Fault: fault.ErrorBefore, Status: http.StatusOK, Text: "<html><body>Welcome to MAAS</body></html>",
		ContentType: "text/html",
	}
	for _, c := range []struct {
		name     string
		rules    []fault.Rule
		outcomes []string
	}{
		{
			"500",
			[]fault.Rule{{Fault: fault.ErrorBefore, Status: http.StatusInternalServerError, Text: "boom"}},
			[]string{"no_information"},
		},
		{"HTML", []fault.Rule{html}, []string{"no_information"}},
		{"answers that break off", []fault.Rule{{Fault: fault.Truncate}}, []string{"no_information"}},
		{"machines cannot be listed", []fault.Rule{{
			Fault: fault.ErrorBefore, Operation: "machines.get",
			Status: http.StatusInternalServerError, Text: "boom",
		}}, []string{"partly"}},
		{"events cannot be read", []fault.Rule{{Fault: fault.Truncate, Operation: "events.query"}}, []string{"partly"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range c.rules {
				if _, err := l.Faults.Add(r); err != nil {
					t.Fatal(err)
				}
			}
			defer l.Faults.Clear()
			run := w.awaitRun(t, time.Now(), c.outcomes...)
			if run.Error == nil || run.Error.Code == "" || run.Error.Message == "" {
				t.Errorf("nothing says what was in the way: %+v", run)
			}
			if o := w.overview(t); o.LastError == nil {
				t.Errorf("the site is %+v", o)
			}
			w.untouched(t, found.FindingId.String(), released, hidden, healthy)
		})
	}
	w.awaitRun(t, time.Now(), "informed")
	t.Run("no answer at all", func(t *testing.T) {
		w.hangs(t, front, found.FindingId.String(), released, hidden,
			healthy)
	})
	t.Run("it answers again", func(t *testing.T) {
		w.awaitRun(t, time.Now(), "informed")
		if o := w.overview(t); o.State != "ok" || o.Stale || o.LastError != nil {
			t.Errorf("the site is %+v", o)
		}
		w.happens(t, "release", hidden)
		w.awaitFinding(t, hidden, "acted", "released")
		w.awaitNode(t, hidden, "quarantined")
	})
}

// untouched looks whether what was found before still stands, and nothing else
// was found.
func (w *watched) untouched(t *testing.T, finding, released string, healthy ...string) {
	t.Helper()
	list := w.findings(t, released)
	if len(list) != 1 || list[0].FindingId.String() != finding || list[0].Status != "acted" {
		t.Errorf("about %s there is %s", released, summary(list))
	}
	for _, hostname := range healthy {
		if list := w.findings(t, hostname); len(list) != 0 {
			t.Errorf("about %s there is %s", hostname, summary(list))
		}
		if err := w.p.nodeIs(hostname, "active"); err != nil {
			t.Error(err)
		}
	}
}

// hangs lets MAAS take every question and answer none, for so long that the site
// is stale; then all questions that wait break off.
func (w *watched) hangs(t *testing.T, front *gate, finding, released string, healthy ...string) {
	t.Helper()
	asked := front.shut()
	testkit.Succeeds(t, "a question that is not answered", time.Minute, func() error {
		if asked() == 0 {
			return fmt.Errorf("nobody asks")
		}
		return nil
	})
	testkit.Succeeds(t, "the site to be stale", time.Minute, func() error {
		if o := w.overview(t); o.State != "stale" || !o.Stale || o.Remedy == nil ||
			!strings.Contains(*o.Remedy, "site doctor") {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	if n := asked(); n != 1 {
		t.Errorf("%d questions wait: runs of a site overlap", n)
	}
	under := 0
	for _, r := range w.runs(t) {
		if r.BeganAt != nil && r.EndedAt == nil {
			under++
		}
	}
	if under != 1 {
		t.Errorf("%d runs are under way", under)
	}
	w.untouched(t, finding, released, healthy...)
	front.open()
}

// gate stands before a server, and can keep questions without an answer.
type gate struct {
	url string

	mu      sync.Mutex
	waiting int
	closed  chan struct{} // nil: it is open
}

func openGate(t *testing.T, before string) *gate {
	t.Helper()
	target, err := url.Parse(before)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme,
			r.Out.URL.Host = target.Scheme, target.Host
	}}
	g := &gate{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !g.pass(r.Context()) {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		g.open()
		server.Close()
	})
	g.url = server.URL + target.Path
	return g
}

// pass says whether a question gets through; one that waits for that does not
// when it is over.
func (g *gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	closed := g.closed
	if closed == nil {
		g.mu.Unlock()
		return true
	}
	g.waiting++
	g.mu.Unlock()
	select {
	case <-closed:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
	return false
}

// shut lets nothing through from now on; how many wait can be asked.
func (g *gate) shut() (waiting func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
	return func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}
