package terminal_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/testkit"
)

func TestLifecycle(t *testing.T) {
	for _, err := range terminal.Lifecycle.Validate() {
		t.Error(err)
	}
	w := newWorld(t, nil)
	check := w.texts(t,
		`SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'terminal_session_status_check'`)
	for _, status := range terminal.Lifecycle.Values() {
		if ok := w.texts(t, `SELECT (position($1 in $2) > 0)::text`, "'"+status+"'", check[0]); ok[0] != "true" {
			t.Errorf("the database does not know %s: %s", status, check[0])
		}
	}
}

func TestWhoMayHaveATokenForWhat(t *testing.T) {
	w := newWorld(t, nil)
	mint := func(node id.Node) string { return "/api/v1/admin/nodes/" + node.String() + "/terminal-token" }
	alice := map[string]any{"username": "alice"}
	held := w.addNode(t, "active")
	w.exec(t, `UPDATE nodes SET held_by = 'decommission 1' WHERE id = $1`, held)
	for name, c := range map[string]struct {
		who, path string
		body      any
		status    int
		code      string
	}{
		"a stranger": {"nobody", mint(w.node), alice, http.StatusUnauthorized, "token_invalid"},
		"an auditor": {"auditor", mint(w.node), alice, http.StatusForbidden, "insufficient_permissions"},
		"root": {
			"admin", mint(w.node),
			map[string]any{"username": "root"},
			http.StatusUnprocessableEntity,
			"validation_error",
		},
		"a path": {
			"admin", mint(w.node),
			map[string]any{"username": "../x"},
			http.StatusUnprocessableEntity,
			"validation_error",
		},
		"too wide": {
			"admin", mint(w.node),
			map[string]any{"username": "alice", "columns": 1001},
			http.StatusUnprocessableEntity, "validation_error",
		},
		"no such node":          {"admin", mint(id.New[id.Node]()), alice, http.StatusNotFound, "node_not_found"},
		"a node that is silent": {"admin", mint(w.addNode(t, "offline")), alice, http.StatusConflict, "node_offline"},
		"a node being emptied": {
			"admin", mint(w.addNode(t, "draining")), alice, http.StatusConflict,
			"node_not_in_service",
		},
		"a node that is gone":    {"admin", mint(w.addNode(t, "deleted")), alice, http.StatusConflict, "node_not_in_service"},
		"a node that is cleaned": {"admin", mint(held), alice, http.StatusConflict, "node_held"},
		"a node under suspicion": {"admin", mint(w.addNode(t, "quarantined")), alice, 0, ""},
		"a node in service":      {"admin", mint(w.node), alice, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var m token
			if p := w.ask(t, c.who, http.MethodPost, c.path, c.body, &m); p.Code != c.code || p.Status != c.status {
				t.Errorf("got %+v, want %d %s", p, c.status, c.code)
			}
		})
	}
}

// Ten tokens a minute for one person, in whatever way they ask.
func TestTokensAreRationed(t *testing.T) {
	w := newWorld(t, func(s *terminal.Settings) { s.MintsPerMinute = 0 })
	ask := func(who string) problem {
		var m token
		return w.ask(t, who, http.MethodPost, "/api/v1/admin/nodes/"+w.node.String()+"/terminal-token",
			map[string]any{"username": "alice"}, &m)
	}
	var mu sync.Mutex
	var granted, limited int
	var asking sync.WaitGroup
	for range 16 {
		asking.Go(func() {
			p := ask("admin")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case p.Code == "":
				granted++
			case p.Code == "rate_limit_exceeded" && p.Status == http.StatusTooManyRequests:
				limited++
			default:
				t.Errorf("got %+v", p)
			}
		})
	}
	asking.Wait()
	if granted != 10 || limited != 6 {
		t.Errorf("%d granted, %d refused", granted, limited)
	}
	if p := ask("admin-2"); p.Code != "" {
		t.Errorf("another person: %+v", p)
	}
	w.clock.pass(61 * time.Second)
	if p := ask("admin"); p.Code != "" {
		t.Errorf("a minute later: %+v", p)
	}
}

func TestAReplicaThatShutsDownSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.service.Run(ctx) })
	m, user, node := w.both(t)
	waiting := w.mint(t)
	waitingUser := w.user(t, waiting)
	w.wants(t, waiting.SessionID, terminal.Opening, "")
	late := w.mint(t)
	stop()
	if last, status := user.ends(); status != websocket.StatusServiceRestart || last.Reason != agentwire.ClosedGateway {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	if last, status := node.ends(); status != websocket.StatusServiceRestart || last.Type != agentwire.FrameClose {
		t.Errorf("the node hears %+v, %d", last, status)
	}
	if last, status := waitingUser.ends(); status != websocket.StatusServiceRestart || last.Type != agentwire.FrameError ||
		!last.Retryable {
		t.Errorf("the one who waits hears %+v, %d", last, status)
	}
	running.Wait()
	w.wants(t, m.SessionID, terminal.Closed, agentwire.ClosedGateway)
	w.wants(t, waiting.SessionID, terminal.Failed, agentwire.ClosedGateway)
	if _, answer, err := w.dialUser(t, late.WebsocketPath,
		[]string{agentwire.TerminalProtocol, agentwire.TerminalBearer + late.Token}, nil); err == nil ||
		answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new one: %v", err)
	}
	w.wants(t, late.SessionID, terminal.Issued, "")
}

// Another replica ends the sessions of a replica that is gone, but not those of
// one that is only silent for a moment.
func TestAbandonedSessionsAreSwept(t *testing.T) {
	w := newWorld(t, nil)
	other := w.replica(nil)
	open, user, _ := w.both(t)
	opening, unused := w.mint(t), w.mint(t)
	w.user(t, opening)
	w.wants(t, opening.SessionID, terminal.Opening, "")
	sweep := func(want int) {
		t.Helper()
		if n, err := other.Sweep(t.Context()); err != nil || n != want {
			t.Errorf("%d sessions were swept (%v), want %d", n, err, want)
		}
	}
	w.clock.pass(30 * time.Second)
	sweep(0)
	w.clock.pass(45 * time.Second)
	sweep(2)
	w.wants(t, open.SessionID, terminal.Closed, "gateway_lost")
	w.wants(t, opening.SessionID, terminal.Failed, "gateway_lost")
	w.wants(t, unused.SessionID, terminal.Issued, "")
	w.clock.pass(time.Minute)
	sweep(1)
	w.wants(t, unused.SessionID, terminal.Failed, "token_expired")
	sweep(0)
	if got := w.events(t, open.SessionID); !slices.Equal(got,
		[]string{"terminal_session.opened ", "terminal_session.closed gateway_lost"}) {
		t.Errorf("events: %q", got)
	}
	// The replica was alive after all: it learns that its sessions are over.
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.service.Run(ctx) })
	if last, status := user.ends(); last.Reason != "gateway_lost" || status != websocket.StatusServiceRestart {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	stop()
	running.Wait()
}

// While a replica reports its sessions, nobody ends them.
func TestHeldSessionsAreNotSwept(t *testing.T) {
	w := newWorld(t, nil)
	other := w.replica(nil)
	m, user, node := w.both(t)
	node.sends("shown")
	user.shows("shown")
	w.clock.pass(50 * time.Second)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.service.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	testkit.Eventually(t, "the replica to say what it holds", func() bool {
		return w.wants(t, m.SessionID, terminal.Open, "").BytesOut == 5
	})
	w.clock.pass(50 * time.Second)
	if n, err := other.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("%d sessions were swept (%v)", n, err)
	}
}

