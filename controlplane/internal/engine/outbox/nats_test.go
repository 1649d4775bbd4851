package outbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		relayChild()
		return
	}
	os.Exit(m.Run())
}

// readStream reads back everything that the stream holds.
func readStream(tb testing.TB, access stacktest.NATSAccess) []*jetstream.RawStreamMsg {
	tb.Helper()
	stream := openStream(tb, access)
	state := stream.CachedInfo().State
	var out []*jetstream.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		msg, err := stream.GetMsg(tb.Context(), seq)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, msg)
	}
	return out
}

func openStream(tb testing.TB, access stacktest.NATSAccess) jetstream.Stream {
	tb.Helper()
	token, err := os.ReadFile(access.TokenFile)
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := nats.Connect(access.URL, nats.Token(strings.TrimSpace(string(token))))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	stream, err := js.Stream(tb.Context(), outbox.StreamName)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

func TestPublishToNATS(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(connectNATS(t, access))})
	appendEvents(t, db, tenantEvent("a", 1))
	awaitRows(t, db, 1, "status = 'published'")

	msgs := readStream(t, access)
	if len(msgs) != 1 {
		t.Fatalf("the stream holds %d messages, want 1", len(msgs))
	}
	var envelope eventwire.Envelope
	if err := json.Unmarshal(msgs[0].Data, &envelope); err != nil {
		t.Fatal(err)
	}
	header := msgs[0].Header
	if msgs[0].Subject != "gpuaas.tenant.updated" || header.Get("Nats-Msg-Id") != envelope.EventID ||
		header.Get("Correlation-Id") != envelope.CorrelationID {
		t.Errorf("published to %s with %v: %s", msgs[0].Subject, header, msgs[0].Data)
	}
	config := openStream(t, access).CachedInfo().Config
	if config.Storage != jetstream.FileStorage || config.MaxAge != 7*24*time.Hour || config.Duplicates != 10*time.Minute ||
		config.Subjects[0] != "gpuaas.>" {
		t.Errorf("stream is %+v", config)
	}
}

// The product sets what it decides about the stream and leaves the rest.
func TestStreamIsBroughtUpToDate(t *testing.T) {
	access := stacktest.NATS(t)
	awaitNATS(t, connectNATS(t, access))
	n, err := outbox.ConnectNATS(outbox.NATSConfig{
		URL: access.URL, TokenFile: access.TokenFile, Prefix: "acme",
		MaxBytes: 1 << 20, MaxAge: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	awaitNATS(t, n)
	config := openStream(t, access).CachedInfo().Config
	if config.Subjects[0] != "acme.>" || config.MaxBytes != 1<<20 || config.MaxAge != time.Hour {
		t.Errorf("stream is %+v", config)
	}
}

func awaitNATS(tb testing.TB, n *outbox.NATS) {
	tb.Helper()
	awaitCheck(tb, n, "")
}

// awaitCheck waits until the check fails with a code, or with none.
func awaitCheck(tb testing.TB, n *outbox.NATS, code string) {
	tb.Helper()
	testkit.Succeeds(tb, "the check of NATS", testkit.Patience, func() error {
		err := n.Check(tb.Context())
		if (err == nil && code == "") || (err != nil && fault.CodeOf(err) == code) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("the check shall give %q", code))
	})
}

func TestNATSGoesAwayAndReturns(t *testing.T) {
	db := postgrestest.New(t)
	private := stacktest.Start(t, stack.Options{Only: []stack.Engine{stack.NATS}})
	access := stacktest.NATSAccess{URL: private.Endpoints().NATSURL, TokenFile: private.Endpoints().NATSTokenFile}
	kill := func() {
		t.Helper()
		if err := private.Kill(stack.NATS); err != nil {
			t.Fatal(err)
		}
	}
	resume := func() {
		t.Helper()
		if err := private.Resume(stack.NATS); err != nil {
			t.Fatal(err)
		}
	}
	kill() // it is not even there at the start
	n := connectNATS(t, access)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n), MaxAttempts: 2, OutageCap: 100 * time.Millisecond})
	const rounds, burst = 3, 50
	for round := range rounds {
		awaitCheck(t, n, "events_unavailable")
		for i := range burst {
			appendEvents(t, db, tenantEvent(strconv.Itoa(i%7), int64(round*burst+i)))
		}
		resume()
		awaitRows(t, db, (round+1)*burst, "status = 'published'")
		if round < rounds-1 {
			kill()
		}
	}
	if n := countRows(t, db, "attempt_count <> 1 OR status <> 'published'"); n != 0 {
		t.Errorf("%d events paid for an outage with an attempt", n)
	}
	assertWhole(t, db, readStream(t, access), rounds*burst)
}

