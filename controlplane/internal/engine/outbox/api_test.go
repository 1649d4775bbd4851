package outbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
)

var orgA, orgB = id.New[id.Org](), id.New[id.Org]()

// people are known by tokens that are their names.
var people = map[string]*auth.Principal{
	"admin":    {Kind: auth.KindUser, ID: "admin", Name: "admin", Platform: auth.PlatformAdmin},
	"operator": {Kind: auth.KindUser, ID: "operator", Name: "operator", Platform: auth.Operator},
	"auditor":  {Kind: auth.KindUser, ID: "auditor", Name: "auditor", Platform: auth.Auditor},
	"tenant":   {Kind: auth.KindUser, ID: "tenant", Name: "tenant", Tenants: map[id.Org]auth.Role{orgA: auth.TenantAdmin}},
	"nobody":   {Kind: auth.KindUser, ID: "nobody", Name: "nobody"},
	"member":   member(),
}

type doorman struct{}

func (doorman) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	if p, ok := people[token.Reveal()]; ok {
		return p, nil
	}
	return nil, fault.New(fault.Unauthenticated, "token_invalid", "unknown token")
}

type noDenials struct{}

func (noDenials) RecordDenial(context.Context, httpapi.Denial) error { return nil }

func serve(tb testing.TB, db *postgres.DB, n *outbox.NATS) *httptest.Server {
	tb.Helper()
	api := httpapi.New(httpapi.Config{
		Title: "t", Version: "1", Logger: slog.New(slog.DiscardHandler), DB: db,
		Auth: doorman{}, Denials: noDenials{},
	})
	outbox.Register(api, outbox.NewDeadLetters(db), outbox.NewFeed(n))
	server := httptest.NewServer(api.Handler())
	tb.Cleanup(server.Close)
	return server
}

type answer struct {
	status int
	Code   string       `json:"code"`
	Items  []letterItem `json:"items"`
	Next   string       `json:"next_cursor"`
}

type letterItem struct {
	EventID     id.Event `json:"event_id"`
	AggregateID string   `json:"aggregate_id"`
	LastError   string   `json:"last_error"`
	Attempts    int      `json:"attempts"`
	Status      string   `json:"status"`
}

func call(tb testing.TB, server *httptest.Server, who, method, path, body string) answer {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+who)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := server.Client().Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	a := answer{status: response.StatusCode}
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		tb.Fatal(err)
	}
	return a
}

