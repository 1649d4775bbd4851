package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/testkit"
)

func TestAppendRefusesWhatTheContractDoesNotKnow(t *testing.T) {
	good := tenantEvent("t1", 1)
	for name, c := range map[string]struct {
		change func(*outbox.Event)
		code   string
	}{
		"unknown type":    {func(e *outbox.Event) { e.Type = "tenant.exploded" }, "event_type_unknown"},
		"other payload":   {func(e *outbox.Event) { e.Payload = eventwire.User{} }, "event_payload_mismatch"},
		"pointer payload": {func(e *outbox.Event) { e.Payload = &eventwire.Tenant{} }, "event_payload_mismatch"},
		"no payload":      {func(e *outbox.Event) { e.Payload = nil }, "event_payload_mismatch"},
		"no aggregate":    {func(e *outbox.Event) { e.AggregateID = "" }, "event_aggregate_missing"},
		"told too far": {func(e *outbox.Event) {
			e.Org, e.Project = id.New[id.Org](), id.New[id.Project]()
		}, "event_audience_exceeded"},
		"platform's, told to a tenant": {func(e *outbox.Event) {
			e.Type, e.Payload, e.Org = eventwire.UserCreated, eventwire.User{}, id.New[id.Org]()
		}, "event_audience_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			e := good
			c.change(&e)
			if err := outbox.Append(t.Context(), nil, good, e); fault.CodeOf(err) != c.code {
				t.Errorf("got %v, want code %s", err, c.code)
			}
		})
	}
	if err := outbox.StartWorkflow(t.Context(), nil,
		outbox.WorkflowStart{Type: "W", ID: "w"}); fault.CodeOf(err) != "workflow_start_incomplete" {
		t.Errorf("start without queue: %v", err)
	}
	for _, incomplete := range []outbox.WorkflowSignal{{Name: "n"}, {WorkflowID: "w"}} {
		if err := outbox.SignalWorkflow(t.Context(), nil, incomplete); fault.CodeOf(err) != "workflow_signal_incomplete" {
			t.Errorf("signal %+v: %v", incomplete, err)
		}
	}
}

// A workflow gets no signal before it was started, and gets signals in their
// order.
func TestASignalFollowsTheStartOfItsWorkflow(t *testing.T) {
	db := postgrestest.New(t)
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(
			outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{Type: "W", ID: "w-1", Queue: "q"}),
			outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
				WorkflowID: "w-1", Name: "first",
				Payload: map[string]int{"n": 1},
			}),
			outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{WorkflowID: "w-1", Name: "second"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	temporal := newScript(func(m outbox.Message) error {
		if m.Type == "W" && refusals < 2 {
			refusals++
			return errors.New("not yet")
		}
		return nil
	})
	runRelay(t, outbox.RelayConfig{
		DB: db, RetryUnit: time.Millisecond,
		Destinations: map[string]outbox.Deliverer{outbox.DestinationTemporal: temporal},
	})
	got := temporal.awaitCount(t, 3)
	var signals []outbox.WorkflowSignal
	for _, m := range got[1:] {
		signal, err := m.WorkflowSignal()
		if err != nil || m.Type != outbox.WorkflowSignalType {
			t.Fatalf("%+v %v", m, err)
		}
		signals = append(signals, signal)
	}
	payload, err := json.Marshal(signals[0].Payload)
	if err != nil || got[0].Type != "W" || signals[0].WorkflowID != "w-1" || signals[0].Name != "first" ||
		string(payload) != `{"n":1}` || signals[1].Name != "second" {
		t.Errorf("%s, then %+v", got[0].Type, signals)
	}
}

func TestAppendSharesTheFateOfTheTransaction(t *testing.T) {
	db := postgrestest.New(t)
	refused := errors.New("changed my mind")
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(outbox.Append(ctx, tx, tenantEvent("t1", 1)), refused)
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if n := countRows(t, db, "true"); n != 0 {
		t.Errorf("%d events of a transaction that was rolled back", n)
	}
	appendEvents(t, db, tenantEvent("t1", 1), tenantEvent("t2", 1))
	if n := countRows(t, db, "status = 'pending'"); n != 2 {
		t.Errorf("%d pending events, want 2", n)
	}
	appendEvents(t, db) // appending nothing is fine
}

