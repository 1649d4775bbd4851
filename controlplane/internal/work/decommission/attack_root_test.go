package decommission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// rented is the allocation that lets the tenant in.
type rented struct{}

func (rented) Owns(context.Context, pgx.Tx, id.Node, string) error { return nil }

// provision gives a tenant an account on a node; sudo: with root.
func (y *yard) provision(tb testing.TB, of id.Node, sudo bool) {
	tb.Helper()
	err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := y.tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: of, Type: agentwire.TypeProvisionUser, Reason: "a tenant comes", Owner: rented{},
			Params: agentwire.ProvisionUserParams{
				AllocationID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c", Username: "mallory", UID: 20100, GID: 20100, Sudo: sudo,
				AuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1t8Zq0 mallory@example"},
			},
		})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := y.agent.visit(y.ctx, of, y.see(tb, of).Generation); err != nil {
		tb.Fatal(err)
	}
}

// roots lets somebody have root, once, before a stage.
func (y *yard) roots(of id.Node, stage string) {
	once := false
	y.before = func(call durable.StageCall) error {
		if call.Stage != stage || once {
			return nil
		}
		once = true
		return y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
			return node.TaintRoot(ctx, tx, of, node.RootByConsole, "somebody stood before the machine")
		})
	}
}

// A user with sudo can have replaced whatever would have to testify: nothing that
// goes by the word of that installation begins, and the plan offers what helps.
func TestAttackAUserWithSudoIsNotClearedByASoftReset(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, mode := range []decommission.Mode{
		decommission.SoftReset, decommission.StorageCleanup, decommission.Retire,
		decommission.Reactivate,
	} {
		t.Run(string(mode), func(t *testing.T) {
			n := y.node(t, node.Active, true)
			y.provision(t, n, false)
			if _, err := y.service.Plan(y.ctx, n, asked(mode)); err != nil {
				t.Fatal(err)
			}
			if y.see(t, n).Access() != node.UserAccess {
				t.Fatalf("an ordinary user has %q", y.see(t, n).Access())
			}
			y.provision(t, n, true)
			y.provision(t, n, false) // which takes nothing back
			if mode == decommission.Reactivate {
				y.exec(t, `UPDATE nodes SET status = 'retired', schedulable = false WHERE id = $1`, n)
			}
			_, _, err := y.service.Request(y.ctx, n, asked(mode))
			f, _ := fault.As(err)
			if f == nil || f.Code != "node_root_tainted" || !strings.Contains(f.Message, "sudo") ||
				!strings.Contains(f.Remedy, "gpuaas node reimage") {
				t.Errorf("the request ends with %v", err)
			}
			plan, err := y.service.Plan(y.ctx, n, asked(mode))
			if err != nil || len(plan.Blocks) != 1 || plan.Blocks[0].Code != "node_root_tainted" ||
				!strings.Contains(plan.Blocks[0].Remedy, "gpuaas node reimage") {
				t.Errorf("the plan has %+v, %v", plan.Blocks, err)
			}
			reimage, err := y.service.Plan(y.ctx, n, asked(decommission.Reimage))
			if err != nil || len(reimage.Blocks) != 0 {
				t.Errorf("a reimage is refused: %+v, %v", reimage.Blocks, err)
			}
		})
	}
}

// An operation that began when nobody had root ends with an agent that says
// "all clean" after somebody had: that is kept, and proves nothing.
func TestAttackAForgedAllCleanOfTheOldInstallationClearsNothing(t *testing.T) {
	t.Parallel()
	for stage, at := range map[string]string{
		decommission.StageScrub:       decommission.StageValidate,
		decommission.StageCertificate: decommission.StageCertificate,
	} {
		t.Run("root before "+stage, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			d := y.request(t, n, decommission.SoftReset)
			y.roots(n, stage)
			end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun))
			wants(t, end, job.FailedManualIntervention, decommission.StageValidate, "node_root_tainted")
			if parked := y.ledger(t, d.ID); !contains(parked, at+"/1:failed") {
				t.Errorf("it was not parked at %s: %q", at, parked)
			}
			now := y.see(t, n)
			if y.paper(t, d.ID) != nil || !now.Compromised() || now.Schedulable ||
				!contains(y.kinds(t, d.ID), decommission.EvidenceValidation) {
				t.Errorf("paper %v, compromised %t, evidence %q", y.paper(t, d.ID), now.Compromised(), y.kinds(t, d.ID))
			}
			if decommission.Recommended(end) != job.Cancel || !strings.Contains(end.ErrorRemedy, "gpuaas node reimage") {
				t.Errorf("%s is recommended: %s", decommission.Recommended(end), end.ErrorRemedy)
			}
			err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := node.NoteClean(ctx, tx, n, time.Now().Add(time.Minute), "the machine says so")
				return err
			})
			if fault.CodeOf(err) != "node_root_tainted" {
				t.Errorf("the inventory takes it: %v", err)
			}
		})
	}
}

