package agentrun_test

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/agentrun"
)

func upgrade() agentrun.Order {
	return agentrun.Order{Mode: node.ByRebootstrap, Scenario: agentrun.InPlaceUpgrade, Target: target}
}

// Each row of the lifecycle is sound.
func TestLifecycleTable(t *testing.T) {
	for _, err := range agentrun.Lifecycle.Validate() {
		t.Error(err)
	}
}

func (w *world) terminal() {
	w.t.Helper()
	w.exec(`INSERT INTO terminal_sessions (id, node_id, username, token_hash, token_expires_at, requested_by,
		requester_kind, requester_name, window_columns, window_rows, correlation_id)
		VALUES ($1, $2, 'op', sha256('x'), clock_timestamp() + interval '1 hour', 'op', 'user', 'op', 80, 24, 'c')`,
		id.New[id.Node](), w.node)
}

func (w *world) closes() {
	w.t.Helper()
	w.exec(`UPDATE terminal_sessions SET status = 'closed', closed_at = clock_timestamp()`)
}

func TestABusyNodeIsWaitedForAndNotForEver(t *testing.T) {
	w := newWorld(t)
	w.terminal()
	b := w.begin(upgrade())
	if r := w.stands(w.look(b.ID), agentrun.Waiting); !strings.Contains(r.Detail, "terminal") ||
		r.Next().Action != agentrun.WaitUntilIdle {
		t.Errorf("%q %+v", r.Detail, r.Next())
	}
	w.more += 25 * time.Hour
	if r := w.stands(w.look(b.ID), agentrun.Parked); r.Why.Code != "agent_run_never_idle" {
		t.Errorf("%+v", r.Why)
	}
	w.closes()
	if _, err := w.service.Retry(w.ctx, b.Run, "it is idle now"); err != nil {
		t.Fatal(err)
	}
	w.heard()
	w.stands(w.look(b.ID), agentrun.Delivering)
}

func TestAManualInstallShowsItsCommandWhenTheNodeIsIdle(t *testing.T) {
	w := newWorld(t)
	w.terminal()
	b := w.begin(agentrun.Order{Mode: node.ByManualInstall, Scenario: agentrun.RepairReinstall})
	if b.Bootstrap != nil || b.Status != agentrun.Waiting {
		t.Errorf("%s, and a command for a busy node: %v", b.Status, b.Bootstrap != nil)
	}
	w.closes()
	if r := w.stands(w.look(b.ID), agentrun.AwaitingOperator); r.Next().Command != "gpuaas node bootstrap n1 --recovery" {
		t.Errorf("%+v", r.Next())
	}
}

func TestADrainedNodeGetsNothingNewUntilTheEnd(t *testing.T) {
	w := newWorld(t)
	held := func() bool {
		return w.count(`SELECT count(*) FROM nodes WHERE id = $1 AND NOT schedulable AND hold_reason LIKE '%agent%'`, w.node) == 1
	}
	o := upgrade()
	o.Safety = agentrun.AfterDrain
	b := w.begin(o)
	if !held() {
		t.Error("new work may be placed on it")
	}
	w.stands(w.look(b.ID), agentrun.Delivering)
	w.works("")
	w.stands(w.look(b.ID), agentrun.Verifying)
	w.heard()
	w.stands(w.look(b.ID), agentrun.Succeeded)
	if held() {
		t.Error("it is held after the run")
	}
	again := w.begin(o)
	if _, err := w.service.Cancel(w.ctx, again.Run, "not now"); err != nil || held() {
		t.Errorf("%v, held %v after it was cancelled", err, held())
	}
}

func TestAForcedRunDoesNotWait(t *testing.T) {
	w := newWorld(t)
	w.terminal()
	o := upgrade()
	o.Safety = agentrun.Force
	w.stands(w.look(w.begin(o).ID), agentrun.Delivering)
}