func TestDeadLetterOperations(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	server := serve(t, db, connectNATS(t, access))
	healed := false
	to := newScript(func(outbox.Message) error {
		if healed {
			return nil
		}
		return errRefused
	})
	appendEvents(t, db, tenantEvent("a", 1), tenantEvent("b", 1), tenantEvent("c", 1))
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), MaxAttempts: 1})
	awaitRows(t, db, 3, "status = 'failed'")
	to.mu.Lock()
	healed = true
	to.mu.Unlock()

	first := call(t, server, "auditor", "GET", "/api/v1/admin/outbox/failed?page_size=2", "")
	second := call(t, server, "auditor", "GET", "/api/v1/admin/outbox/failed?page_size=2&cursor="+first.Next, "")
	failed := slices.Concat(first.Items, second.Items)
	if first.status != http.StatusOK || len(first.Items) != 2 || len(second.Items) != 1 || second.Next != "" {
		t.Fatalf("pages are %+v and %+v", first, second)
	}
	if e := failed[0]; e.AggregateID != "c" || e.LastError != "refused" || e.Attempts != 1 || e.Status != "failed" {
		t.Errorf("newest failed event is %+v", e)
	}
	requeue, discard := "/api/v1/admin/outbox/"+failed[0].EventID.String()+"/requeue", "/api/v1/admin/outbox/"+
		failed[1].EventID.String()+"/discard"
	unknown := "/api/v1/admin/outbox/" + id.NewString() + "/requeue"
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		code                    string
	}{
		{"auditor", "POST", requeue, "", 403, "insufficient_permissions"},
		{"tenant", "GET", "/api/v1/admin/outbox/failed", "", 403, "insufficient_permissions"},
		{"admin", "GET", "/api/v1/admin/outbox/failed?cursor=x", "", 422, "cursor_invalid"},
		{"admin", "POST", unknown, "", 404, "outbox_event_not_found"},
		{"admin", "POST", "/api/v1/admin/outbox/7/requeue", "", 422, "validation_error"},
		{"admin", "POST", discard, `{}`, 422, "validation_error"},
		{"admin", "POST", discard, `{"reason":""}`, 422, "validation_error"},
		{"admin", "POST", requeue, "", 200, ""},
		{"admin", "POST", discard, `{"reason":"nobody needs it"}`, 200, ""},
		{"admin", "POST", discard, `{"reason":"again"}`, 409, "outbox_event_state_conflict"},
	} {
		if got := call(t, server, c.who, c.method, c.path, c.body); got.status != c.status || got.Code != c.code {
			t.Errorf("%s %s %s %s: %d %s, want %d %s", c.who, c.method, c.path, c.body, got.status, got.Code, c.status, c.code)
		}
	}
	awaitRows(t, db, 1, "status = 'published' AND aggregate_id = 'c' AND attempt_count = 1")
	if got := call(t, server, "admin", "POST", requeue, ""); got.status != 409 ||
		got.Code != "outbox_event_state_conflict" {
		t.Errorf("requeue of a published event: %+v", got)
	}
	awaitRows(t, db, 1, "status = 'discarded' AND aggregate_id = 'b' AND finished_at IS NOT NULL")
	assertAudited(t, db, "outbox.requeue", failed[0].EventID, "")
	assertAudited(t, db, "outbox.discard", failed[1].EventID, "nobody needs it")
	stats, err := outbox.Stats(t.Context(), db)
	if err != nil || len(stats) != 2 || stats[0] != (outbox.DestinationStats{Destination: "nats", Failed: 1}) {
		t.Errorf("stats are %+v (%v)", stats, err)
	}
}

// Operators handle machines: which people a dead letter is about is not for them.
func TestDeadLettersAboutPeopleAreNotShownToOperators(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	server := serve(t, db, connectNATS(t, access))
	appendEvents(t, db, tenantEvent("a", 1), tenantEvent("b", 1))
	runRelay(t, outbox.RelayConfig{
		DB: db, MaxAttempts: 1, Destinations: toNATS(newScript(func(outbox.Message) error { return errRefused })),
	})
	awaitRows(t, db, 2, "status = 'failed'")
	if _, err := db.Exec(t.Context(),
		`UPDATE outbox_events SET event_type = 'user.created' WHERE aggregate_id = 'b'`); err != nil {
		t.Fatal(err)
	}
	seen := map[string][]letterItem{}
	for _, who := range []string{"admin", "operator"} {
		seen[who] = call(t, server, who, "GET", "/api/v1/admin/outbox/failed", "").Items
	}
	if len(seen["admin"]) != 2 || len(seen["operator"]) != 1 || seen["operator"][0].AggregateID != "a" {
		t.Fatalf("they see %+v", seen)
	}
	person := "/api/v1/admin/outbox/" + seen["admin"][0].EventID.String()
	for path, body := range map[string]string{person + "/requeue": "", person + "/discard": `{"reason": "x"}`} {
		if a := call(t, server, "operator", "POST", path, body); a.status != http.StatusNotFound {
			t.Errorf("%s answers the operator %d", path, a.status)
		}
	}
	if a := call(t, server, "admin", "POST", person+"/discard", `{"reason": "x"}`); a.status != http.StatusOK {
		t.Errorf("the administrator is answered %d", a.status)
	}
}

func assertAudited(tb testing.TB, db *postgres.DB, action string, event id.Event, reason string) {
	tb.Helper()
	var n int
	err := db.QueryRow(tb.Context(), `SELECT count(*) FROM audit_logs
		WHERE action = $1 AND target_id = $2 AND reason = $3 AND actor_id = 'admin' AND result = 'success' AND metadata ->> 'event_type' = 'tenant.updated'`,
		action, event.String(), reason).Scan(&n)
	if err != nil || n != 1 {
		tb.Errorf("%d audit entries of %s %s (%v), want 1", n, action, event, err)
	}
}