// Only an installation made after the taint testifies, and it cleans disks and
// GPUs again; its certificate says what was known, and what is not covered.
func TestAttackOnlyAnInstallationMadeAfterTheTaintTestifies(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, true)
	y.agent.asked = nil
	d := y.run(t, y.request(t, n, decommission.Reimage).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	same(t, "tasks", y.agent.asked, listed(
		"node.drain, node.storage_cleanup, node.gpu_scrub, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain"))
	now := y.see(t, n)
	if now.Tainted() || now.Root.Stands() || !now.Schedulable || now.Access() != node.NoAccess {
		t.Errorf("the node is %+v", now)
	}
	doc := y.paper(t, d.ID).Document
	if a := doc.Access; a == nil || a.Had != certificate.RootAccess || a.Cause != "sudo" || a.At == nil {
		t.Errorf("it says of the tenant %+v", a)
	}
	i := doc.Installation
	if i == nil || !i.Independent || i.MadeBy != "decommission "+d.ID.String() || i.MadeAt == nil ||
		!i.MadeAt.After(*doc.Access.At) || !doc.Validation.At.After(*i.MadeAt) {
		t.Fatalf("it says of the installation %+v", i)
	}
	for kind, want := range map[string][2]int{"disk": {1, 1}, "gpu": {yardGPUs, yardGPUs}, "accounts": {1, 0}} {
		var got [2]int // not independent, independent
		for _, s := range subjectsOf(doc, kind) {
			switch {
			case s.NotIndependent == "":
				got[1]++
			case s.Level != certificate.None || !s.StartedAt.Before(*i.MadeAt):
				t.Errorf("%s claims %s", kind, s.Level)
			default:
				got[0]++
			}
		}
		if got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	if !lacks(doc, "firmware, BMC", "somebody had root") || !lacks(doc, "accounts", "not independent") {
		t.Errorf("gaps are %+v", doc.NotCovered)
	}
}

// Root that is had while a reimage runs: before the machine is given away, the
// new installation testifies; after it has enrolled, it does not.
func TestAttackRootWhileAReimageRuns(t *testing.T) {
	t.Parallel()
	for stage, clears := range map[string]bool{
		"release_maas_node": true, decommission.StageStorageAgain: false, decommission.StageValidate: false,
		decommission.StageCertificate: false, decommission.StageEnable: false,
	} {
		t.Run(stage, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			d := y.request(t, n, decommission.Reimage)
			y.roots(n, stage)
			end := y.run(t, d.ID)
			now := y.see(t, n)
			if clears != (end.Status == job.Completed) || clears == now.Root.Stands() || clears != now.Schedulable {
				t.Errorf("it is %s at %s (%s), root stands %t", end.Status, end.Stage, end.ErrorCode, now.Root.Stands())
			}
			if !clears && (end.ErrorCode != "node_root_tainted" || !strings.Contains(end.ErrorRemedy, "gpuaas node reimage")) {
				t.Errorf("it says %s: %s", end.ErrorCode, end.ErrorRemedy)
			}
		})
	}
}

// An agent that enrols once more after the installation, by a token that somebody
// carried to it, may run on anything.
func TestAttackARecoveredIdentityIsNoNewInstallation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, true)
	d := y.request(t, n, decommission.Reimage)
	once := false
	y.before = func(call durable.StageCall) error {
		if call.Stage != decommission.StageStorageAgain || once {
			return nil
		}
		once = true
		y.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, n)
		return nil
	}
	wants(t, y.run(t, d.ID), job.FailedManualIntervention, decommission.StageValidate, "node_root_tainted")
}

