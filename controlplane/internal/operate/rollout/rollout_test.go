package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/rollout"
)

const (
	before  = "1.0.0"
	version = "1.1.0"
	bake    = 300 * time.Second
)

// world is a fleet with agents that take a version well or badly.
type world struct {
	t         *testing.T
	db, owner *postgres.DB
	service   *rollout.Service
	queue     *agenttask.Queue
	more      time.Duration // by which the clock is ahead
	ctx       context.Context
	nodes     []id.Node
	// takes says how the agent of a node takes the version; empty: well.
	takes map[id.Node]string
	// hung are agents that took the version, said so, and say nothing any more.
	hung map[id.Node]bool
	// took are agents that run the version.
	took map[id.Node]bool
	// memory and started are what agents say of themselves before; nil: nothing.
	memory  *int64
	started *time.Time
	// most is how many nodes were seen in flight at once, and on their way back.
	most, mostBack int
	// refused are versions that no node may be given.
	refused map[string]error
}

func (w *world) now() time.Time { return time.Now().Add(w.more) }

type unsigned struct{}

func (unsigned) SignEnvelope(context.Context, *agentwire.Envelope) error { return nil }

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	w := &world{
		t: t, takes: map[id.Node]string{}, hung: map[id.Node]bool{}, refused: map[string]error{}, took: map[id.Node]bool{},
	}
	memory, started := int64(40<<20), time.Now().Add(-time.Hour)
	w.memory, w.started = &memory, &started
	w.db, w.owner = postgrestest.NewWithOwner(t)
	w.queue = agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: unsigned{}, Clock: w.now})
	w.ctx = auth.With(telemetry.WithCorrelation(t.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: "op", Name: "op", Platform: auth.PlatformAdmin,
	})
	w.restart()
	w.exec(`INSERT INTO agent_releases (version, commit, architecture, digest, size, notes, minimum_control_plane, protocol_min,
		protocol_max, programs, key_id, signature, added_by) VALUES ($1, '0123456789ab', 'amd64', $2, 1, '', '', 1, 1, '{}', 'k',
		'', 'op')`, version, strings.Repeat("a", 64))
	for i := range nodes {
		w.nodes = append(w.nodes, w.node(i))
	}
	w.work() // all are heard
	return w
}

