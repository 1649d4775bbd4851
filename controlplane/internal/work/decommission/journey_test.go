package decommission_test

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// journey is how an operation goes when nothing goes wrong.
type journey struct {
	mode     decommission.Mode
	from     node.Status
	managed  bool
	history  string // states that the node passes
	watched  string // how it is at every look
	skipped  []string
	evidence string
	tasks    string
	kind     certificate.Kind // empty: no paper
}

var journeys = []journey{
	{
		mode: decommission.SoftReset, from: node.Active, watched: "active schedulable, active held, active schedulable",
		evidence: "drain, storage_cleanup, gpu_scrub, validate_clean", kind: certificate.HandoverReceipt,
		tasks: "node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain",
	},
	{
		mode: decommission.SoftReset, from: node.Quarantined, watched: "quarantined, quarantined held, quarantined",
		evidence: "drain, storage_cleanup, gpu_scrub, validate_clean, follow_up", kind: certificate.HandoverReceipt,
		tasks: "node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain",
	},
	{
		mode: decommission.Reimage, from: node.Active, managed: true, history: "draining, enrolling, active",
		watched:  "active schedulable, draining held, enrolling held, active held, active schedulable",
		skipped:  []string{decommission.StageStorageAgain, decommission.StageScrubAgain},
		evidence: "drain, storage_cleanup, gpu_scrub, release, not_applicable, not_applicable, validate_clean",
		kind:     certificate.Certificate,
		tasks:    "node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain",
	},
	{
		mode: decommission.Reimage, from: node.Retired, managed: true, history: "active, draining, enrolling, active",
		watched:  "retired, draining held, enrolling held, active held, active schedulable",
		skipped:  []string{decommission.StageStorageAgain, decommission.StageScrubAgain},
		evidence: "drain, storage_cleanup, gpu_scrub, release, not_applicable, not_applicable, validate_clean",
		kind:     certificate.Certificate,
		tasks:    "node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain",
	},
	{
		mode: decommission.FullDecommission, from: node.Active, managed: true,
		history:  "draining, retired, removing, deleted",
		watched:  "active schedulable, draining held, retired held, deleted held",
		skipped:  []string{decommission.StageForceRelease},
		evidence: "not_applicable, drain, release, power_off, not_applicable, secrets", kind: certificate.Certificate,
		tasks: "node.drain",
	},
	{
		mode: decommission.FullDecommission, from: node.Offline, history: "draining, retired, removing, deleted",
		watched: "offline, draining held, retired held, removing held, deleted held",
		skipped: []string{
			decommission.StageForceRelease, bringup.LoadSiteConfig, bringup.ReleaseMAASNode,
			bringup.PowerOffMAASNode, bringup.RemoveMAASRecord,
		},
		evidence: "not_applicable, drain, not_applicable, not_applicable, not_applicable, uninstall, secrets, not_applicable",
		kind:     certificate.Certificate,
		tasks:    "node.drain, node.uninstall",
	},
	{
		mode: decommission.FullDecommission, from: node.Retired, managed: true, history: "removing, deleted",
		watched:  "retired, retired held, deleted held",
		skipped:  []string{decommission.StageForceRelease, decommission.StageDrain},
		evidence: "not_applicable, not_applicable, release, power_off, not_applicable, secrets",
		kind:     certificate.Certificate,
	},
	{
		// tainted, and not proven otherwise
		mode: decommission.StorageCleanup, from: node.Active, watched: "active schedulable, active held, active",
		evidence: "storage_cleanup, validate_clean, follow_up",
		tasks:    "node.storage_cleanup, node.validate_clean, node.drain",
	},
	{
		mode: decommission.Drain, from: node.Active, history: "draining, retired",
		watched: "active schedulable, draining held, retired",
		skipped: []string{decommission.StageForceRelease}, evidence: "not_applicable, drain", tasks: "node.drain",
	},
	{
		mode: decommission.Retire, from: node.Active, history: "draining, retired",
		watched:  "active schedulable, draining held, retired",
		skipped:  []string{decommission.StageForceRelease},
		evidence: "not_applicable, drain, storage_cleanup, gpu_scrub, validate_clean", kind: certificate.Certificate,
		tasks: "node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean",
	},
	{
		mode: decommission.Reactivate, from: node.Retired, history: "active",
		watched:  "retired, active held, active schedulable",
		evidence: "drain, storage_cleanup, gpu_scrub, validate_clean",
		tasks:    "node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain",
	},
	{
		mode: decommission.Remove, from: node.Retired, history: "removing, deleted",
		watched:  "retired, removing held, deleted held",
		evidence: "uninstall, secrets", tasks: "node.uninstall",
	},
	{
		mode: decommission.Remove, from: node.BootstrapIssued, history: "deleted", watched: "bootstrap_issued, deleted",
		evidence: "secrets",
	},
}