// A reimage of the release before had no stages that clean again: what it
// validated is not enough, and going through it again is.
func TestAReimageThatDidNotCleanAgainProvesNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.Reimage)
	y.rootBefore(t, n, decommission.StageValidate)
	end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun, func() {
		parked := y.read(t, d.ID)
		wants(t, parked, job.FailedManualIntervention, decommission.StageValidate, "node_tainted")
		if decommission.Recommended(parked) != job.Rerun || !y.see(t, n).Root.Stands() {
			t.Errorf("%s is recommended, root stands %t", decommission.Recommended(parked), y.see(t, n).Root.Stands())
		}
	}))
	wants(t, end, job.Completed, decommission.StageEnable, "")
}

func TestAReimageThatLeavesTheDisksProvesNothingAboutRoot(t *testing.T) {
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, true)
	r := asked(decommission.Reimage)
	r.StorageCleanup = decommission.CleanupNone
	if _, _, err := y.service.Request(y.ctx, n, r); fault.CodeOf(err) != "node_root_tainted" ||
		!strings.Contains(err.Error(), "data disks") {
		t.Errorf("it is taken: %v", err)
	}
}

// A node that no MAAS can install stays unclean until it leaves, or somebody
// accepts the risk in words, which stand in every paper from then on.
func TestAttackANodeWithoutMAASIsNotClearedWithoutWords(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	y.provision(t, n, true)
	_, _, err := y.service.Request(y.ctx, n, asked(decommission.SoftReset))
	f, _ := fault.As(err)
	if f == nil || f.Code != "node_root_tainted" || !strings.Contains(f.Remedy, "--residual-risk") ||
		!strings.Contains(f.Remedy, "gpuaas node remove") {
		t.Fatalf("the request ends with %v", err)
	}
	r := asked(decommission.SoftReset)
	r.ResidualRisk = "reinstalled by hand; nobody looked at the firmware"
	d, made, err := y.service.Request(y.ctx, n, r)
	if err != nil || !made {
		t.Fatal(err)
	}
	wants(t, y.run(t, d.ID), job.Completed, decommission.StageEnable, "")
	now := y.see(t, n)
	if now.Tainted() || now.Root.Stands() || !now.Root.Accepted() || !now.Schedulable {
		t.Errorf("the node is %+v", now)
	}
	says := func(of id.Decommission) certificate.Document {
		doc := y.paper(t, of).Document
		if doc.Installation.Independent || doc.Access.Had != certificate.RootAccess || doc.Validation.NotIndependent == "" ||
			!lacks(doc, "somebody with root", r.ResidualRisk) {
			t.Errorf("%+v, %+v, %q, %+v", doc.Installation, doc.Access, doc.Validation.NotIndependent, doc.NotCovered)
		}
		for _, s := range doc.Subjects {
			if s.Level != certificate.None {
				t.Errorf("%s claims %s", s.Identifier, s.Level)
			}
		}
		return doc
	}
	if o := says(d.ID).Overrides; len(o) != 1 || o[0].Stage != decommission.RootTaint ||
		o[0].ResidualRisk != r.ResidualRisk || !strings.Contains(o[0].By, "operator") {
		t.Errorf("overrides are %+v", o)
	}
	y.provision(t, n, false)
	next := y.request(t, n, decommission.SoftReset)
	wants(t, y.run(t, next.ID), job.Completed, decommission.StageEnable, "")
	if o := says(next.ID).Overrides; len(o) != 1 || o[0].Stage != decommission.RootTaint ||
		o[0].ResidualRisk != r.ResidualRisk ||
		!strings.Contains(o[0].By, "operator") || !strings.Contains(o[0].Why, "earlier operation") {
		t.Errorf("the next paper does not name the risk of the one before: %+v", o)
	}
}

// A risk that is accepted where there is none would be recorded nowhere.
func TestARiskIsNotAcceptedWhereThereIsNone(t *testing.T) {
	y := newYard(t)
	n := y.node(t, node.Active, false)
	y.provision(t, n, false)
	r := asked(decommission.SoftReset)
	r.ResidualRisk = "whatever"
	if _, _, err := y.service.Request(y.ctx, n, r); fault.CodeOf(err) != "residual_risk_not_needed" {
		t.Errorf("the request ends with %v", err)
	}
}