func TestOperatorsSeeAndEndSessions(t *testing.T) {
	w := newWorld(t, nil)
	open, user, node := w.both(t)
	w.task(t) // the one that opened it
	user.sends("typed")
	node.shows("typed")
	unused := w.mint(t)
	var page struct {
		Items []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"items"`
	}
	if p := w.ask(t, "auditor", http.MethodGet, "/api/v1/admin/terminal-sessions?status=open&node_id="+w.node.String(),
		nil, &page); p.Code != "" || len(page.Items) != 1 || page.Items[0].ID != open.SessionID {
		t.Errorf("%+v %+v", p, page)
	}
	closing := func(who, session string) (status string, p problem) {
		var s struct {
			Status string `json:"status"`
		}
		p = w.ask(t, who, http.MethodPost, "/api/v1/admin/terminal-sessions/"+session+"/close",
			map[string]any{"reason": "test of it"}, &s)
		return s.Status, p
	}
	if _, p := closing("auditor", open.SessionID); p.Status != http.StatusForbidden {
		t.Errorf("an auditor: %+v", p)
	}
	if _, p := closing("admin", id.NewString()); p.Status != http.StatusNotFound {
		t.Errorf("one that is not there: %+v", p)
	}
	if status, p := closing("admin", unused.SessionID); status != "failed" || p.Code != "" {
		t.Errorf("one that nobody uses: %s %+v", status, p)
	}
	if _, status := w.user(t, unused).ends(); status != agentwire.CloseUnauthenticated {
		t.Errorf("its token still works: %d", status)
	}
	for range 2 { // the second time it has ended already
		if status, p := closing("admin", open.SessionID); status != "closed" || p.Code != "" {
			t.Errorf("one that is open: %s %+v", status, p)
		}
	}
	if last, status := user.ends(); last.Reason != agentwire.ClosedOnRequest || status != websocket.StatusNormalClosure {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	if last, _ := node.ends(); last.Type != agentwire.FrameClose || last.Reason != agentwire.ClosedOnRequest {
		t.Errorf("the node hears %+v", last)
	}
	if task := w.task(t); task.Type != agentwire.TypeTerminalClose {
		t.Fatalf("the node is given %+v", task)
	}
	if ended := w.wants(t, open.SessionID, terminal.Closed, agentwire.ClosedOnRequest); ended.BytesIn != 5 {
		t.Errorf("%d bytes in", ended.BytesIn)
	}
	if got := w.events(t, open.SessionID); !slices.Equal(got,
		[]string{"terminal_session.opened ", "terminal_session.closed closed_by_operator"}) {
		t.Errorf("events: %q", got)
	}
}

// A session ends even if its node is gone, and on any replica.
func TestASessionEndsWithoutItsNode(t *testing.T) {
	w := newWorld(t, nil)
	other := w.replica(nil)
	open, user, node := w.both(t)
	opening := w.mint(t)
	waiting := w.user(t, opening)
	w.wants(t, opening.SessionID, terminal.Opening, "")
	w.exec(t, `UPDATE nodes SET status = 'retired' WHERE id = $1`, w.node) // it can get no task
	ended := map[string]terminal.Status{open.SessionID: terminal.Closed, opening.SessionID: terminal.Failed}
	for session, want := range ended {
		of, err := id.Parse[id.TerminalSession](session)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := other.Close(as(t, "admin"), of, "must end"); err != nil || now.Status != want || now.ClosedAt == nil {
			t.Errorf("closed: %+v, %v", now, err)
		}
		w.wants(t, session, want, agentwire.ClosedOnRequest)
	}
	// The replica that holds them finds out with its next beat.
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.service.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	if last, status := user.ends(); last.Reason != agentwire.ClosedOnRequest || status != websocket.StatusNormalClosure {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	if last, _ := node.ends(); last.Type != agentwire.FrameClose || last.Reason != agentwire.ClosedOnRequest {
		t.Errorf("the node hears %+v", last)
	}
	if last, _ := waiting.ends(); last.Code != agentwire.ClosedOnRequest {
		t.Errorf("the one who waits hears %+v", last)
	}
	for session, want := range ended {
		w.wants(t, session, want, agentwire.ClosedOnRequest)
	}
}

// A failed task of an earlier attempt does not keep a session open.
func TestASessionEndsAlthoughAnEarlierTaskFailed(t *testing.T) {
	w := newWorld(t, nil)
	open, user, _ := w.both(t)
	w.exec(t, `INSERT INTO node_tasks (id, node_id, type, params, concurrency_class, status, generation, max_attempts, deadline_at, idempotency_key,
			requested_by, correlation_id, finished_at)
		SELECT $1, node_id, 'terminal.close', '{}', 'concurrent', 'failed', generation, max_attempts, deadline_at, 'terminal-close-' || $2::text,
			requested_by, correlation_id, now()
		FROM node_tasks WHERE type = 'terminal.open'`, id.NewString(), open.SessionID)
	of, err := id.Parse[id.TerminalSession](open.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := w.service.Close(as(t, "admin"), of, "must end"); err != nil || now.Status != terminal.Closed {
		t.Errorf("closed: %+v, %v", now, err)
	}
	user.ends()
	w.wants(t, open.SessionID, terminal.Closed, agentwire.ClosedOnRequest)
}

func TestAllSessionsOfANodeEndTogether(t *testing.T) {
	w := newWorld(t, nil)
	open, user, _ := w.both(t)
	opening, unused := w.mint(t), w.mint(t)
	w.user(t, opening)
	w.wants(t, opening.SessionID, terminal.Opening, "")
	mine := w.node
	w.node = w.addNode(t, "active")
	spared := w.mint(t)
	err := w.db.InTx(as(t, "admin"), func(ctx context.Context, tx pgx.Tx) error { return w.service.EndAll(ctx, tx, mine) })
	if err != nil {
		t.Fatal(err)
	}
	w.wants(t, open.SessionID, terminal.Closed, agentwire.ClosedOnRequest)
	w.wants(t, opening.SessionID, terminal.Failed, agentwire.ClosedOnRequest)
	w.wants(t, unused.SessionID, terminal.Failed, "token_revoked")
	w.wants(t, spared.SessionID, terminal.Issued, "")
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.service.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	if last, _ := user.ends(); last.Reason != agentwire.ClosedOnRequest {
		t.Errorf("the user hears %+v", last)
	}
}

// as is the context of somebody.
func as(tb testing.TB, who string) context.Context {
	tb.Helper()
	return auth.With(tb.Context(), &auth.Principal{
		Kind: auth.KindUser, ID: "id-of-" + who, Name: who,
		Platform: auth.PlatformAdmin,
	})
}

// A session that is not being opened, or that is for another node, does not own
// the task that would let somebody in.
func TestAttackATerminalTaskNeedsASessionThatIsBeingOpened(t *testing.T) {
	w := newWorld(t, nil)
	minted := w.mint(t)
	session, err := id.Parse[id.TerminalSession](minted.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	owns := func(node id.Node, typ string) (code string) {
		err := w.db.InTx(t.Context(), func(ctx context.Context,
			tx pgx.Tx,
		) error {
			return terminal.Owns(ctx, tx, session, node, typ)
		})
		if err == nil {
			return ""
		}
		return fault.CodeOf(err)
	}
	if code := owns(w.node, agentwire.TypeTerminalOpen); code != "terminal_session_not_opening" {
		t.Errorf("before anybody connects: %q", code)
	}
	w.exec(t, `UPDATE terminal_sessions SET status = 'opening', seen_at = now(), token_used_at = now() WHERE id = $1`,
		session)
	if code := owns(w.node, agentwire.TypeTerminalOpen); code != "" {
		t.Errorf("while it is being opened: %q", code)
	}
	if code := owns(id.New[id.Node](), agentwire.TypeTerminalOpen); code != "terminal_session_not_opening" {
		t.Errorf("another node: %q", code)
	}
	if code := owns(w.node, agentwire.TypeUpdateVerifiers); code != "terminal_session_not_opening" {
		t.Errorf("another task: %q", code)
	}
}
