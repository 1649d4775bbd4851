package signer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/signer"
)

const grace = 6 * time.Hour

// engine is a secrets engine in a map, for saying what goes wrong and when.
type engine struct {
	mu     sync.Mutex
	held   map[string]ed25519.PrivateKey
	fail   error
	signed int
}

func (e *engine) CreateSigningKey(_ context.Context, name string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	if e.held[name] == nil {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		e.held[name] = private
	}
	return e.held[name].Public().(ed25519.PublicKey), nil
}

func (e *engine) Sign(_ context.Context, name string, message []byte) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil || e.held[name] == nil {
		return nil, errors.Join(e.fail, errors.New("no such key: "+name))
	}
	e.signed++
	return ed25519.Sign(e.held[name], message), nil
}

func (e *engine) breaks(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = err
}

// fleet is all nodes with the set of verifiers that each of them uses.
type fleet struct {
	mu    sync.Mutex
	sets  map[id.Node]agentwire.VerifierSet
	sent  []agentwire.VerifierSet // what was distributed
	fail  error
	block error // of the distribution
	// bundles are the fingerprints of what nodes verify the listener with.
	bundles map[id.Node]string
}

func (f *fleet) BundleBehind(_ context.Context, fingerprint string) (nodes, behind int, sample []id.Node, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.sets {
		if f.bundles[n] != fingerprint {
			sample = append(sample, n)
		}
	}
	return len(f.sets), len(sample), sample, f.fail
}

func (f *fleet) VerifiersBehind(_ context.Context, version int64) (int, []id.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var behind []id.Node
	for n, set := range f.sets {
		if set.Version < version {
			behind = append(behind, n)
		}
	}
	return len(behind), behind, f.fail
}

func (f *fleet) distribute(_ context.Context, _ pgx.Tx, set agentwire.VerifierSet, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.block == nil {
		f.sent = append(f.sent, set)
	}
	return f.block
}

// use makes a node use a set.
func (f *fleet) use(node id.Node, set agentwire.VerifierSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sets[node] = set
}

func (f *fleet) set(node id.Node) agentwire.VerifierSet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sets[node]
}

func (f *fleet) distributed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent)
}

// world is a control plane with nothing but signers in it, and two nodes.
type world struct {
	db       *postgres.DB
	keys     *engine
	fleet    *fleet
	service  *signer.Service
	ctx      context.Context
	clock    time.Time
	clocked  sync.Mutex
	one, two id.Node
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{
		db: postgrestest.New(tb), keys: &engine{held: map[string]ed25519.PrivateKey{}},
		fleet: &fleet{sets: map[id.Node]agentwire.VerifierSet{}, bundles: map[id.Node]string{}},
		clock: time.Now().Truncate(time.Second), one: id.New[id.Node](), two: id.New[id.Node](),
	}
	w.ctx = auth.With(tb.Context(), &auth.Principal{
		Kind: auth.KindUser, ID: "u1", Name: "op",
		Platform: auth.PlatformAdmin,
	})
	w.service = w.replica()
	if err := w.service.Ensure(w.ctx); err != nil {
		tb.Fatal(err)
	}
	w.deliver(tb, w.one, w.two)
	return w
}

// replica is another process on the same database, secrets engine and fleet.
func (w *world) replica() *signer.Service {
	return signer.New(signer.Config{
		DB: w.db, Keys: w.keys, Fleet: w.fleet, Distribute: w.fleet.distribute, Grace: grace, Clock: w.now,
	})
}

func (w *world) now() time.Time {
	w.clocked.Lock()
	defer w.clocked.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.clocked.Lock()
	defer w.clocked.Unlock()
	w.clock = w.clock.Add(d)
}

// deliver makes nodes use the newest set.
func (w *world) deliver(tb testing.TB, nodes ...id.Node) agentwire.VerifierSet {
	tb.Helper()
	set, err := w.service.Verifiers(w.ctx)
	if err != nil {
		tb.Fatal(err)
	}
	for _, n := range nodes {
		w.fleet.use(n, set)
	}
	return set
}

func (w *world) tend(tb testing.TB) {
	tb.Helper()
	if err := w.service.Tend(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) rotate(tb testing.TB, force bool) signer.Signer {
	tb.Helper()
	s, err := w.service.Rotate(w.ctx, "it is time", force)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// in finds the signer of a status; nil when there is none.
func (w *world) in(tb testing.TB, status signer.Status) *signer.Listed {
	tb.Helper()
	all := w.all(tb)
	i := slices.IndexFunc(all, func(l signer.Listed) bool { return l.Status == status })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (w *world) all(tb testing.TB) []signer.Listed {
	tb.Helper()
	all, err := w.service.List(w.ctx, signer.FirstPage(100))
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// task is a signed task for a node.
func (w *world) task(tb testing.TB, by *signer.Service, node id.Node) agentwire.Envelope {
	tb.Helper()
	e := agentwire.Envelope{
		TaskID: id.NewString(), NodeID: node.String(), Type: agentwire.TypeHeartbeatCheck, Params: json.RawMessage(`{}`),
		Generation: 1, Attempt: 1,
		IssuedAt: w.now(), ExpiresAt: w.now().Add(time.Minute),
	}
	if err := by.SignEnvelope(w.ctx, &e); err != nil {
		tb.Error(err)
	}
	return e
}

// refuses reports why a node refuses a task; empty when it does not.
func (w *world) refuses(e agentwire.Envelope, node id.Node) agentwire.Reason {
	if _, refusal := w.fleet.set(node).Verify(e, node.String(), 1, w.now()); refusal != nil {
		return refusal.Reason
	}
	return ""
}

// trace is everything that a change leaves behind.
type trace struct{ signers, audits, events, distributed int }

func (w *world) trace(tb testing.TB) trace {
	tb.Helper()
	t := trace{distributed: w.fleet.distributed()}
	err := w.db.QueryRow(tb.Context(), `SELECT (SELECT coalesce(sum(version), 0) FROM signer_versions) + (SELECT sum(version) FROM verifier_sets),
		(SELECT count(*) FROM audit_logs WHERE target_kind = 'signer'),
		(SELECT count(*) FROM outbox_events WHERE event_type = 'signer.changed')`).Scan(&t.signers, &t.audits, &t.events)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

var errAway = fault.New(fault.Unavailable, "secrets_unavailable", "the secrets engine cannot be reached")
