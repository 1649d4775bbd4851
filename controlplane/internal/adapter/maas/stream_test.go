package maas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
)

func streamed(ctx context.Context, c *maas.Client) ([]maas.Machine, error) {
	var got []maas.Machine
	err := c.EachMachine(ctx, maas.Filter{}, func(m maas.Machine) error {
		got = append(got, m)
		return nil
	})
	return got, err
}

func TestAStreamedListingIsTheSame(t *testing.T) {
	for _, key := range []string{"06/58", "06/50", "06/66"} {
		g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()[key]) })
		c := client(t, g.URL)
		whole, err := c.Machines(t.Context(), maas.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := streamed(t.Context(), c)
		if err != nil || len(got) != len(whole) || len(got) > 0 && !reflect.DeepEqual(got, whole) {
			t.Errorf("%s: got %d machines of %d, %v", key, len(got), len(whole), err)
		}
	}
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()["06/50"]) })
	filter := maas.Filter{Status: []maas.Status{maas.StatusDeployed}, Power: []maas.PowerState{maas.PowerOff}}
	if err := client(t, g.URL).EachMachine(t.Context(), filter, func(maas.Machine) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if q := g.asked()[0].Query.Encode(); q != "power_state=off&status=deployed" {
		t.Errorf("asked for %s", q)
	}
}

const (
	aMachine  = `{"system_id": "abc234", "hostname": "gpu-1", "status_name": "Ready"}`
	anotherOf = `{"system_id": "def678", "status_name": "Ready", "owner": null, "interface_set": null, "ip_addresses": null, "last_sync": null}`
)

func TestAStreamThatIsNotWhole(t *testing.T) {
	json := "application/json"
	for name, tt := range map[string]struct {
		body, media string
		status      int
		kind        fault.Kind
		code        string
	}{
		"in an element":    {"[" + aMachine + `, {"system_id": "de`, json, 200, fault.Unavailable, maas.CodeAnswerTruncated},
		"after a comma":    {"[" + aMachine + ",", json, 200, fault.Unavailable, maas.CodeAnswerTruncated},
		"before its end":   {"[" + aMachine, json, 200, fault.Unavailable, maas.CodeAnswerTruncated},
		"nothing":          {"", json, 200, fault.Unavailable, maas.CodeAnswerTruncated},
		"garbage after it": {"[" + aMachine + "] <html>", json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"two listings":     {"[" + aMachine + "][]", json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"a page":           {"<html>sign in</html>", "text/html; charset=utf-8", 200, fault.Invalid, maas.CodeNotMAAS},
		"a disguised page": {"<html>sign in</html>", json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"an object":        {aMachine, json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"null":             {"null", json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"a null machine":   {"[null]", json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"no id":            {`[{"status_name": "Ready"}]`, json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"no status": {
			`[{"system_id": "abc234", "status_name": null}]`, json, 200, fault.Invalid,
			maas.CodeAnswerInvalid,
		},
		"wrong types": {`[{"system_id": 7, "status_name": "Ready"}]`, json, 200, fault.Invalid, maas.CodeAnswerInvalid},
		"failed":      {"oops", "text/plain", 500, fault.Unavailable, maas.CodeServerError},
		"no gateway":  {"<html>bad gateway</html>", "text/html", 502, fault.Unavailable, maas.CodeUnreachable},
		"huge machine": {`[{"system_id": "abc234", "status_name": "Ready", "description": "` +
			strings.Repeat("x", 5<<20) + `"}]`, json, 200, fault.Invalid, maas.CodeAnswerTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, raw(tt.body, tt.media, tt.status))
			_, err := streamed(t.Context(), client(t, g.URL))
			checkFault(t, err, tt.kind, tt.code)
		})
	}
}

func TestAStreamThatBreaksOff(t *testing.T) {
	for name, tt := range map[string]struct {
		cut  func(w http.ResponseWriter)
		code string
	}{
		"connection": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte("[" + aMachine + ","))
		}, maas.CodeAnswerTruncated},
		"time": {nil, maas.CodeUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			hung := make(chan struct{})
			g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
				if tt.cut != nil {
					tt.cut(w)
					return
				}
				_, _ = w.Write([]byte("[" + aMachine + ","))
				_ = http.NewResponseController(w).Flush()
				<-hung
			})
			t.Cleanup(func() { close(hung) })
			c := client(t, g.URL, func(cfg *maas.Config) { cfg.ListTimeout = 200 * time.Millisecond })
			got, err := streamed(t.Context(), c)
			checkFault(t, err, fault.Unavailable, tt.code)
			if len(got) != 1 || len(g.asked()) != 1 {
				t.Errorf("%d machines were handed out in %d requests; they must not come twice", len(got), len(g.asked()))
			}
		})
	}
}