// What was accepted is what was known: root that is had afterwards is not.
func TestAttackAnAcceptedRiskCoversNothingThatCameAfter(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	y.provision(t, n, true)
	r := asked(decommission.SoftReset)
	r.ResidualRisk = "as far as we know"
	d, _, err := y.service.Request(y.ctx, n, r)
	if err != nil {
		t.Fatal(err)
	}
	y.roots(n, decommission.StageStorage)
	wants(t, y.run(t, d.ID), job.FailedManualIntervention, decommission.StageValidate, "node_root_tainted")
	managed := y.node(t, node.Active, true)
	y.provision(t, managed, true)
	if _, _, err := y.service.Request(y.ctx, managed, r); fault.CodeOf(err) != "node_root_tainted" {
		t.Errorf("words are enough where MAAS could install: %v", err)
	}
}

// What only root leaves, however they came to it, makes the node one that
// somebody had root on; what a tenant can leave does not.
func TestAttackWhatOnlyRootLeavesTaintsAsRoot(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	sum := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		kind, subject, value string
		had                  node.Access
	}{
		"account":            {"account", "sysd", "uid 1500 gid 1500 home / shell /bin/sh", node.RootAccess},
		"group":              {"group", "mine", "gid 1500", node.RootAccess},
		"member":             {"member", "sudo:deploy", "", node.RootAccess},
		"password":           {"password", "root", "set", node.RootAccess},
		"unit":               {"unit", "/etc/systemd/system/planted.service", sum, node.RootAccess},
		"sudo rule":          {"unit", "/etc/sudoers.d/planted", sum, node.RootAccess},
		"preload":            {"preload", "/etc/ld.so.preload", sum, node.RootAccess},
		"module":             {"module", "evil", "", node.RootAccess},
		"capability":         {"capability", "/usr/bin/dump", "01", node.RootAccess},
		"agent":              {"agent", "/opt/gpuaas/agent/1.0/gpuaas-agent", sum, node.RootAccess},
		"setuid of root":     {"setid", "/var/tmp/.x/sh", "mode 4755 uid 0 gid 20100 " + sum, node.RootAccess},
		"setgid of shadow":   {"setid", "/var/tmp/.x/sh", "mode 2755 uid 20100 gid 42 " + sum, node.RootAccess},
		"setuid of a tenant": {"setid", "/var/tmp/.x/sh", "mode 4755 uid 100000 gid 100000 " + sum, node.UserAccess},
		"job of the system":  {"cron", "/etc/cron.d/planted", sum, node.RootAccess},
		"crontab of root":    {"cron", "/var/spool/cron/crontabs/root", sum + " uid 0 gid 105", node.RootAccess},
		"crontab of another": {"cron", "/var/spool/cron/crontabs/mallory", sum + " uid 20100 gid 105", node.UserAccess},
		"at job of root":     {"at", "/var/spool/cron/atjobs/a1", sum + " uid 0 gid 1", node.RootAccess},
		"at job of another":  {"at", "/var/spool/cron/atjobs/a1", sum + " uid 20100 gid 1", node.UserAccess},
		"key of root":        {"authorized_key", "/root" + "/.ssh/authorized_keys x", "", node.RootAccess},
		"spool":              {"spool", "/var/crash/x", "uid 20100", node.UserAccess},
	} {
		t.Run(name, func(t *testing.T) {
			n := y.node(t, node.Active, true)
			d := y.request(t, n, decommission.SoftReset)
			found := dirty()
			found.Findings = append(found.Findings,
				agentwire.CleanFinding{
					Kind: c.kind, Subject: c.subject,
					Detail: "not in the baseline of the installation: " + c.value,
				})
			y.agent.on(agentwire.TypeValidateClean, succeeds(found), succeeds(clean(agentwire.TypeValidateClean)))
			end := y.run(t, d.ID, y.act(t, d.ID, job.Resume, func() {
				if now := y.see(t, n); now.Access() != c.had || now.Status != node.Quarantined || now.Root.Stands() &&
					now.Root.Cause != node.RootFound {
					t.Errorf("the node is %s, somebody had %q: %+v", now.Status, now.Access(), now.Root)
				}
			}))
			if c.had == node.UserAccess {
				wants(t, end, job.Completed, decommission.StageEnable, "")
				return
			}
			wants(t, end, job.FailedManualIntervention, decommission.StageValidate, "node_root_tainted")
		})
	}
}
