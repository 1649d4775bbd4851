package job_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/job"
)

func callOf(c chore, stage string) durable.StageCall {
	return durable.StageCall{Job: c.ID, Stage: stage, Attempt: c.Attempt + 1, Epoch: c.Epoch}
}

// runningChore is one that is to begin.
func runningChore() chore { return chore{Job: job.Job{Status: job.Running, Stage: "begin"}} }

// stages is what was settled, in its order.
func (d *desk) stages() (out []string) {
	for _, s := range d.settled {
		out = append(out, s.Stage+":"+string(s.Told.Status))
	}
	return out
}

func TestAJobGoesThroughTheStagesOfItsOwnTable(t *testing.T) {
	for name, c := range map[string]struct {
		long bool
		want []string
	}{
		"short": {false, []string{"begin:succeeded", "finish:succeeded"}},
		"long":  {true, []string{"begin:succeeded", "linger:succeeded", "finish:succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			row := d.put(t, chore{Job: job.Job{Status: job.Pending, Stage: "begin"}, Long: c.long})
			turn, err := execute(t, d.runner.NextTurn, row.ID)
			for err == nil && turn.Do == durable.TurnRun {
				turn, err = execute(t, d.runner.RunStage,
					durable.StageCall{Job: row.ID, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch})
			}
			now, _ := d.read(t)
			if err != nil || turn.Do != durable.TurnEnd || now.Status != job.Completed || now.CompletedAt == nil ||
				d.freed != 1 {
				t.Fatalf("%+v %v %+v", turn, err, now)
			}
			if !slices.Equal(d.stages(), c.want) {
				t.Errorf("%q", d.stages())
			}
			for i, s := range d.settled {
				if s.Complete != (i == len(d.settled)-1) || s.Failure != nil {
					t.Errorf("%s: %+v", s.Stage, s)
				}
			}
			if d.told[0] != job.AnnounceStarted || d.told[len(d.told)-1] != job.AnnounceCompleted {
				t.Errorf("%q", d.told)
			}
		})
	}
}