// What goes wrong parks the run with a code and with what to do; it never fails for good.
func TestWhatGoesWrongParksTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		order agentrun.Order
		goes  func(w *world, of id.AgentRun)
		code  string
	}{
		"the update fails": {upgrade(), func(w *world, of id.AgentRun) {
			w.look(of)
			w.works("update_rolled_back")
		}, "update_rolled_back"},
		"the agent never answers": {upgrade(), func(w *world, of id.AgentRun) {
			w.look(of)
			w.more += 2 * time.Hour
		}, "agent_run_task_late"},
		"it reports another version": {upgrade(), func(w *world, of id.AgentRun) {
			w.look(of)
			w.works("")
			w.look(of)
			w.change(`reported_agent_version = '6.6.6'`)
			w.more += time.Hour
			w.heard()
		}, "agent_run_unproven"},
		"the version is withdrawn": {upgrade(), func(w *world, _ id.AgentRun) {
			w.refused = fault.New(fault.Conflict, "agent_release_withdrawn", "it was withdrawn").WithRemedy("choose another")
		}, "agent_release_withdrawn"},
		"nobody acts": {
			agentrun.Order{Mode: node.ByManualInstall, Scenario: agentrun.CertificateRepair},
			func(w *world, _ id.AgentRun) { w.more += 8 * 24 * time.Hour }, "agent_run_nobody_acted",
		},
		"the decommission is refused": {
			agentrun.Order{Mode: node.ByReimage, Scenario: agentrun.RepairReinstall},
			func(w *world, _ id.AgentRun) {
				w.reinstall = fault.New(fault.Conflict, "node_not_managed", "it has no machine").WithRemedy("bind it")
			}, "node_not_managed",
		},
		"the decommission is cancelled": {
			agentrun.Order{Mode: node.ByReimage, Scenario: agentrun.RepairReinstall},
			func(w *world, of id.AgentRun) {
				w.look(of)
				w.exec(`UPDATE jobs SET status = 'cancelled', phase = 'over', completed_at = clock_timestamp()`)
			}, "agent_run_reimage_ended",
		},
		"the node leaves": {upgrade(), func(w *world, _ id.AgentRun) {
			w.change(`status = 'retired', schedulable = false`)
		}, "agent_run_node_left"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.begin(c.order)
			c.goes(w, b.ID)
			r := w.stands(w.look(b.ID), agentrun.Parked)
			if r.Why.Code != c.code || r.Why.Message == "" || r.Why.Remedy == "" || r.Next().Action != agentrun.RetryOrCancel {
				t.Errorf("%+v", r.Why)
			}
			if again := w.look(b.ID); again.Version != r.Version {
				t.Error("a parked run changes by itself")
			}
			if n := w.count(`SELECT count(*) FROM audit_logs WHERE action = 'agent_run.parked' AND result = 'failure'`); n != 1 {
				t.Errorf("%d entries in the audit log", n)
			}
			if _, err := w.service.Cancel(w.ctx, r, "enough"); err != nil {
				t.Error(err)
			}
			w.stands(w.get(b.ID), agentrun.Cancelled)
		})
	}
}

func TestWhatCannotBeginIsRefused(t *testing.T) {
	w := newWorld(t)
	w.refuses(agentrun.Order{Mode: node.ByRebootstrap, Scenario: agentrun.InPlaceUpgrade}, "agent_run_version_required")
	w.refuses(agentrun.Order{Mode: node.ByRebootstrap, Scenario: agentrun.DriftReconcile}, "agent_run_nothing_to_do")
	w.refuses(agentrun.Order{Mode: "by mail", Scenario: agentrun.DriftReconcile}, "agent_run_invalid")
	w.refused = fault.New(fault.NotFound, "agent_package_missing", "there is no such version")
	w.refuses(upgrade(), "agent_package_missing")
	w.refused = nil
	w.begin(upgrade())
	w.refuses(upgrade(), "agent_run_exists")
	w = newWorld(t)
	w.change(`status = 'retired', schedulable = false`)
	w.refuses(upgrade(), "agent_run_node_left")
	w = newWorld(t)
	w.change(`status = 'quarantined', schedulable = false`)
	w.refuses(upgrade(), "agent_run_node_quarantined")
	w = newWorld(t)
	w.ctx = auth.With(w.ctx, &auth.Principal{Kind: auth.KindUser, ID: "a", Name: "Ada", Platform: auth.Auditor})
	w.refuses(agentrun.Order{Mode: node.ByReimage, Scenario: agentrun.RepairReinstall}, "insufficient_permissions")
}

