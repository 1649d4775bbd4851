package decommission_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (- file, + now); write it with: go test ./controlplane/internal/work/decommission -update\n%s",
			path, diff)
	}
}

// Whatever parks an operation wherever: there is something to do about it, and
// what is recommended is possible.
func TestEveryParkedOperationOffersALegalAction(t *testing.T) {
	t.Parallel()
	codes := []string{
		"", "validation_residue", "validation_root_residue", "released_elsewhere", "machine_gone", "nothing_to_adopt",
		"evidence_missing", "node_tainted", "agent_unreachable",
		"release_erase_failed", "uninstall_failed", job.CodeMarked,
	}
	then := time.Now()
	for _, mode := range decommission.Modes() {
		for _, s := range decommission.TableOf(mode) {
			if s.Pseudo {
				continue
			}
			for _, class := range bringup.FailureClasses {
				for _, code := range codes {
					d := decommission.Parked(mode, s.Name, class, code)
					for _, released := range []bool{false, true} {
						if released {
							d.Facts.Release = releasedAt(then)
						}
						legal, best := decommission.LegalActions(d), decommission.Recommended(d)
						removed, _ := decommission.TableOf(mode).Number(decommission.StageRemove)
						at, _ := decommission.TableOf(mode).Number(s.Name)
						deleted := removed > 0 && at > removed // which is seen through
						if !slices.Contains(legal, best) || slices.Contains(legal, job.Cancel) == deleted {
							t.Errorf("%s at %s by %s %s: recommended is %q of %v", mode, s.Name, class, code, best, legal)
						}
						if released && slices.Contains(legal, job.RestartClean) {
							t.Errorf("%s at %s: starts over after the release", mode, s.Name)
						}
					}
				}
			}
		}
	}
}

// Nothing that needs care is recommended while something safe mends the class.
func TestRecommendedActionsAreOrderedSafestFirst(t *testing.T) {
	for _, mode := range decommission.Modes() {
		for _, s := range decommission.TableOf(mode) {
			for _, class := range bringup.FailureClasses {
				d := decommission.Parked(mode, s.Name, class, "")
				e := decommission.Explain(d, nil, time.Now())
				if !s.Pseudo && e.Actions[0].Safety != job.Safe {
					t.Errorf("%s at %s by %s: %+v", mode, s.Name, class, e.Actions[0])
				}
			}
		}
	}
}

// What people are told about every way in which a stage fails.
func TestExplanations(t *testing.T) {
	var out strings.Builder
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, mode := range decommission.Modes() {
		for _, s := range decommission.TableOf(mode) {
			if s.Pseudo || s.Detour {
				continue
			}
			for _, f := range s.Fails {
				d := decommission.Parked(mode, s.Name, f.Class, "")
				d.ParkedAt, d.StageStartedAt, d.StartedAt, d.RequestedAt = &at, &at, &at, at
				e := decommission.Explain(d, nil, at.Add(time.Hour))
				if e.Summary == "" || len(e.Actions) == 0 {
					t.Errorf("%s at %s by %s: %+v", mode, s.Name, f.Class, e)
				}
				fmt.Fprintf(&out, "%s / %s / %s (%s)\n  %s\n  likely: %s\n  do: %s\n", mode, s.Name, f.Class, f.When, e.Summary,
					e.LikelyCause, decommission.Recommended(d))
			}
		}
	}
	golden(t, "explanations.golden", []byte(out.String()))
}

func releasedAt(at time.Time) *bringup.ReleaseFacts { return &bringup.ReleaseFacts{RequestedAt: &at} }

// Every stage says what it looks at, does and undoes, and resumes somewhere in
// its own table.
func TestTheTablesAreWhole(t *testing.T) {
	for _, mode := range decommission.Modes() {
		table := decommission.TableOf(mode)
		for _, s := range table {
			if s.Name == "" || s.Title == "" || s.Looks == "" || s.Does == "" || s.Expects == "" || s.Again == "" ||
				len(s.Fails) == 0 || s.Attempts < 1 {
				t.Errorf("%s: stage %q says too little: %+v", mode, s.Name, s)
			}
			if s.Pseudo {
				continue
			}
			if s.OnCancel == "" {
				t.Errorf("%s: %s does not say what a cancel undoes", mode, s.Name)
			}
			if back, ok := table.Of(resumeOf(mode, s)); !ok || back.Pseudo {
				t.Errorf("%s: %s resumes at %s, which it does not have", mode, s.Name, s.Resume)
			}
		}
	}
}