// Every attempt that ended is settled, whichever way it ended, with what it
// brought; one that goes on waiting is not.
func TestEveryAttemptIsSettled(t *testing.T) {
	proof := map[string]any{"seen": "residue"}
	for name, c := range map[string]struct {
		before job.Job
		stage  string
		result job.Result
		err    error
		want   []string
	}{
		"went well": {
			job.Job{Status: job.Running, Stage: "begin"},
			"begin",
			job.Result{Details: proof},
			nil,
			[]string{"begin:succeeded"},
		},
		"was skipped": {
			job.Job{Status: job.Running, Stage: "begin"},
			"begin",
			job.Result{Skipped: true, Details: proof},
			nil,
			[]string{"begin:skipped"},
		},
		"fails": {
			job.Job{Status: job.Running, Stage: "begin"},
			"begin",
			job.Result{Details: proof},
			&job.Failure{Class: broken},
			[]string{"begin:failed"},
		},
		"parks": {
			job.Job{Status: job.Running, Stage: "begin"},
			"begin",
			job.Result{Details: proof},
			&job.Failure{Class: broken, Final: true},
			[]string{"begin:failed"},
		},
		"was undone": {
			job.Job{Status: job.Compensating, Stage: "begin", Action: job.Cancel},
			job.StageCompensate,
			job.Result{Details: proof},
			nil,
			[]string{job.StageCompensate + ":compensated"},
		},
		"is not over": {
			job.Job{Status: job.Running, Stage: "begin"},
			"begin",
			job.Result{Message: "wait", Await: &job.Await{Most: 1}},
			nil, nil,
		},
		"met a defect": {
			job.Job{Status: job.Running, Stage: "begin"},
			"begin",
			job.Result{Details: proof},
			errors.New("boom"),
			[]string{"begin:failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			row := d.put(t, chore{Job: c.before})
			d.perform = func(string, *toil) (job.Result, error) { return c.result, c.err }
			if _, err := execute(t, d.runner.RunOne, callOf(row, c.stage)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(d.stages(), c.want) {
				t.Fatalf("%q", d.stages())
			}
			for _, s := range d.settled {
				if (s.Failure != nil) != (c.err != nil) || s.Result.Details["seen"] != "residue" || s.Before.Epoch != 1 ||
					s.Work == nil || s.Told.Attempt != 1 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// What the family refuses in the transaction did not happen: the attempt failed.
func TestAFamilyCanRefuseWhatAStageAchieved(t *testing.T) {
	d := newDesk(t)
	row := d.put(t, chore{Job: job.Job{Status: job.Running, Stage: "finish"}})
	d.refuse = func(s job.Settled[chore, *toil]) error {
		if s.Complete {
			return &job.Failure{
				Class: job.StateAmbiguity, Code: job.CodeNamed("not_proven"), Message: "nobody proved it",
				Final: true,
			}
		}
		return nil
	}
	turn, err := execute(t, d.runner.RunOne, callOf(row, "finish"))
	now, events := d.read(t)
	if err != nil || turn.Do != durable.TurnPark || now.Status != job.FailedManualIntervention ||
		now.ErrorCode != "not_proven" || now.CompletedAt != nil {
		t.Fatalf("%+v %v %+v", turn, err, now)
	}
	if len(events) != 2 || events[1].Status != job.StageFailed || !slices.Equal(d.stages(), []string{"finish:failed"}) ||
		!slices.Equal(d.told, []job.Announced{job.AnnounceManual}) {
		t.Errorf("%+v %q %q", events, d.stages(), d.told)
	}
}

// A database that fails in the middle records nothing.
func TestAnErrorOfTheFamilyRecordsNothing(t *testing.T) {
	d := newDesk(t)
	row := d.put(t, chore{Job: job.Job{Status: job.Running, Stage: "begin"}})
	d.refuse = func(job.Settled[chore, *toil]) error {
		return fault.New(fault.Unavailable, "away", "the database is away")
	}
	if _, err := execute(t, d.runner.RunOne, callOf(row, "begin")); fault.CodeOf(err) != "away" {
		t.Fatal(err)
	}
	if now, events := d.read(t); now.Status != job.Running || now.Stage != "begin" || len(events) != 1 {
		t.Errorf("%+v %+v", now, events)
	}
}

func TestWhatStartsAnewKeepsWhatTheFamilyKeeps(t *testing.T) {
	d := newDesk(t)
	row := d.put(t, chore{Job: job.Job{
		Status: job.Compensating, Stage: "finish", Action: job.RestartClean,
	}, SystemID: "4y3h7n", Facts: facts{NodeCreated: true, Left: []string{"a disk"}}})
	turn, err := execute(t, d.runner.RunOne, callOf(row, job.StageCompensate))
	now, _ := d.read(t)
	if err != nil || turn.Stage != "begin" || now.SystemID != "4y3h7n-kept" || now.Facts.NodeCreated ||
		len(now.Facts.Left) != 1 {
		t.Errorf("%+v %v %+v", turn, err, now)
	}
}

// The fence within a transaction goes by the row as it is then.
func TestTheFenceWithinATransactionRefusesWhoeverWasSuperseded(t *testing.T) {
	for name, acts := range map[string]bool{"ours": false, "an operator acted": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			row := d.put(t, chore{Job: job.Job{Status: job.Running, Stage: "begin"}})
			var fenced error
			d.perform = func(_ string, w *toil) (job.Result, error) {
				if acts {
					if _, err := d.runner.Act(d.ctx, row.ID, job.MarkManual, "because of the test"); err != nil {
						t.Error(err)
					}
				}
				fenced = d.db.InTx(d.ctx, func(ctx context.Context, tx pgx.Tx) error { return w.FenceIn(ctx, tx) })
				return job.Result{}, fenced
			}
			_, err := execute(t, d.runner.RunOne, callOf(row, "begin"))
			if (fault.CodeOf(fenced) == durable.CodeSuperseded) != acts || (err != nil) != acts {
				t.Errorf("the fence says %v, the attempt %v", fenced, err)
			}
		})
	}
}

func (d *desk) parked(t *testing.T) chore {
	t.Helper()
	at := d.clock
	return d.put(t, chore{Job: job.Job{
		Status: job.FailedManualIntervention, Stage: "begin",
		FailureClass: job.StateAmbiguity, ErrorCode: "odd", ParkedAt: &at,
	}})
}

// What a family does besides an action happens with it or not at all, and is
// told in the audit log and the ledger.
func TestAnActionWithSomethingBesides(t *testing.T) {
	d := newDesk(t)
	row := d.parked(t)
	runs := 0
	besides := job.Besides[chore]{
		Verb: "override", Metadata: map[string]any{"residual_risk": "a disk"},
		Done: func(chore) bool { return runs > 0 },
		Within: func(_ context.Context, _ pgx.Tx, before chore, a *job.Acted[chore]) error {
			runs++
			a.Stage = "finish" // goes on without the stage that failed
			return nil
		},
	}
	after, err := d.runner.Act(d.ctx, row.ID, job.RetryStage, "the disk is gone", besides)
	if err != nil || after.Status != job.Running || after.Stage != "finish" || after.Epoch != 2 {
		t.Fatalf("%+v %v", after, err)
	}
	var metadata string
	if err := d.db.QueryRow(d.ctx, `SELECT metadata::text FROM audit_logs WHERE action = 'chore.override'`).Scan(
		&metadata); err != nil || !strings.Contains(metadata, `a disk`) {
		t.Errorf("%s %v", metadata, err)
	}
	_, events := d.read(t)
	if len(events) != 1 || events[0].Status != job.OperatorAction || events[0].Stage != "finish" ||
		!strings.Contains(string(events[0].Details), "residual_risk") {
		t.Errorf("%+v", events)
	}
	if again, err := d.runner.Act(d.ctx, row.ID, job.RetryStage, "the disk is gone", besides); err != nil ||
		again.Epoch != 2 || runs != 1 {
		t.Errorf("again: %+v %v, %d times", again, err, runs)
	}
}

// An action that is being done is not mistaken for one with something besides
// that was not.
func TestSomethingBesidesIsNotLostBecauseTheActionIsBeingDone(t *testing.T) {
	d := newDesk(t)
	row := d.parked(t)
	if _, err := d.runner.Act(d.ctx, row.ID, job.RetryStage, "once more"); err != nil {
		t.Fatal(err)
	}
	_, err := d.runner.Act(d.ctx, row.ID, job.RetryStage, "without it", job.Besides[chore]{Done: func(chore) bool {
		return false
	}})
	if fault.CodeOf(err) != "action_not_allowed" {
		t.Error(err)
	}
}

func TestARefusedActionChangesNothing(t *testing.T) {
	refused := fault.New(fault.Conflict, "not_so", "no")
	for name, act := range map[string]func(*desk) error{
		"by the family": func(d *desk) error {
			d.forbid = refused
			_, err := d.runner.Act(d.ctx, "chore-1", job.Rerun, "because")
			return err
		},
		"by what goes with it": func(d *desk) error {
			_, err := d.runner.Act(d.ctx, "chore-1", job.Rerun, "because", job.Besides[chore]{
				Within: func(context.Context, pgx.Tx, chore, *job.Acted[chore]) error { return refused },
			})
			return err
		},
	} {
		d := newDesk(t)
		d.parked(t)
		if err := act(d); fault.CodeOf(err) != "not_so" {
			t.Errorf("%s: %v", name, err)
		}
		if now, events := d.read(t); now.Status != job.FailedManualIntervention || now.Epoch != 1 || len(events) != 0 {
			t.Errorf("%s: %+v %+v", name, now, events)
		}
	}
}

func TestAnActionNeedsAReason(t *testing.T) {
	d := newDesk(t)
	d.parked(t)
	if _, err := d.runner.Act(d.ctx, "chore-1", job.Rerun, " "); fault.CodeOf(err) != "reason_missing" {
		t.Error(err)
	}
}

func TestStatusesOfAFilter(t *testing.T) {
	for name, c := range map[string]struct {
		words []string
		want  []job.Status
		bad   int
	}{
		"none":        {nil, nil, 0},
		"repeated":    {[]string{"running", "pending"}, []job.Status{"running", "pending"}, 0},
		"with commas": {[]string{"running, pending"}, []job.Status{"running", "pending"}, 0},
		"both failed": {[]string{"failed"}, []job.Status{job.FailedRetryable, job.FailedManualIntervention}, 0},
		"said often": {
			[]string{"failed,running,failed", "running"},
			[]job.Status{job.FailedRetryable, job.FailedManualIntervention, "running"},
			0,
		},
		"one that is not": {[]string{"broken", ""}, nil, 1},
		"many are not":    {[]string{"running" + strings.Repeat(",", 1000)}, nil, 1},
	} {
		got, bad := job.Parking.Statuses(c.words)
		if !slices.Equal(got, c.want) || len(bad) != c.bad {
			t.Errorf("%s: %v %v", name, got, bad)
		}
	}
}

func TestAStageOfNoTableIsADefect(t *testing.T) {
	d := newDesk(t)
	row := d.put(t, chore{Job: job.Job{Status: job.Running, Stage: "begin"}})
	if _, err := execute(t, d.runner.RunOne, callOf(row, "nothing")); fault.CodeOf(err) != "stage_unknown" {
		t.Error(err)
	}
	if _, events := d.read(t); len(events) != 0 {
		t.Errorf("%+v", events)
	}
}
