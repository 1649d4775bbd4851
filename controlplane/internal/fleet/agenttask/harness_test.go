package agenttask_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/testkit"
)

// world is a control plane with nothing but tasks in it, and nodes to do them.
type world struct {
	url      redact.Secret
	db       *postgres.DB
	clock    *clock
	signer   *signer
	commands agenttask.Commands
	queue    *agenttask.Queue // not running: for what needs no waiting
	ctx      context.Context
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{url: postgrestest.URL(tb), clock: &clock{at: time.Now().Truncate(time.Millisecond)}, signer: newSigner(tb)}
	w.db = w.connect(tb)
	w.commands = agenttask.Commands{DB: w.db, Clock: w.clock.now}
	w.queue = agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: w.signer, Clock: w.clock.now})
	w.ctx = auth.With(telemetry.WithCorrelation(tb.Context(), "corr-1"), &auth.Principal{
		Kind: auth.KindUser, ID: "u1", Name: "op", Platform: auth.PlatformAdmin,
	})
	return w
}

func (w *world) connect(tb testing.TB) *postgres.DB {
	tb.Helper()
	db, err := postgres.Open(postgres.Config{URL: w.url, MaxConns: 10})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

// run is another replica: a queue of its own on the same database, subscribed.
func (w *world) run(tb testing.TB) *agenttask.Queue {
	tb.Helper()
	q := agenttask.New(agenttask.QueueConfig{DB: w.connect(tb), Signer: w.signer, Clock: w.clock.now})
	start(tb, q)
	w.awaitSubscription(tb)
	return q
}

// replicas are queues that know nothing of each other's polls.
func (w *world) replicas(n int) []*agenttask.Queue {
	all := make([]*agenttask.Queue, n)
	for i := range all {
		all[i] = agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: w.signer, Clock: w.clock.now})
	}
	return all
}

const subscriptions = `FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN "node_tasks"' AND state = 'idle'`

func (w *world) awaitSubscription(tb testing.TB) {
	tb.Helper()
	testkit.Eventually(tb, "subscription", func() bool { return w.count(tb, "SELECT count(*) "+subscriptions) == 1 })
}

func start(tb testing.TB, q *agenttask.Queue) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	tb.Cleanup(func() { stop(); running.Wait() })
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// signer signs as the product does, unless a test has it fail.
type signer struct {
	mu      sync.Mutex
	failure error
	during  func()
	hangs   bool
	key     ed25519.PrivateKey
	trusted agentwire.VerifierSet
}

func newSigner(tb testing.TB) *signer {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return &signer{key: private, trusted: agentwire.VerifierSet{
		Version:   1,
		Verifiers: []agentwire.Verifier{{ID: "s1", PublicKey: public, State: "active"}},
	}}
}

func (s *signer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

func (s *signer) SignEnvelope(ctx context.Context, e *agentwire.Envelope) error {
	s.mu.Lock()
	failure, during, hangs := s.failure, s.during, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if during != nil {
		during()
	}
	if failure != nil {
		return failure
	}
	e.SignerVersion = "s1"
	signed, err := e.SignedBytes()
	e.Signature = ed25519.Sign(s.key, signed)
	return err
}

// node adds a node that is in service.
func (w *world) node(tb testing.TB) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', $2, '10.0.0.1', 'h200-sxm-slice', 8, 'eu-1', 'manual')`, n, "n-"+n.String())
	return n
}

func (w *world) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := w.db.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) count(tb testing.TB, sql string, args ...any) (n int) {
	tb.Helper()
	if err := w.db.QueryRow(tb.Context(), sql, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (w *world) enqueue(ctx context.Context, r agenttask.Request) (t agenttask.Task, err error) {
	err = w.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t, err = w.commands.Enqueue(ctx, tx, r)
		return err
	})
	return t, err
}

// ask enqueues a task for a row that asks for it.
func (w *world) ask(tb testing.TB, node id.Node, typ string) agenttask.Task {
	tb.Helper()
	t, err := w.enqueue(w.ctx, agenttask.Request{Node: node, Type: typ, Params: params[typ], Reason: "test", Owner: row{}})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

var params = map[string]any{
	agentwire.TypeProvisionUser: agentwire.ProvisionUserParams{
		AllocationID: "00000000-0000-4000-8000-000000000001", Username: "u1", UID: 20001, GID: 20001,
		AuthorizedKeys: []string{},
	},
	agentwire.TypeDeprovisionUser: agentwire.DeprovisionUserParams{
		AllocationID: "00000000-0000-4000-8000-000000000001",
		Username:     "u1",
	},
}

// poll is one look of a node of generation 1, without waiting.
func (w *world) poll(tb testing.TB, node id.Node) *agentwire.Envelope {
	tb.Helper()
	e, err := w.queue.Wait(tb.Context(), node, 1, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// fetch polls and wants a certain task.
func (w *world) fetch(tb testing.TB, want agenttask.Task) *agentwire.Envelope {
	tb.Helper()
	e := w.poll(tb, want.Node)
	if e == nil || e.TaskID != want.ID.String() {
		tb.Fatalf("the poll gives %+v, want task %s", e, want.ID)
	}
	return e
}

func (w *world) now(tb testing.TB, t agenttask.Task) agenttask.Task {
	tb.Helper()
	now, err := agenttask.Get(tb.Context(), w.db, t.ID)
	if err != nil {
		tb.Fatal(err)
	}
	return now
}

func (w *world) wants(tb testing.TB, t agenttask.Task, status agenttask.Status, code string) agenttask.Task {
	tb.Helper()
	now := w.now(tb, t)
	if now.Status != status || now.Error.Code != code {
		tb.Fatalf("the task is %s with code %q (%s), want %s with %q", now.Status, now.Error.Code, now.Error.Message, status,
			code)
	}
	return now
}

func (w *world) sweep(tb testing.TB, want int) {
	tb.Helper()
	if n, err := w.queue.Sweep(tb.Context()); err != nil || n != want {
		tb.Fatalf("the sweep changed %d tasks (%v), want %d", n, err, want)
	}
}

func succeeded(tb testing.TB, attempt int, output any) agentwire.ResultRequest {
	tb.Helper()
	raw, err := json.Marshal(output)
	if err != nil {
		tb.Fatal(err)
	}
	return agentwire.ResultRequest{
		Attempt: attempt, Status: agentwire.ResultSucceeded, Output: raw,
		Build: agentwire.Build{Version: "1.2.3"},
	}
}

func wantCode(tb testing.TB, what string, err error, code string) {
	tb.Helper()
	if code == "" && err != nil || code != "" && fault.CodeOf(err) != code {
		tb.Errorf("%s: got %v, want code %q", what, err, code)
	}
}

var errAway = fault.Wrap(errors.New("no route"), fault.Unavailable, "secrets_unavailable", "the secrets engine is away")
