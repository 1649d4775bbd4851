package agentgateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// holding tells when a poll has reached the queue.
type holding struct {
	agentgateway.Tasks
	held chan id.Node
}

func (h *holding) Wait(ctx context.Context, n id.Node, generation int64, hold time.Duration) (*agentwire.Envelope,
	error,
) {
	h.held <- n
	return h.Tasks.Wait(ctx, n, generation, hold)
}

func holdPolls(h *holding) option {
	return func(c *agentgateway.Config) {
		h.Tasks, h.held = c.Tasks, make(chan id.Node, 100)
		c.Tasks = h
	}
}

// poll polls in the background.
func (a *agent) poll(query string) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- a.get(agentwire.PathWait, query) }()
	return out
}

func TestAHeldPollIsWokenByATask(t *testing.T) {
	t.Parallel()
	var h holding
	p := newPlane(t, newEngine(t), holdPolls(&h))
	a, b := p.active(t, "gpu-1"), p.active(t, "gpu-2")
	for len(h.held) > 0 {
		<-h.held
	}
	var took []time.Duration
	for range 20 {
		other := b.poll("wait_seconds=5")
		<-h.held
		polled := a.poll("wait_seconds=50")
		<-h.held
		start := time.Now()
		task := p.enqueue(t, a.node, agentwire.TypeTerminalClose, agentwire.TerminalCloseParams{SessionID: id.NewString()})
		var e agentwire.Envelope
		(<-polled).want(http.StatusOK, "").into(&e)
		took = append(took, time.Since(start))
		if e.TaskID != task.ID.String() || e.NodeID != a.node.String() {
			t.Fatalf("%+v", e)
		}
		p.enqueue(t, b.node, agentwire.TypeTerminalClose, agentwire.TerminalCloseParams{SessionID: id.NewString()})
		(<-other).want(http.StatusOK, "")
	}
	slices.Sort(took)
	t.Logf("enqueue to answer over TLS: median %s, worst %s", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second {
		t.Error("polls are not woken")
	}
}

func TestShutdownEndsHeldPollsWithNothing(t *testing.T) {
	t.Parallel()
	var h holding
	p := newPlane(t, newEngine(t), holdPolls(&h))
	a := p.active(t, "gpu-1")
	<-h.held
	polled := a.poll("wait_seconds=55")
	<-h.held
	start := time.Now()
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	(<-polled).want(http.StatusNoContent, "")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if r := a.get(agentwire.PathWait, ""); r.err == nil {
		t.Error("somebody still answers")
	}
}

func TestAPollThatEndsEarlyLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	var h holding
	p := newPlane(t, newEngine(t), holdPolls(&h))
	a := p.active(t, "gpu-1")
	<-h.held
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan reply, 1)
	go func() { gone <- a.sendIn(ctx, http.MethodGet, agentwire.PathWait, "", nil) }()
	<-h.held
	leave()
	if r := <-gone; r.err == nil {
		t.Fatal("answered")
	}
	task := p.enqueue(t, a.node, agentwire.TypeHeartbeatCheck, nil)
	var e agentwire.Envelope
	a.get(agentwire.PathWait, "").want(http.StatusOK, "").into(&e)
	if e.TaskID != task.ID.String() || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
}

// later holds the answers of the queue back.
type later struct {
	agentgateway.Tasks
	claimed, release chan struct{}
}

func (l *later) Wait(ctx context.Context, n id.Node, generation int64, hold time.Duration) (*agentwire.Envelope,
	error,
) {
	e, err := l.Tasks.Wait(ctx, n, generation, hold)
	if e != nil {
		l.claimed <- struct{}{}
		<-l.release
	}
	return e, err
}

func TestARevokedNodeGetsNoTaskOnAPollThatIsHeld(t *testing.T) {
	t.Parallel()
	var l later
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) {
		l.Tasks, l.claimed, l.release = c.Tasks, make(chan struct{}), make(chan struct{})
		c.Tasks = &l
	})
	a := p.active(t, "gpu-1")
	task := p.enqueue(t, a.node, agentwire.TypeHeartbeatCheck, nil)
	polled := a.poll("wait_seconds=50")
	<-l.claimed
	if err := p.nodes.RevokeIdentity(p.ctx, a.node, "stolen"); err != nil {
		t.Fatal(err)
	}
	p.pass(2 * time.Second) // longer than a decision holds
	close(l.release)
	(<-polled).want(http.StatusUnauthorized, agentwire.CodeCertificateRevoked)
	if now, err := agenttask.Get(p.ctx, p.db, task.ID); err != nil || now.Status != agenttask.Queued || now.Attempt != 0 {
		t.Errorf("the task is %+v %v", now, err)
	}
}