func TestAStreamIsRepeatedOnlyBeforeItsFirstMachine(t *testing.T) {
	g := serve(t, func(n int, _ request, w http.ResponseWriter) {
		if n == 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		raw("["+aMachine+","+anotherOf+"]", "application/json", 200)(n, request{}, w)
	})
	c := client(t, g.URL).View()
	got, err := streamed(t.Context(), c)
	if err != nil || len(got) != 2 || got[1].SystemID != "def678" {
		t.Fatalf("got %v %v", got, err)
	}
	if cost := c.Cost(); cost.Requests != 2 || cost.Records != 2 || cost.Waited <= 0 {
		t.Errorf("cost %+v", cost)
	}
	enough := errors.New("enough")
	if err := c.EachMachine(t.Context(), maas.Filter{}, func(maas.Machine) error { return enough }); !errors.Is(err,
		enough) {
		t.Errorf("got %v", err)
	}
	if n := len(g.asked()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestTooManyMachinesAreRefused(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
		_, _ = w.Write([]byte("[" + aMachine))
		one := []byte("," + aMachine)
		for range 300_000 {
			if _, err := w.Write(one); err != nil {
				return
			}
		}
		_, _ = w.Write([]byte("]"))
	})
	n := 0
	err := client(t, g.URL).EachMachine(t.Context(), maas.Filter{}, func(maas.Machine) error { n++; return nil })
	checkFault(t, err, fault.Invalid, maas.CodeAnswerTooLarge)
	if n != 250_000 {
		t.Errorf("%d were handed out", n)
	}
}

// A listing of a hundred thousand machines leaves no more in memory than a
// short one.
func TestAHundredThousandMachinesTakeNoMemory(t *testing.T) {
	const machines = 100_000
	filler := bytes.Repeat([]byte(`{"id": 1, "name": "eth0", "links": []}, `), 10)
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
		_, _ = w.Write([]byte("["))
		for n := range machines {
			if n > 0 {
				_, _ = w.Write([]byte(","))
			}
			_, _ = fmt.Fprintf(w, `{"system_id": "m%05d", "status_name": "Ready", "numanode_set": [`, n)
			_, _ = w.Write(filler)
			_, _ = w.Write([]byte("0]}"))
		}
		_, _ = w.Write([]byte("]"))
	})
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as in the product, whatever the suite runs with
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before, peak, n := stats.HeapAlloc, uint64(0), 0
	err := client(t, g.URL).EachMachine(t.Context(), maas.Filter{}, func(m maas.Machine) error {
		if n++; n%5000 == 0 {
			runtime.ReadMemStats(&stats)
			peak = max(peak, stats.HeapAlloc)
		}
		return nil
	})
	if err != nil || n != machines {
		t.Fatalf("%d machines, %v", n, err)
	}
	if grown := int64(peak) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB at most", grown>>20)
	}
}

func TestAViewCountsForItself(t *testing.T) {
	g := serve(t, func(n int, r request, w http.ResponseWriter) {
		switch {
		case n == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Path == "/machines/":
			raw("["+aMachine+","+anotherOf+"]", "application/json", 200)(n, r, w)
		default:
			raw(aMachine, "application/json", 200)(n, r, w)
		}
	})
	whole := client(t, g.URL)
	one, other := whole.View(), whole.View()
	if _, err := one.Machine(t.Context(), "abc234"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Machines(t.Context(), maas.Filter{IDs: []string{"abc234", "def678"}}); err != nil {
		t.Fatal(err)
	}
	if c := one.Cost(); c.Requests != 2 || c.Records != 1 {
		t.Errorf("one: %+v", c)
	}
	if c := other.Cost(); c.Requests != 1 || c.Records != 2 {
		t.Errorf("other: %+v", c)
	}
	if c := whole.Cost(); c != (maas.Cost{}) {
		t.Errorf("the client itself counts: %+v", c)
	}
}

// Answers show the clock of a region that is hours behind, and it runs on.
func TestTheClockOfTheRegion(t *testing.T) {
	clock := &stoppedClock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
		w.Header().Set("Date", clock.at.Add(-5*time.Hour).Format(http.TimeFormat))
		put(w, recorded()["06/14"])
	})
	c := client(t, g.URL, func(cfg *maas.Config) { cfg.Clock = clock })
	if got := c.Now(); !got.Equal(clock.at) {
		t.Errorf("before the first answer: %s", got)
	}
	view := c.View()
	if err := read(t.Context(), view); err != nil {
		t.Fatal(err)
	}
	clock.at = clock.at.Add(90 * time.Second)
	want := clock.at.Add(-5 * time.Hour)
	if got := c.Now(); !got.Equal(want) {
		t.Errorf("it is %s there, not %s", want, got)
	}
	if got := view.Now(); !got.Equal(want) {
		t.Errorf("seen through a view: %s", got)
	}
}

type stoppedClock struct{ at time.Time }

func (c *stoppedClock) Now() time.Time                       { return c.at }
func (c *stoppedClock) After(time.Duration) <-chan time.Time { return time.After(0) }

func TestOnlyMAASSaysThatAMachineIsAbsent(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(n int, r request, w http.ResponseWriter)
		absent bool
	}{
		"its words": {raw("No Machine matches the given query.", "text/plain", 404), true},
		"its mark": {func(n int, r request, w http.ResponseWriter) {
			w.Header().Set("X-MAAS-API-Hash", "36763f")
			raw("Not Found", "text/plain", 404)(n, r, w)
		}, true},
		"a proxy":             {raw("404 page not found", "text/plain", 404), false},
		"a page":              {raw("<html>no machine matches the given query.</html>", "text/html", 404), false},
		"no such call":        {raw("Unknown API endpoint: /MAAS/api/2.0/machines/x/.", "text/plain", 404), false},
		"gone":                {raw("gone", "text/plain", 410), false},
		"nothing of the sort": {raw(aMachine, "application/json", 200), false},
	} {
		g := serve(t, tt.answer)
		_, err := client(t, g.URL).Machine(t.Context(), "abc234")
		if got := maas.SaysAbsent(err); got != tt.absent {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}
