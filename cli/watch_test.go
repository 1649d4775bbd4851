package cli

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/output"
)

// rounds makes a watch end, as if by Ctrl-C, after it has waited n times.
func (b *bench) rounds(n int) context.Context {
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	b.around.Wait = func(ctx context.Context, _ time.Duration) error {
		if n--; n <= 0 {
			cancel()
		}
		return ctx.Err()
	}
	return ctx
}

func TestWatchList(t *testing.T) {
	other := strings.ReplaceAll(tenantJSON, "acme", "other")
	for name, format := range map[string]string{
		"watch-list": output.Table, "watch-list-json": output.JSON,
		"watch-list-yaml": output.YAML,
	} {
		f := newFakeAPI(t)
		f.on("list-tenants", pageOf(tenantJSON), pageOf(tenantJSON), pageOf(tenantJSON, other))
		b := signedIn(t, f)
		got := b.runContext(b.rounds(3), "tenant", "list", "--watch", "-o", format)
		if got.exit != failure.OK {
			t.Errorf("%+v", got)
		}
		golden(t, "output/"+name+".golden", got.stdout)
	}
}

var redrawn = regexp.MustCompile(`(\x1b\[\d+A)?\r\x1b\[J`)

// screens are the pictures that were drawn in place.
func screens(stdout string) []string { return redrawn.Split(stdout, -1)[1:] }

func TestWatchListOnTerminal(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	b.around.Terminal = func(io.Writer) bool { return true }
	got := b.runContext(b.rounds(2), "tenant", "list", "-w")
	if got.exit != failure.OK || len(screens(got.stdout)) != 2 ||
		strings.Count(got.stdout, "acme") != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWatchSystem(t *testing.T) {
	well := strings.ReplaceAll(strings.ReplaceAll(statusJSON, `"ready":false`, `"ready":true`), `"up":false`, `"up":true`)
	f := newFakeAPI(t)
	f.on("get-system-status", answer(200, statusJSON), answer(200, strings.ReplaceAll(statusJSON, "05:09:00", "05:09:02")),
		answer(200, well))
	b := signedIn(t, f)
	got := b.runContext(b.rounds(3), "system", "status", "--watch")
	golden(t, "output/watch-system.golden", got.stdout)
	b.around.Terminal = func(io.Writer) bool { return true }
	got = b.runContext(b.rounds(2), "system", "status", "--watch")
	if len(screens(got.stdout)) != 2 || got.exit != failure.OK {
		t.Errorf("%+v", got)
	}
}

// A control plane that goes away and comes back does not end a watch; a refusal does.
func TestWatchSurvivesOutage(t *testing.T) {
	f := newFakeAPI(t)
	away := refuse(504, "request_timed_out", "not in time", "")
	f.on("list-tenants", pageOf(), away, away, pageOf(tenantJSON))
	b := signedIn(t, f)
	got := b.runContext(b.rounds(4), "tenant", "list", "--watch")
	if got.exit != failure.OK || !strings.Contains(got.stdout, "acme") || strings.Count(got.err, "trying again") != 1 {
		t.Errorf("%+v", got)
	}
	f.on("list-tenants", pageOf(tenantJSON), refuse(401, "token_revoked", "revoked", ""))
	if got := b.runContext(b.rounds(9), "tenant", "list", "--watch"); got.exit != failure.Unauthenticated {
		t.Errorf("%+v", got)
	}
}

func TestWatchAudit(t *testing.T) {
	entry := func(id, at string) string {
		return strings.NewReplacer(eventID, "0190b2f4-7c1e-7d3a-8f5b-0000000000"+id, "05:06:07", at).Replace(auditJSON)
	}
	f := newFakeAPI(t)
	f.on("list-audit-logs",
		pageOf(entry("12", "05:06:08"), entry("11", "05:06:07")),
		pageOf(entry("13", "05:06:09"), entry("12", "05:06:08"), entry("11", "05:06:07")),
		// This one took long to commit: it bears an earlier time than one that was shown.
		pageOf(entry("13", "05:06:09"), entry("14", "05:06:08"), entry("12", "05:06:08"), entry("11", "05:06:07")))
	b := signedIn(t, f)
	got := b.runContext(b.rounds(3), "audit", "list", "--watch", "-o", "json", "--limit", "2")
	var order []string
	for line := range strings.Lines(got.stdout) {
		_, rest, _ := strings.Cut(line, `"id":"0190b2f4-7c1e-7d3a-8f5b-0000000000`)
		order = append(order, rest[:2])
	}
	if strings.Join(order, " ") != "11 12 13 14" || got.exit != failure.OK {
		t.Errorf("%v, %+v", order, got)
	}
	calls := f.received()
	if !strings.Contains(calls[0].query, "page_size=2") ||
		!strings.Contains(calls[2].query, "since=2026-03-04T05%3A05%3A09Z") {
		t.Error(calls[0].query, calls[2].query)
	}
}

func TestSelfCheckIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		ends  string
		exit  int
		lines int
	}{
		"passed":  {"--wait -o json", passed, failure.OK, 25},
		"failed":  {"--watch", failed, failure.Unsuccessful, 3},
		"watched": {"--watch -o json", passed, failure.OK, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.on("get-self-check", answer(200, pending), answer(200, running), answer(200, running), answer(200, c.ends))
			got := signedIn(t, f).run(append([]string{"self-check", "run"}, strings.Fields(c.args)...)...)
			if got.exit != c.exit || strings.Count(got.stdout, "\n") < 3 || c.lines == 3 &&
				strings.Count(got.stdout, "\n") != 3 {
				t.Errorf("%+v", got)
			}
			if c.exit == failure.Unsuccessful && !strings.Contains(got.stdout,
				"failed; database: ok after 3ms; events: NATS does not answer") {
				t.Error(got.stdout)
			}
		})
	}
}

