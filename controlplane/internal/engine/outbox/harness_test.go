package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

const patience = 20 * time.Second

func tenantEvent(tenant string, version int64) outbox.Event {
	return outbox.Event{
		Type: eventwire.TenantUpdated, AggregateKind: "tenant", AggregateID: tenant,
		Payload: eventwire.Tenant{OrgID: tenant, Slug: "acme", Name: "Acme", Version: version},
	}
}

func appendEvents(tb testing.TB, db *postgres.DB, events ...outbox.Event) {
	tb.Helper()
	err := db.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error { return outbox.Append(ctx, tx, events...) })
	if err != nil {
		tb.Fatalf("append: %v", err)
	}
}

// runRelay runs a relay until the test ends or stop is called, which waits for
// the batches in hand.
func runRelay(tb testing.TB, cfg outbox.RelayConfig) (stop func()) {
	tb.Helper()
	if cfg.Logger == nil && testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { outbox.NewRelay(cfg).Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	tb.Cleanup(stop)
	return stop
}

func toNATS(d outbox.Deliverer) map[string]outbox.Deliverer {
	return map[string]outbox.Deliverer{outbox.DestinationNATS: d}
}

func connectNATS(tb testing.TB, access stacktest.NATSAccess) *outbox.NATS {
	tb.Helper()
	n, err := outbox.ConnectNATS(outbox.NATSConfig{URL: access.URL, TokenFile: access.TokenFile})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(n.Close)
	return n
}

// script is a deliverer that does what a test says and remembers what it was
// given, in order of acceptance.
type script struct {
	decide func(outbox.Message) error // nil accepts all

	mu       sync.Mutex
	accepted []outbox.Message
	tried    map[id.Event]int
	changed  chan struct{}
}

func newScript(decide func(outbox.Message) error) *script {
	return &script{decide: decide, tried: map[id.Event]int{}, changed: make(chan struct{})}
}

func (s *script) Deliver(_ context.Context, batch []outbox.Message) []error {
	errs := make([]error, len(batch))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range batch {
		s.tried[m.ID]++
		if s.decide != nil {
			errs[i] = s.decide(m)
		}
		if errs[i] == nil {
			s.accepted = append(s.accepted, m)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return errs
}

// await waits until a condition on what was delivered holds.
func (s *script) await(tb testing.TB, what string, holds func(accepted []outbox.Message, tried map[id.Event]int) bool) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		ok, changed := holds(s.accepted, s.tried), s.changed
		n := len(s.accepted)
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			tb.Fatalf("gave up waiting for %s; %d messages were accepted", what, n)
		}
	}
}

func (s *script) awaitCount(tb testing.TB, n int) []outbox.Message {
	tb.Helper()
	s.await(tb, fmt.Sprintf("%d messages", n),
		func(got []outbox.Message, _ map[id.Event]int) bool { return len(got) >= n })
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]outbox.Message(nil), s.accepted...)
}

// awaitRows waits until a query over the outbox gives the number wanted.
func awaitRows(tb testing.TB, db *postgres.DB, want int, condition string) {
	tb.Helper()
	testkit.Succeeds(tb, "rows of the outbox", patience, func() error {
		if got := countRows(tb, db, condition); got != want {
			return fmt.Errorf("%d rows with %s, want %d", got, condition, want)
		}
		return nil
	})
}

func countRows(tb testing.TB, db *postgres.DB, condition string) int {
	tb.Helper()
	var n int
	if err := db.QueryRow(tb.Context(), "SELECT count(*) FROM outbox_events WHERE "+condition).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// counter closes done when it has seen enough messages accepted.
type counter struct {
	outbox.Deliverer
	mu   sync.Mutex
	want int
	done chan struct{}
}

func (c *counter) Deliver(ctx context.Context, batch []outbox.Message) []error {
	errs := c.Deliverer.Deliver(ctx, batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range errs {
		if err == nil {
			if c.want--; c.want == 0 {
				close(c.done)
			}
		}
	}
	return errs
}

// announcer tells when a message was accepted.
type announcer struct {
	outbox.Deliverer
	accepted chan<- time.Time
}

func (a announcer) Deliver(ctx context.Context, batch []outbox.Message) []error {
	errs := a.Deliverer.Deliver(ctx, batch)
	now := time.Now()
	for _, err := range errs {
		if err == nil {
			a.accepted <- now
		}
	}
	return errs
}