func TestJourneys(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, j := range journeys {
		t.Run(string(j.mode)+"_"+string(j.from), func(t *testing.T) {
			y.watched, y.agent.asked = nil, nil
			n := y.node(t, j.from, j.managed)
			d := y.run(t, y.request(t, n, j.mode).ID)
			last := decommission.TableOf(j.mode)
			wants(t, d, job.Completed, last[len(last)-3].Name, "")
			same(t, "history", y.history(t, n), listed(j.history))
			same(t, "looks", y.watched, listed(j.watched))
			same(t, "evidence", y.kinds(t, d.ID), listed(j.evidence))
			same(t, "tasks", y.agent.asked, listed(j.tasks))
			same(t, "ledger", y.ledger(t, d.ID), j.ledger())
			j.proves(t, y, d)
			if told := y.count(t, `SELECT count(*) FROM outbox_events WHERE aggregate_id = $1 AND event_type = 'node.decommission.completed'`, d.ID.String()); told != 1 {
				t.Errorf("told %d times", told)
			}
		})
	}
}

func listed(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}

// ledger is every stage of the mode, once.
func (j journey) ledger() []string {
	var out []string
	for _, s := range decommission.TableOf(j.mode) {
		switch {
		case s.Pseudo || s.Detour:
		case contains(j.skipped, s.Name):
			out = append(out, s.Name+"/1:"+string(job.StageSkipped))
		default:
			out = append(out, s.Name+"/1:"+string(job.StageSucceeded))
		}
	}
	return out
}

func contains(list []string, text string) bool {
	for _, l := range list {
		if l == text {
			return true
		}
	}
	return false
}

// proves checks the paper of a journey.
func (j journey) proves(t *testing.T, y *yard, d decommission.Decommission) {
	t.Helper()
	paper := y.paper(t, d.ID)
	if (paper == nil) != (j.kind == "") {
		t.Fatalf("paper is %v", paper)
	}
	if paper == nil {
		return
	}
	doc := paper.Document
	if doc.Kind != j.kind || doc.Operation.DecommissionID != d.ID.String() || doc.Node.ID != d.Node.String() ||
		doc.Operation.RequestedBy != "operator (operator-1)" {
		t.Errorf("document is about something else: %+v", doc.Operation)
	}
	levels := map[string]certificate.Level{}
	for _, s := range doc.Subjects {
		levels[s.Kind] = s.Level
	}
	if strings.Contains(j.evidence, "storage_cleanup") &&
		(levels["disk"] != agentwire.LevelPurge || levels["gpu"] != agentwire.LevelClear) {
		t.Errorf("levels are %v", levels)
	}
	if strings.Contains(j.evidence, "validate_clean") != (doc.Validation != nil && doc.Validation.Clean) {
		t.Errorf("validation is %+v", doc.Validation)
	}
	if strings.Contains(j.evidence, "release") && len(doc.Reported) == 0 {
		t.Error("what MAAS said is not there")
	}
}

// A node that was released and removed leaves nothing that it could come back by.
func TestAFullDecommissionUnbindsAndNeverReusesTheIdentity(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.run(t, y.request(t, n, decommission.FullDecommission).ID)
	wants(t, d, job.Completed, decommission.StageCertificate, "")
	if bound := y.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1`, n); bound != 0 {
		t.Error("the machine is still bound")
	}
	if len(y.vault.deleted) == 0 {
		t.Error("no secret was deleted")
	}
	for _, mode := range decommission.Modes() {
		if _, _, err := y.service.Request(y.ctx, n, asked(mode)); err == nil {
			t.Errorf("%s of a deleted node was taken", mode)
		}
	}
}

// Workers that die before or after what a stage does, at every stage: nothing is
// done twice, and nothing is left out.
func TestWorkersThatDieAtEveryStage(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, j := range journeys {
		t.Run(string(j.mode)+"_"+string(j.from), func(t *testing.T) {
			y.watched, y.agent.asked = nil, nil
			before, after := map[string]bool{}, map[string]bool{}
			dies := func(seen map[string]bool) func(durable.StageCall) error {
				return func(call durable.StageCall) error {
					if seen[call.Stage] {
						return nil
					}
					seen[call.Stage] = true
					return job.ErrKilled
				}
			}
			y.before = dies(before)
			y.after = func(call durable.StageCall, _ error) error { return dies(after)(call) }
			t.Cleanup(func() { y.before, y.after = nil, nil })
			d := y.run(t, y.request(t, y.node(t, j.from, j.managed), j.mode).ID)
			last := decommission.TableOf(j.mode)
			wants(t, d, job.Completed, last[len(last)-3].Name, "")
			same(t, "history", y.history(t, d.Node), listed(j.history))
			same(t, "evidence", y.kinds(t, d.ID), listed(j.evidence))
			same(t, "tasks", y.agent.asked, listed(j.tasks))
			same(t, "ledger", y.ledger(t, d.ID), j.ledger())
			j.proves(t, y, d)
			if len(before) != len(j.ledger()) || len(after) != len(before) {
				t.Errorf("workers died at %d and %d stages", len(before), len(after))
			}
		})
	}
}

func same(tb testing.TB, what string, got, want []string) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