// assertWhole checks that the stream holds each event once, and those of each
// aggregate in order.
func assertWhole(t *testing.T, db *postgres.DB, msgs []*jetstream.RawStreamMsg, want int) {
	t.Helper()
	seen, last := map[string]bool{}, map[string]int64{}
	for _, m := range msgs {
		var envelope eventwire.Envelope
		var payload eventwire.Tenant
		if err := json.Unmarshal(m.Data, &envelope); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(envelope.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if msgID := m.Header.Get("Nats-Msg-Id"); msgID != envelope.EventID || seen[msgID] {
			t.Errorf("message id %s of event %s is wrong or repeated", msgID, envelope.EventID)
		}
		seen[envelope.EventID] = true
		if before, ok := last[payload.OrgID]; ok && payload.Version <= before {
			t.Errorf("tenant %s: version %d came after %d", payload.OrgID, payload.Version, before)
		}
		last[payload.OrgID] = payload.Version
	}
	if len(seen) != want || countRows(t, db, "true") != want {
		t.Errorf("the stream holds %d events and the outbox %d, want %d", len(seen), countRows(t, db, "true"), want)
	}
}

// A message that NATS can never take is no outage.
func TestOversizedEventIsRefused(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	big := tenantEvent("big", 1)
	big.Payload = eventwire.Tenant{OrgID: "big", Name: strings.Repeat("x", 2<<20)}
	appendEvents(t, db, big, tenantEvent("small", 1))
	runRelay(t, outbox.RelayConfig{
		DB: db, Destinations: toNATS(connectNATS(t, access)), MaxAttempts: 2,
		RetryUnit: time.Millisecond,
	})
	awaitRows(t, db, 1, "status = 'failed' AND aggregate_id = 'big' AND last_error LIKE 'event_refused: %'")
	awaitRows(t, db, 1, "status = 'published' AND aggregate_id = 'small'")
}

func TestConnectRefusesNonsense(t *testing.T) {
	for name, cfg := range map[string]outbox.NATSConfig{
		"bad URL":               {URL: "nats://user:hunter2@:bad port"},
		"two credentials":       {URL: "nats://localhost", TokenFile: "a", CredentialsFile: "b"},
		"user without password": {URL: "nats://localhost", User: "u"},
		"missing CA":            {URL: "nats://localhost", CAFile: "does-not-exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := outbox.ConnectNATS(cfg)
			if fault.CodeOf(err) != "nats_config_invalid" || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
}

const (
	childVariable = "GPUAAS_OUTBOX_TEST_CHILD"
	publishedLine = "published, not marked"
)

// childConfig is what the child that gets killed needs to know.
type childConfig struct{ PostgresURL, NATSURL, TokenFile string }

// stuckAfter publishes and then never returns, like a relay that dies between
// publish and mark.
type stuckAfter struct{ outbox.Deliverer }

func (s stuckAfter) Deliver(ctx context.Context, batch []outbox.Message) []error {
	for _, err := range s.Deliverer.Deliver(ctx, batch) {
		if err != nil {
			return s.Deliverer.Deliver(ctx, batch)
		}
	}
	fmt.Println(publishedLine) // the parent waits for it
	select {}
}

func relayChild() {
	var c childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &c); err != nil {
		panic(err)
	}
	db, err := postgres.Open(postgres.Config{URL: redact.New(c.PostgresURL), MaxConns: 5})
	if err != nil {
		panic(err)
	}
	n, err := outbox.ConnectNATS(outbox.NATSConfig{URL: c.NATSURL, TokenFile: c.TokenFile})
	if err != nil {
		panic(err)
	}
	outbox.NewRelay(outbox.RelayConfig{
		DB: db, Destinations: toNATS(stuckAfter{n}), Workers: 1,
		OutageCap: 20 * time.Millisecond,
	}).Run(context.Background())
}

func TestKillBetweenPublishAndMark(t *testing.T) {
	access := stacktest.NATS(t)
	database := stacktest.Postgres(t, func(ctx context.Context, url string) error {
		_, err := postgres.Migrate(ctx, redact.New(url))
		return err
	}, postgres.MigrationsHash())
	db, err := postgres.Open(postgres.Config{URL: redact.New(database.URL), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	const events = 200
	for i := range events {
		appendEvents(t, db, tenantEvent(strconv.Itoa(i%20), int64(i)))
	}
	runAndKillChild(t, childConfig{database.URL, access.URL, access.TokenFile})
	if n := countRows(t, db, "status = 'published'"); n != 0 {
		t.Fatalf("%d events are marked: the child was not killed in time", n)
	}
	first := readStream(t, access)
	if len(first) == 0 {
		t.Fatal("the child published nothing")
	}
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(connectNATS(t, access)), OutageCap: 20 * time.Millisecond})
	awaitRows(t, db, events, "status = 'published'")
	assertWhole(t, db, readStream(t, access), events)
}

func runAndKillChild(t *testing.T, c childConfig) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+string(config))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != publishedLine {
		t.Errorf("the child said %q: %v", lines.Text(), lines.Err())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = child.Wait() // it was killed: that is its error
}