// listener is a client of the event feed.
type listener struct {
	status int
	code   string
	stop   context.CancelFunc
	lines  *bufio.Scanner
}

type sse struct {
	id, name string
	data     string
}

func listen(tb testing.TB, server *httptest.Server, who, query, lastEventID string) *listener {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/events"+query, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+who)
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	stop := func() { cancel(); _ = response.Body.Close() }
	tb.Cleanup(stop)
	l := &listener{status: response.StatusCode, stop: stop, lines: bufio.NewScanner(response.Body)}
	if l.status != http.StatusOK {
		var a answer
		if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
			tb.Fatal(err)
		}
		l.code = a.Code
	}
	return l
}

func (l *listener) next(tb testing.TB) sse {
	tb.Helper()
	var e sse
	for l.lines.Scan() {
		key, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e
			}
		}
	}
	tb.Fatalf("the stream ended: %v", l.lines.Err())
	return e
}

func (e sse) version(tb testing.TB) int64 {
	tb.Helper()
	var envelope eventwire.Envelope
	var payload eventwire.Tenant
	if err := json.Unmarshal([]byte(e.data), &envelope); err != nil || e.name != "event" {
		tb.Fatalf("not an event: %+v (%v)", e, err)
	}
	if err := json.Unmarshal(envelope.Payload, &payload); err != nil {
		tb.Fatal(err)
	}
	return payload.Version
}

func of(org id.Org, version int64) outbox.Event {
	e := tenantEvent(org.String(), version)
	e.Org = org
	return e
}

// A reader that comes and goes sees each event once, in order, and none is
// missing.
func TestFeedResumes(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	n := connectNATS(t, access)
	server := serve(t, db, n)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n)})
	awaitNATS(t, n)
	const visits, perVisit = 6, 5
	last, want := "", int64(1)
	written := int64(0)
	write := func(n int) {
		for range n {
			written++
			appendEvents(t, db, of(orgA, written))
		}
	}
	for visit := range visits {
		reader := listen(t, server, "admin", "", last)
		if mark := reader.next(t); mark.name != "position" {
			t.Fatalf("the feed began with %+v", mark)
		} else if last == "" {
			last = mark.id
		}
		write(perVisit + visit) // more than is read: the rest must come at the next visit
		for range perVisit {
			e := reader.next(t)
			if v := e.version(t); v != want {
				t.Fatalf("visit %d: version %d, want %d", visit, v, want)
			}
			want, last = want+1, e.id
		}
		reader.stop()
		write(2) // while nobody listens
	}
}

func TestFeedShowsOnlyWhatTheReaderMaySee(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	n := connectNATS(t, access)
	server := serve(t, db, n)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n)})
	awaitNATS(t, n)
	user := outbox.Event{
		Type: eventwire.UserCreated, AggregateKind: "user", AggregateID: "u",
		Payload: eventwire.User{UserID: "u", Name: "U"},
	}
	appendEvents(t, db, of(orgB, 1), user, of(orgA, 2))
	awaitRows(t, db, 3, "status = 'published'")

	if v := skipMark(t, listen(t, server, "tenant", "", "0")).version(t); v != 2 {
		t.Errorf("the tenant saw version %d first, want its own event alone", v)
	}
	if e := skipMark(t, listen(t, server, "auditor", "?type=user", "0")); !strings.Contains(e.data, "user.created") {
		t.Errorf("filtered by type, the first event was %+v", e)
	}
	operator := listen(t, server, "operator", "", "0")
	for seen := 0; seen < 2; { // events of different nouns are published in any order
		e := operator.next(t)
		if e.name != "event" {
			continue
		}
		seen++
		if strings.Contains(e.data, "user.created") {
			t.Errorf("the operator saw what is about a person: %+v", e)
		}
	}
	for _, c := range []struct {
		who, query, last string
		status           int
		code             string
	}{
		{"nobody", "", "", 403, "insufficient_permissions"},
		{"admin", "?type=nonsense", "", 422, "event_type_unknown"},
		{"admin", "", "x", 422, "last_event_id_invalid"},
		{"admin", "", "99999999999999999999", 422, "last_event_id_invalid"},
		{"stranger", "", "", 401, "token_invalid"},
	} {
		if l := listen(t, server, c.who, c.query, c.last); l.status != c.status || l.code != c.code {
			t.Errorf("%s %s after %q: %d %s, want %d %s", c.who, c.query, c.last, l.status, l.code, c.status, c.code)
		}
	}
}