// restart is a control plane that knows nothing but its rows.
func (w *world) restart() {
	w.service = rollout.New(rollout.Config{
		DB: w.db, Tasks: agenttask.Commands{DB: w.db, Clock: w.now}, Clock: w.now,
		Prepare: func(context.Context, id.Node, json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(agentwire.SelfUpdateParams{
				Action: "update", Version: version, Digest: "sha256:" + strings.Repeat("a", 64), SizeBytes: 1, SignerVersion: "s",
				Signature: []byte("x"),
			})
		},
		Giveable: func(_ context.Context, v string) error { return w.refused[v] },
		Released: func(_ context.Context, v string) error {
			if v != version {
				return fault.New(fault.NotFound, "agent_release_not_found", "there is no release %s", v)
			}
			return nil
		},
	})
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.owner.Exec(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

// node adds a node; every tenth is of another SKU.
func (w *world) node(i int) id.Node {
	w.t.Helper()
	n := id.New[id.Node]()
	w.exec(`INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable,
		agent_channel, reported_agent_version, reported_agent_commit, certificate_not_after)
		SELECT $1, 'active', $2, '192.0.2.1', (SELECT id FROM skus ORDER BY id OFFSET $3 LIMIT 1), 8, 'eu', 'manual', true,
		'stable', $4, 'abc', clock_timestamp() + interval '1 year'`, n, fmt.Sprintf("n%03d", i), min(i%10/9, 1), before)
	return n
}

func (w *world) begin(plan rollout.Plan) rollout.Rollout {
	w.t.Helper()
	r, err := w.service.Begin(w.ctx, rollout.Order{Version: version, Plan: plan, Reason: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// work lets agents do what they were told, each in its way.
func (w *world) work() {
	w.t.Helper()
	silent := slices.AppendSeq([]id.Node{}, maps.Keys(w.hung))
	for _, n := range w.nodes {
		if w.hung[n] {
			continue
		}
		e, err := w.queue.Wait(w.ctx, n, 1, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if e == nil {
			continue
		}
		var p agentwire.SelfUpdateParams
		if err := json.Unmarshal(e.Params, &p); err != nil {
			w.t.Fatal(err)
		}
		w.take(n, e, p.Action)
	}
	w.exec(`INSERT INTO node_contacts (node_id, last_contact_at, agent_memory, agent_started_at)
		SELECT id, $1, $3, $4 FROM nodes WHERE id <> ALL($2)
		ON CONFLICT (node_id) DO UPDATE SET last_contact_at = excluded.last_contact_at`, w.now(), silent, w.memory, w.started)
	w.live()
}

func (w *world) take(n id.Node, e *agentwire.Envelope, action string) {
	w.t.Helper()
	says, result := version, agentwire.ResultRequest{
		Attempt: e.Attempt, Status: agentwire.ResultSucceeded, StartedAt: w.now(), FinishedAt: w.now(),
		Output: json.RawMessage(`{"from":"a","to":"b","rolled_back":false}`),
	}
	switch {
	case action == "rollback":
		says = before
	case w.takes[n] == "crash":
		says, result.Status, result.Output = before, agentwire.ResultFailed, nil
		result.Error = &agentwire.TaskError{Code: "update_rolled_back", Message: "it crashed three times"}
	case w.takes[n] == "silent":
		return
	case w.takes[n] == "hangs":
		w.hung[n] = true
	case w.takes[n] == "wrong version":
		says = "6.6.6"
	}
	w.exec(`UPDATE nodes SET reported_agent_version = $2 WHERE id = $1`, n, says)
	w.took[n] = says == version
	if w.takes[n] != "cannot renew" && says == version {
		w.renew(n)
	}
	if w.takes[n] == "no certificate" && action != "rollback" {
		w.exec(`UPDATE nodes SET certificate_not_after = clock_timestamp() WHERE id = $1`, n)
	}
	task, err := id.Parse[id.NodeTask](e.TaskID)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.queue.Result(w.ctx, n, task, result); err != nil {
		w.t.Fatal(err)
	}
}

// run drives a rollout until it is over, or waits for somebody. With kill, the control
// plane forgets everything between two looks.
func (w *world) run(of id.Rollout, kill bool) rollout.Rollout {
	w.t.Helper()
	for range 500 {
		if kill {
			w.restart()
		}
		if _, _, err := w.service.Drive(w.ctx, of); err != nil {
			w.t.Fatal(err)
		}
		var flying, back int
		if err := w.owner.QueryRow(w.ctx, `SELECT count(*) FILTER (WHERE status = 'updating'),
			count(*) FILTER (WHERE status = 'returning' AND deadline_at IS NOT NULL)
			FROM agent_rollout_targets WHERE rollout_id = $1`, of).Scan(&flying, &back); err != nil {
			w.t.Fatal(err)
		}
		w.most, w.mostBack = max(w.most, flying), max(w.mostBack, back)
		w.work()
		r, err := w.service.Get(w.ctx, of)
		if err != nil {
			w.t.Fatal(err)
		}
		live := slices.ContainsFunc(r.Counts, func(c rollout.Count) bool {
			return slices.Contains([]rollout.Outcome{rollout.Updating, rollout.Baking, rollout.GoingBack}, c.Outcome)
		})
		if r.Status.Over() || r.Status == rollout.Paused && !live {
			return r
		}
		w.more += bake / 2
	}
	w.t.Fatal("the rollout comes to no end")
	return rollout.Rollout{}
}

// with counts nodes that report a version.
func (w *world) with(v string) (n int) {
	w.t.Helper()
	if err := w.owner.QueryRow(w.ctx, `SELECT count(*) FROM nodes WHERE reported_agent_version = $1`, v).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) members(of id.Rollout) []rollout.Member {
	w.t.Helper()
	all, err := w.service.Members(w.ctx, of, "", postgres.Slice[id.Node]{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) outcomes(of id.Rollout) map[rollout.Outcome]int {
	w.t.Helper()
	out := map[rollout.Outcome]int{}
	for _, m := range w.members(of) {
		out[m.Outcome]++
	}
	return out
}

func TestAGoodVersionGetsEverywhereThoughEverythingIsKilled(t *testing.T) {
	w := newWorld(t, 20)
	r := w.begin(rollout.Plan{Canaries: 3, Parallel: 4})
	kinds := map[string]bool{}
	for _, m := range w.members(r.ID) {
		if m.Wave != nil && *m.Wave == 0 {
			kinds[m.Kind] = true
		}
	}
	if len(kinds) != 2 {
		t.Errorf("the canaries are of %d kinds of 2", len(kinds))
	}
	r = w.run(r.ID, true)
	if r.Status != rollout.Completed || w.with(version) != 20 || w.most > 4 {
		t.Errorf("%s %q, %d nodes have the version, %d were updated at once", r.Status, r.PausedBecause, w.with(version),
			w.most)
	}
	for _, m := range w.members(r.ID) {
		if m.Outcome != rollout.Verified || m.From != before {
			t.Errorf("%+v", m)
		}
	}
}

func TestEachBadVersionIsCaughtByTheCanariesAndTakenBack(t *testing.T) {
	for _, bad := range []string{
		"crash", "silent", "wrong version", "no certificate", "cannot renew", "leaks", "starts again",
	} {
		t.Run(bad, func(t *testing.T) {
			w := newWorld(t, 12)
			for _, n := range w.nodes {
				w.takes[n] = bad
			}
			r := w.run(w.begin(rollout.Plan{Canaries: 2}).ID, true)
			if r.Status != rollout.Paused || r.PausedCode != "too_many_failures" || !strings.Contains(r.PausedBecause, "n0") {
				t.Fatalf("%s %s %q", r.Status, r.PausedCode, r.PausedBecause)
			}
			if w.with(before) != 12 {
				t.Errorf("%d of 12 nodes are back", w.with(before))
			}
			for _, m := range w.members(r.ID) {
				if *m.Wave > 0 && m.Outcome != rollout.Pending {
					t.Errorf("a node that is no canary: %+v", m)
				}
			}
			r, err := w.service.Abort(w.ctx, r.ID, true, "bad")
			if err != nil {
				t.Fatal(err)
			}
			if r = w.run(r.ID, false); r.Status != rollout.Aborted {
				t.Errorf("it is %s", r.Status)
			}
		})
	}
}

// An agent that reports and then hangs has proven nothing.
func TestAVersionThatHangsAfterItsReportIsCaught(t *testing.T) {
	w := newWorld(t, 6)
	for _, n := range w.nodes {
		w.takes[n] = "hangs"
	}
	r := w.run(w.begin(rollout.Plan{Canaries: 2}).ID, false)
	if r.PausedCode != "too_many_failures" || !strings.Contains(r.PausedBecause, "not reporting") || w.with(version) != 2 {
		t.Errorf("%s %q, %d nodes have the version", r.Status, r.PausedBecause, w.with(version))
	}
}

// Canaries that cannot be reached prove nothing: somebody must say that it goes on.
func TestWavesDoNotBeginBeforeACanaryHasProvenTheVersion(t *testing.T) {
	w := newWorld(t, 6)
	for _, n := range w.nodes[2:] {
		w.exec(`UPDATE nodes SET status = 'offline', schedulable = false WHERE id = $1`, n)
	}
	r := w.begin(rollout.Plan{Canaries: 2})
	for _, m := range w.members(r.ID) {
		if canary := m.Wave != nil && *m.Wave == 0; canary != slices.Contains(w.nodes[:2], m.Node) {
			t.Errorf("%s, canary %v: nodes that are there come first", m.Hostname, canary)
		}
	}
	w.exec(`UPDATE nodes SET status = 'draining', schedulable = false WHERE id = ANY($1)`, w.nodes[:2])
	if r = w.run(r.ID, false); r.PausedCode != "awaits_approval" || !strings.Contains(r.PausedBecause, "no canary") {
		t.Fatalf("%s %s %q", r.Status, r.PausedCode, r.PausedBecause)
	}
	if _, err := w.service.Approve(w.ctx, r.ID, "it is known to be good"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.Status != rollout.Completed {
		t.Errorf("%s %q", r.Status, r.PausedBecause)
	}
}

// Nobody forgives a failure by resuming who has not read of it.
func TestAFailureDuringAPausePausesAgain(t *testing.T) {
	w := newWorld(t, 6)
	w.takes[w.nodes[0]] = "crash"
	r := w.begin(rollout.Plan{Canaries: 1})
	if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Pause(w.ctx, r.ID, "wait"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.PausedCode != "paused_by_operator" {
		t.Fatalf("%s %q", r.Status, r.PausedCode)
	}
	if _, err := w.service.Resume(w.ctx, r.ID, "go"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.PausedCode != "too_many_failures" || w.with(version) != 0 {
		t.Errorf("%s %q, %d nodes have the version", r.Status, r.PausedBecause, w.with(version))
	}
}

// What breaks one kind of hardware only is caught all the same, because each kind has a
// canary; and an aborted rollout frees its nodes for the next one.
func TestABadWaveGoesBackAndTheNextRolloutHasItsNodes(t *testing.T) {
	w := newWorld(t, 12)
	w.takes[w.nodes[9]] = "crash" // the one of the other SKU
	r := w.run(w.begin(rollout.Plan{Canaries: 2}).ID, false)
	if r.Status != rollout.Paused || w.with(version) != 0 {
		t.Fatalf("%s, %d nodes kept the version", r.Status, w.with(version))
	}
	busy := func(of id.Rollout) (n int) {
		for _, m := range w.members(of) {
			if m.Outcome == rollout.Excluded && strings.HasPrefix(m.Detail, "rollout ") {
				n++
			}
		}
		return n
	}
	second := w.begin(rollout.Plan{Canaries: 2})
	if n := busy(second.ID); n != 10 {
		t.Errorf("the second one leaves %d nodes to the first, not 10", n)
	}
	for _, of := range []id.Rollout{r.ID, second.ID} {
		if _, err := w.service.Abort(w.ctx, of, false, "enough"); err != nil {
			t.Fatal(err)
		}
		if r = w.run(of, false); r.Status != rollout.Aborted {
			t.Errorf("it is %s", r.Status)
		}
	}
	if third := w.begin(rollout.Plan{}); busy(third.ID) != 0 {
		t.Errorf("the third one leaves %d nodes to others", busy(third.ID))
	}
}

func TestNodesAreLeftAloneForAReason(t *testing.T) {
	w := newWorld(t, 8)
	for i, change := range []string{
		"agent_channel = 'pinned'", "agent_channel = 'unassigned'", "status = 'quarantined', schedulable = false",
		"reported_agent_version = '1.1.0'", "desired_agent_version = '1.0.0'", "reported_agent_version = ''",
		"status = 'offline', schedulable = false",
	} {
		w.exec(`UPDATE nodes SET `+change+` WHERE id = $1`, w.nodes[i])
	}
	preview, members, err := w.service.Preview(w.ctx, rollout.Order{Version: version, Reason: "look"})
	if err != nil || len(members) != 8 || preview.Waves != 2 {
		t.Fatalf("%+v, %d nodes, %v", preview, len(members), err)
	}
	r := w.run(w.begin(rollout.Plan{Canaries: 2}).ID, false)
	if r.Status != rollout.Completed || w.with(version) != 2 {
		t.Errorf("%s, %d nodes have it", r.Status, w.with(version))
	}
	got := map[rollout.Outcome]int{}
	for _, m := range w.members(r.ID) {
		got[m.Outcome]++
		if m.Outcome == rollout.Excluded && m.Detail == "" {
			t.Errorf("%s is left alone without a reason", m.Hostname)
		}
	}
	if got[rollout.Excluded] != 6 || got[rollout.Verified] != 1 || got[rollout.SkippedOffline] != 1 {
		t.Errorf("outcomes %v", got)
	}
	for _, o := range []struct {
		order rollout.Order
		code  string
	}{
		{rollout.Order{Version: version, Target: rollout.Target{Region: "nowhere"}, Reason: "x"}, "agent_rollout_no_nodes"},
		{rollout.Order{Version: "9.9.9", Reason: "x"}, "agent_release_not_found"},
	} {
		if _, err := w.service.Begin(w.ctx, o.order); fault.CodeOf(err) != o.code {
			t.Errorf("%+v: %v", o.order, err)
		}
	}
}

func TestSomebodyApprovesPausesAndResumes(t *testing.T) {
	w := newWorld(t, 6)
	r := w.run(w.begin(rollout.Plan{Canaries: 2, WavePercent: 100, Approve: true}).ID, false)
	if r.PausedCode != "awaits_approval" || w.with(version) != 2 {
		t.Fatalf("%s %q, %d nodes", r.Status, r.PausedBecause, w.with(version))
	}
	if _, err := w.service.Resume(w.ctx, r.ID, "x"); fault.CodeOf(err) != "agent_rollout_wrong_status" {
		t.Errorf("resumed instead of approved: %v", err)
	}
	if _, err := w.service.Approve(w.ctx, r.ID, "fine"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Pause(w.ctx, r.ID, "wait"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.PausedCode != "paused_by_operator" || w.with(version) != 2 {
		t.Errorf("%s %q, %d nodes", r.Status, r.PausedBecause, w.with(version))
	}
	if _, err := w.service.Resume(w.ctx, r.ID, "go"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.Status != rollout.Completed || w.with(version) != 6 {
		t.Errorf("%s %q, %d nodes", r.Status, r.PausedBecause, w.with(version))
	}
}

// The workflow looks until the rollout is over.
func TestTheWorkflowDrivesARolloutToItsEnd(t *testing.T) {
	w := newWorld(t, 1)
	r := w.begin(rollout.Plan{})
	if _, err := w.service.Abort(w.ctx, r.ID, false, "enough"); err != nil {
		t.Fatal(err)
	}
	env := durabletest.New(t, func(to worker.Registry) { w.service.RegisterWorker(to) })
	env.ExecuteWorkflow(rollout.Run, rollout.Input{ID: r.ID})
	if err := env.GetWorkflowError(); err != nil || !env.IsWorkflowCompleted() {
		t.Errorf("the workflow ended with %v", err)
	}
	if after, err := w.service.Get(w.ctx, r.ID); err != nil || after.Status != rollout.Aborted {
		t.Errorf("%s, %v", after.Status, err)
	}
}