func TestSelfCheckTakesTooLong(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-self-check", answer(200, running))
	b := signedIn(t, f)
	clock := now()
	b.around.Now = func() time.Time { return clock }
	b.around.Wait = func(context.Context, time.Duration) error {
		clock = clock.Add(time.Minute)
		return nil
	}
	if got := b.run("self-check", "run", "--wait", "--timeout", "3m"); got.exit != failure.Unavailable ||
		!strings.Contains(got.err, "gpuaas self-check get "+checkID) {
		t.Errorf("%+v", got)
	}
}

func TestSelfCheckWaitInterrupted(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-self-check", answer(200, running))
	b := signedIn(t, f)
	if got := b.runContext(b.rounds(2), "self-check", "run", "--wait"); got.exit != failure.Interrupted ||
		!strings.Contains(got.err, "it goes on") {
		t.Errorf("%+v", got)
	}
}

func TestEventsEndWithCtrlC(t *testing.T) {
	f := newFakeAPI(t)
	quiet, _, _ := strings.Cut(eventsText, "event: problem")
	gap := "id: 50\nevent: gap\ndata: {\"requested_after\":42,\"continues_from\":51}\n\n"
	stream := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
		}
	}
	f.on("stream-events", stream(quiet), stream(gap))
	b := signedIn(t, f)
	got := b.runContext(b.rounds(2), "events")
	if got.exit != failure.OK || !strings.Contains(got.err, "continue with: gpuaas events --from 50") ||
		!strings.Contains(got.err, "were missed") {
		t.Errorf("%+v", got)
	}
	if calls := f.received(); len(calls) != 2 || calls[1].header.Get("Last-Event-ID") != "42" {
		t.Error(calls)
	}
}

// A wait is seen: on a terminal in a line that makes room for the result, and elsewhere in a line
// now and then.
func TestWaitsAreNotSilent(t *testing.T) {
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[Jwaiting for the self-check, 0s so far\r\x1b[Jwaiting for the self-check, 20s so far\r\x1b[J",
		false: "waiting for the self-check, 40s so far\n",
	} {
		f := newFakeAPI(t)
		answers := []http.HandlerFunc{answer(200, running), answer(200, running), answer(200, passed)}
		if !terminal {
			answers = slices.Insert(answers, 0, answer(200, running))
		}
		f.on("get-self-check", answers...)
		b := signedIn(t, f)
		clock := now()
		b.around.Now = func() time.Time { return clock }
		b.around.Terminal = func(io.Writer) bool { return terminal }
		b.around.Wait = func(context.Context, time.Duration) error {
			clock = clock.Add(20 * time.Second)
			return nil
		}
		got := b.run("self-check", "run", "--wait")
		if got.exit != failure.OK || !strings.Contains(got.err, want) ||
			strings.Count(got.err, "so far") != strings.Count(want, "so far") {
			t.Errorf("on a terminal %v: %+v", terminal, got)
		}
	}
}