// An agent that is told to install what it runs finds nothing to do, so somebody must.
func TestTheSameVersionIsInstalledByHand(t *testing.T) {
	w := newWorld(t)
	b := w.begin(agentrun.Order{Mode: node.ByRebootstrap, Scenario: agentrun.RepairReinstall})
	if next := w.stands(b.Run, agentrun.AwaitingOperator).Next(); !strings.Contains(next.Text, "does not install again") {
		t.Errorf("%+v", next)
	}
	w.enrols(before)
	w.stands(w.look(b.ID), agentrun.Verifying)
	w.heard()
	w.stands(w.look(b.ID), agentrun.Succeeded)
}

// A second reinstallation begins only after one that ended otherwise than completed, and by
// nobody who could not begin it.
func TestARetryReinstallsNoMachineTwice(t *testing.T) {
	w := newWorld(t)
	b := w.begin(agentrun.Order{Mode: node.ByReimage, Scenario: agentrun.DriftReconcile, Target: target})
	w.look(b.ID)
	r := w.get(b.ID)
	w.exec(`UPDATE jobs SET status = 'completed', phase = 'over', completed_at = clock_timestamp() WHERE id = $1`, r.Reinstalls)
	w.more += 48 * time.Hour
	w.stands(w.look(b.ID), agentrun.Parked) // nobody came back
	clerk := auth.With(w.ctx, &auth.Principal{Kind: auth.KindUser, ID: "a", Name: "Ada", Platform: auth.Auditor})
	if _, err := w.service.Retry(clerk, r, "again"); fault.CodeOf(err) != "insufficient_permissions" {
		t.Errorf("somebody without the right retries: %v", err)
	}
	if _, err := w.service.Retry(w.ctx, r, "again"); err != nil {
		t.Fatal(err)
	}
	w.stands(w.look(b.ID), agentrun.Reimaging)
	w.look(b.ID)
	if len(w.reinstalls) != 1 {
		t.Errorf("%d decommissions", len(w.reinstalls))
	}
	w.exec(`UPDATE jobs SET status = 'cancelled' WHERE id = $1`, r.Reinstalls)
	w.stands(w.look(b.ID), agentrun.Parked)
	if _, err := w.service.Retry(w.ctx, r, "again"); err != nil {
		t.Fatal(err)
	}
	w.reinstalls = nil
	w.stands(w.look(b.ID), agentrun.Waiting)
	w.stands(w.look(b.ID), agentrun.Reimaging)
	if len(w.reinstalls) != 1 {
		t.Errorf("%d decommissions after one that was cancelled", len(w.reinstalls))
	}
}

// Whoever acts on the machine late finds the run waiting until the node is idle again, and a
// node that is never well parks it.
func TestWhatCameBackIsNotTouchedWhileItIsBusy(t *testing.T) {
	w := newWorld(t)
	b := w.begin(agentrun.Order{Mode: node.ByManualInstall, Scenario: agentrun.InPlaceUpgrade, Target: target})
	w.terminal()
	if r := w.stands(w.look(b.ID), agentrun.AwaitingOperator); !strings.Contains(r.Next().Text, "terminal") {
		t.Errorf("%+v", r.Next())
	}
	w.enrols(before)
	w.stands(w.look(b.ID), agentrun.AwaitingOperator)
	w.closes()
	w.stands(w.look(b.ID), agentrun.Delivering)
	w = newWorld(t)
	b = w.begin(agentrun.Order{Mode: node.ByManualInstall, Scenario: agentrun.InPlaceUpgrade, Target: target})
	w.enrols(before)
	w.change(`status = 'quarantined', schedulable = false`)
	w.stands(w.look(b.ID), agentrun.AwaitingOperator)
	w.more += 8 * 24 * time.Hour
	if r := w.stands(w.look(b.ID), agentrun.Parked); r.Why.Code != "agent_run_unproven" {
		t.Errorf("%+v", r.Why)
	}
}