// A plan with a name that no stage has does not become a table with a hole in it.
func TestAPlanNamesOnlyStagesThatExist(t *testing.T) {
	if table := decommission.LayOut(decommission.Drain,
		decommission.StageDrain); table.First() != decommission.StageDrain {
		t.Errorf("%+v", table)
	}
	defer func() {
		if recover() == nil {
			t.Error("the program starts with a plan that nobody can carry out")
		}
	}()
	decommission.LayOut(decommission.Drain, decommission.StageDrain, "drian_node")
}

func resumeOf(m decommission.Mode, s job.Stage) string {
	d := decommission.Parked(m, s.Name, bringup.StateAmbiguity, "")
	return decommission.TargetOf(d, job.Resume)
}

// A certificate claims nothing that its evidence does not show: without the
// validation there is none, and without the rest the claim is not in it.
func TestNoClaimWithoutEvidence(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for kind, gone := range map[string]string{
		"validate_clean": "", "drain": "accounts", "storage_cleanup": "disk",
		"gpu_scrub": "gpu",
	} {
		t.Run(kind, func(t *testing.T) {
			wellAgain(y)
			d := y.request(t, y.node(t, node.Active, false), decommission.SoftReset)
			y.before = func(call durable.StageCall) error {
				if call.Stage == decommission.StageCertificate && call.Epoch == 1 {
					_, err := y.owner.Exec(y.ctx, `DELETE FROM node_decommission_evidence WHERE decommission_id = $1 AND kind = $2`,
						d.ID, kind)
					return err
				}
				return nil
			}
			if gone != "" {
				y.run(t, d.ID)
				doc := y.paper(t, d.ID).Document
				if slices.ContainsFunc(doc.Subjects, func(s certificate.Subject) bool { return s.Kind == gone }) {
					t.Errorf("it claims something about %s", gone)
				}
				return
			}
			end := y.run(t, d.ID, func(*testsuite.TestWorkflowEnvironment) {
				parked := y.read(t, d.ID)
				wants(t, parked, job.FailedManualIntervention, decommission.StageCertificate, "evidence_missing")
				if y.paper(t, d.ID) != nil || decommission.Recommended(parked) != job.Rerun {
					t.Errorf("recommended is %s", decommission.Recommended(parked))
				}
			}, y.act(t, d.ID, job.Rerun))
			wants(t, end, job.Completed, decommission.StageEnable, "")
			if y.paper(t, d.ID) == nil {
				t.Error("there is no receipt")
			}
		})
	}
}

// A tenant that gets in after the validation keeps the node from returning.
func TestATaintAfterTheValidationKeepsANodeOut(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.before = func(call durable.StageCall) error {
		if call.Stage != decommission.StageEnable || call.Epoch > 1 {
			return nil
		}
		return y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
			return node.Taint(ctx, tx, n, "a tenant got in")
		})
	}
	end := y.run(t, d.ID, func(*testsuite.TestWorkflowEnvironment) {
		wants(t, y.read(t, d.ID), job.FailedManualIntervention, decommission.StageEnable, "node_tainted")
		if got := y.stands(t, n); got != "active held" {
			t.Errorf("the node is %s", got)
		}
	}, y.act(t, d.ID, job.Rerun))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	if got := y.stands(t, n); got != "active schedulable" {
		t.Errorf("the node is %s", got)
	}
	if paper, since := y.paper(t, d.ID).Document, *y.see(t, n).TaintedAt; paper.Seq != 2 ||
		!paper.Validation.At.After(since) {
		t.Errorf("receipt %d is of a validation at %s, and the tenant got in at %s", paper.Seq, paper.Validation.At, since)
	}
}

// What somebody else holds stays held when an operation has ended.
func TestAReasonOfAnOperatorOutlastsAReset(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	y.exec(t, `UPDATE nodes SET hold_reason = 'investigated', schedulable = false WHERE id = $1`, n)
	d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	if now := y.see(t, n); now.Schedulable || now.HoldReason != "investigated" || now.HeldBy != "" {
		t.Errorf("the node is %+v", now)
	}
}

func TestOperationsThatTakeANodeOutCanDrainIt(t *testing.T) {
	for _, m := range []decommission.Mode{
		decommission.Reimage, decommission.FullDecommission, decommission.Drain, decommission.Retire,
	} {
		for _, s := range decommission.From(m) {
			if s == node.Draining || s == node.Retired {
				continue
			}
			if _, err := node.Lifecycle.Next(s, node.Drain); err != nil {
				t.Errorf("%s may begin at a node that is %s, and cannot drain it: %v", m, s, err)
			}
		}
	}
}