func skipMark(tb testing.TB, l *listener) sse {
	tb.Helper()
	if mark := l.next(tb); mark.name != "position" {
		tb.Fatalf("the feed began with %+v", mark)
	}
	return l.next(tb)
}

func TestFeedTellsOfAGap(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	n := connectNATS(t, access)
	server := serve(t, db, n)
	stop := runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n)})
	for i := range 5 {
		appendEvents(t, db, of(orgA, int64(i+1)))
	}
	awaitRows(t, db, 5, "status = 'published'")
	stop()
	if err := openStream(t, access).Purge(t.Context(), jetstream.WithPurgeKeep(2)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		last, gap string
	}{
		{"1", `{"requested_after":1,"continues_from":4}`},
		{"77", `{"requested_after":77,"continues_from":4}`}, // from an earlier stream
	} {
		reader := listen(t, server, "admin", "", c.last)
		if e := reader.next(t); e.name != "gap" || e.data != c.gap || e.id != "3" {
			t.Errorf("after %s came %+v, want gap %s", c.last, e, c.gap)
		}
		if v := reader.next(t).version(t); v != 4 {
			t.Errorf("after the gap came version %d, want 4", v)
		}
	}
	if e := skipMark(t, listen(t, server, "admin", "", "3")); e.version(t) != 4 {
		t.Errorf("the oldest that is held is not a gap: %+v", e)
	}
}

// While NATS is away the feed is unavailable. A reader from before goes on when
// it returns.
func TestFeedDuringAnOutage(t *testing.T) {
	db := postgrestest.New(t)
	private := stacktest.Start(t, stack.Options{Only: []stack.Engine{stack.NATS}})
	n := connectNATS(t, stacktest.NATSAccess{
		URL:       private.Endpoints().NATSURL,
		TokenFile: private.Endpoints().NATSTokenFile,
	})
	server := serve(t, db, n)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n), OutageCap: 50 * time.Millisecond})
	appendEvents(t, db, of(orgA, 1))
	awaitRows(t, db, 1, "status = 'published'")
	reader := listen(t, server, "admin", "", "0")
	first := skipMark(t, reader)
	if v := first.version(t); v != 1 {
		t.Fatalf("version %d, want 1", v)
	}
	if err := private.Kill(stack.NATS); err != nil {
		t.Fatal(err)
	}
	awaitCheck(t, n, "events_unavailable")
	if l := listen(t, server, "admin", "", ""); l.status != http.StatusServiceUnavailable ||
		l.code != "events_unavailable" {
		t.Errorf("while NATS is down: %d %s", l.status, l.code)
	}
	appendEvents(t, db, of(orgA, 2))
	if err := private.Resume(stack.NATS); err != nil {
		t.Fatal(err)
	}
	awaitRows(t, db, 2, "status = 'published'")
	if v := skipMark(t, listen(t, server, "admin", "", first.id)).version(t); v != 2 {
		t.Errorf("resumed after the outage at version %d, want 2", v)
	}
	if v := reader.next(t).version(t); v != 2 {
		t.Errorf("the reader from before the outage got version %d, want 2", v)
	}
}

func ExampleMessage_WorkflowStart() {
	m := outbox.Message{Body: []byte(
		`{"type":"SelfCheckWorkflow","id":"self-check-1","queue":"gpuaas","input":{"id":"1"}}`)}
	start, err := m.WorkflowStart()
	fmt.Printf("%s %s %s %s %v\n", start.Type, start.ID, start.Queue, start.Input, err)
	// Output: SelfCheckWorkflow self-check-1 gpuaas {"id":"1"} <nil>
}