// A request that is refused voids no token that somebody has.
func TestARefusedRequestVoidsNoToken(t *testing.T) {
	w := newWorld(t)
	w.begin(agentrun.Order{Mode: node.ByManualInstall, Scenario: agentrun.CertificateRepair})
	live := func() int {
		return w.count(`SELECT count(*) FROM node_tokens WHERE consumed_at IS NULL AND revoked_at IS NULL`)
	}
	had := live()
	w.refuses(agentrun.Order{Mode: node.ByManualInstall, Scenario: agentrun.CertificateRepair}, "agent_run_exists")
	if had != 1 || live() != 1 || w.count(`SELECT count(*) FROM node_tokens`) != 1 {
		t.Errorf("%d tokens before, %d after", had, live())
	}
}

// A run and a rollout never have a node at the same time.
func TestANodeInARolloutIsRefused(t *testing.T) {
	w := newWorld(t)
	rollout := id.New[id.Rollout]()
	w.exec(`INSERT INTO agent_releases (version, commit, architecture, digest, size, notes, minimum_control_plane, protocol_min,
		protocol_max, programs, key_id, signature, added_by) VALUES ($1, '0123456789ab', 'amd64', $2, 1, '', '', 1, 1, '{}', 'k',
		'', 'op')`, target, strings.Repeat("a", 64))
	w.exec(`INSERT INTO agent_rollouts (id, version, target, plan, waves, reason, requested_by)
		VALUES ($1, $2, '{}', '{}', 1, 'x', 'op')`, rollout, target)
	w.exec(`INSERT INTO agent_rollout_targets (rollout_id, node_id, hostname, kind, wave, status)
		VALUES ($1, $2, 'n1', 'k', 0, 'baking')`, rollout, w.node)
	w.refuses(upgrade(), "agent_run_in_rollout")
}

// A token is shown to who asked, and is in no row that the run leaves behind.
func TestNoTokenStaysBehind(t *testing.T) {
	w := newWorld(t)
	b := w.begin(agentrun.Order{Mode: node.ByRebootstrap, Scenario: agentrun.CertificateRepair})
	token := b.Bootstrap.Token
	if token == "" || !strings.Contains(b.Bootstrap.Command, token) {
		t.Fatal("nobody is shown a token")
	}
	w.look(b.ID)
	for _, table := range []string{"agent_runs", "audit_logs", "outbox_events", "nodes", "node_tokens", "node_events"} {
		if n := w.count(`SELECT count(*) FROM ` + table + ` t WHERE t::text LIKE '%` + token + `%'`); n != 0 {
			t.Errorf("%d rows of %s hold it", n, table)
		}
	}
}

func TestTheWorkflowFollowsARunToItsEnd(t *testing.T) {
	w := newWorld(t)
	b := w.begin(upgrade())
	if _, err := w.service.Cancel(w.ctx, b.Run, "enough"); err != nil {
		t.Fatal(err)
	}
	env := durabletest.New(t, func(to worker.Registry) { w.service.RegisterWorker(to) })
	env.ExecuteWorkflow(agentrun.Drive, agentrun.Input{ID: b.ID})
	if err := env.GetWorkflowError(); err != nil || !env.IsWorkflowCompleted() {
		t.Errorf("the workflow ended with %v", err)
	}
}