func TestMessageCarriesWhoAndWhy(t *testing.T) {
	db := postgrestest.New(t)
	org := id.New[id.Org]()
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled,
	})
	ctx := trace.ContextWithSpanContext(telemetry.WithCorrelation(t.Context(), "corr-1"), span)
	event := tenantEvent(org.String(), 7)
	event.Org = org
	err := db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(outbox.Append(ctx, tx, event),
			outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{Type: "W", ID: "w-1", Queue: "q", Input: map[string]int{"n": 1}}))
	})
	if err != nil {
		t.Fatal(err)
	}
	nats, temporal := newScript(nil), newScript(nil)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: map[string]outbox.Deliverer{
		outbox.DestinationNATS: nats, outbox.DestinationTemporal: temporal,
	}})
	m := nats.awaitCount(t, 1)[0]
	var envelope eventwire.Envelope
	var payload eventwire.Tenant
	if err := errors.Join(json.Unmarshal(m.Body, &envelope), json.Unmarshal(envelope.Payload, &payload)); err != nil {
		t.Fatal(err)
	}
	if envelope.EventID != m.ID.String() || envelope.EventType != eventwire.TenantUpdated ||
		envelope.OrgID != org.String() ||
		envelope.CorrelationID != "corr-1" || envelope.Version != "1.0" || envelope.OccurredAt.Location().String() != "UTC" ||
		payload.Version != 7 {
		t.Errorf("envelope is %+v with %+v", envelope, payload)
	}
	if m.Org != org || m.CorrelationID != "corr-1" || m.Attempt != 1 || m.AggregateID != org.String() {
		t.Errorf("message is %+v", m)
	}
	got := m.Context(context.Background())
	if telemetry.Correlation(got) != "corr-1" || trace.SpanContextFromContext(got).TraceID() != span.TraceID() {
		t.Errorf("context of the message lost its cause")
	}
	start, err := temporal.awaitCount(t, 1)[0].WorkflowStart()
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(start.Input)
	if err != nil || start.Type != "W" || start.ID != "w-1" || start.Queue != "q" || string(input) != `{"n":1}` {
		t.Errorf("workflow start is %+v with input %s (%v)", start, input, err)
	}
}

// The order of seq is the order of commits only if an append waits for the
// earlier ones of its aggregate to end.
func TestAppendWaitsForItsAggregate(t *testing.T) {
	db := postgrestest.New(t)
	impatient := func(event outbox.Event) error {
		return db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '50ms'"); err != nil {
				return err
			}
			return outbox.Append(ctx, tx, event)
		})
	}
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := outbox.Append(ctx, tx, tenantEvent("same", 1)); err != nil {
			return err
		}
		var pg *pgconn.PgError
		if err := impatient(tenantEvent("same", 2)); !errors.As(err, &pg) || pg.Code != "55P03" {
			t.Errorf("append to an aggregate that another transaction appends to: %v, want a lock timeout", err)
		}
		if err := impatient(tenantEvent("other", 1)); err != nil {
			t.Errorf("append to another aggregate: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := impatient(tenantEvent("same", 2)); err != nil {
		t.Errorf("append after the other transaction ended: %v", err)
	}
}

// An append that waited for its aggregate takes its number when it goes on: with one from
// before, it would be delivered before what had committed earlier.
func TestAnAppendThatWaitedComesAfterwards(t *testing.T) {
	db := postgrestest.New(t)
	late := make(chan error, 1)
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := outbox.Append(ctx, tx, tenantEvent("same", 1)); err != nil {
			return err
		}
		go func() {
			late <- db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				return outbox.Append(ctx, tx, tenantEvent("same", 3))
			})
		}()
		testkit.Eventually(t, "the other append waits", func() bool {
			var waiting bool
			err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waiting)
			return err == nil && waiting
		})
		return outbox.Append(ctx, tx, tenantEvent("same", 2))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the other append", late); err != nil {
		t.Fatal(err)
	}
	var order string
	if err := db.QueryRow(t.Context(), `SELECT string_agg(envelope->'payload'->>'version', ' ' ORDER BY seq)
		FROM outbox_events`).Scan(&order); err != nil || order != "1 2 3" {
		t.Errorf("the versions come in the order %s (%v)", order, err)
	}
}

func TestLifecycle(t *testing.T) {
	for _, err := range outbox.Lifecycle.Validate() {
		t.Error(err)
	}
	db := postgrestest.New(t)
	for _, status := range outbox.Lifecycle.Values() {
		if _, err := db.Exec(t.Context(), "SELECT $1::outbox_event_status", status); err != nil {
			t.Errorf("the database does not know status %s: %v", status, err)
		}
	}
	if _, err := db.Exec(t.Context(), "SELECT 'other'::outbox_event_status"); err == nil {
		t.Error("the database takes any status")
	}
}