// The poll of a process that died with its machine is still held, by this
// replica or another, when the machine is back.
func TestAPollOfADeadAgentDoesNotLockTheLiveOneOut(t *testing.T) {
	t.Parallel()
	var l later
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) {
		l.Tasks, l.claimed, l.release = c.Tasks, make(chan struct{}, 2), make(chan struct{})
		c.Tasks = &l
	})
	dead := p.active(t, "gpu-1")
	alive := *dead
	alive.session = "session-2"
	task := p.enqueue(t, dead.node, agentwire.TypeHeartbeatCheck, nil) // one attempt only
	held := dead.poll("wait_seconds=50")
	<-l.claimed
	// the identity is that of the new process
	alive.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	polled := alive.poll("wait_seconds=50")
	p.pass(2 * time.Second) // longer than a decision holds
	close(l.release)
	(<-held).want(http.StatusNoContent, "")
	var e agentwire.Envelope
	(<-polled).want(http.StatusOK, "").into(&e)
	if e.TaskID != task.ID.String() || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	alive.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	if n, err := p.nodes.Node(p.ctx, dead.node); err != nil || n.HoldReason != "" {
		t.Errorf("the node is held: %q %v", n.HoldReason, err)
	}
	var told int
	if err := p.db.QueryRow(p.ctx, `SELECT count(*) FROM node_events WHERE kind = 'identity_conflict'`).
		Scan(&told); err != nil || told != 0 {
		t.Errorf("%d conflicts %v", told, err)
	}
}

// noting counts what is written about verifiers.
type noting struct {
	agentgateway.Nodes
	noted atomic.Int32
}

func (n *noting) AcceptedVerifiers(ctx context.Context, node id.Node, version int64) error {
	n.noted.Add(1)
	return n.Nodes.AcceptedVerifiers(ctx, node, version)
}

func TestAPollTellsOfNewVerifiers(t *testing.T) {
	t.Parallel()
	var nodes noting
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) {
		nodes.Nodes = c.Nodes
		c.Nodes = &nodes
	})
	a := p.active(t, "gpu-1")
	poll := func(version string) reply {
		return a.send(http.MethodGet, agentwire.PathWait, "wait_seconds=1", nil, agentwire.HeaderVerifierVersion, version)
	}
	for i, c := range []struct {
		header string
		want   int64
		noted  int32
	}{{"", 0, 0}, {"0", 0, 0}, {"7", 7, 1}, {"7", 7, 1}, {"8", 8, 2}} {
		poll(c.header).want(http.StatusNoContent, "")
		n, err := p.nodes.Node(p.ctx, a.node)
		if err != nil || n.VerifierVersion != c.want || nodes.noted.Load() != c.noted {
			t.Errorf("poll %d: version %d, noted %d times, %v", i, n.VerifierVersion, nodes.noted.Load(), err)
		}
	}
	for _, bad := range []string{"x", "-1", "9223372036854775808"} {
		poll(bad).want(http.StatusBadRequest, "invalid_request")
	}
}

// What an agent says of itself is a header: a control plane of before passes over it.
func TestACallTellsHowItsAgentIs(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	poll := func(vitals string) reply {
		return a.send(http.MethodGet, agentwire.PathWait, "wait_seconds=1", nil, agentwire.HeaderVitals, vitals)
	}
	poll("memory=1048576;uptime=60;later=1").want(http.StatusNoContent, "")
	if err := p.nodes.Contacts().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := p.nodes.Node(p.ctx, a.node)
	if err != nil || n.AgentMemory == nil || *n.AgentMemory != 1<<20 || n.AgentStartedAt == nil {
		t.Errorf("%v, %v, %v", n.AgentMemory, n.AgentStartedAt, err)
	}
	poll("memory=much").want(http.StatusBadRequest, "invalid_request")
}

func TestAnIdlePollCostsTwoQueries(t *testing.T) {
	reader := sdk.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	const polls = 5
	start := queries(t, reader)
	for range polls {
		a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	}
	if n := queries(t, reader) - start; n == 0 || n > 2*polls {
		t.Errorf("%d polls that found nothing cost %d queries", polls, n)
	}
}

func queries(t *testing.T, reader *sdk.ManualReader) (n uint64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			h, ok := m.Data.(metricdata.Histogram[float64])
			if !ok || m.Name != "db.client.operation.duration" {
				continue
			}
			for _, point := range h.DataPoints {
				for _, kv := range point.Attributes.ToSlice() {
					if kv.Value.AsString() == "query" && strings.HasPrefix(string(kv.Key), "pgx.") {
						n += point.Count
					}
				}
			}
		}
	}
	return n
}
