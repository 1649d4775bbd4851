package job

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
)

type plain struct{ Job }

var plainTable = Table{
	{Name: "prepare", Title: "Prepare", Attempts: 3, Resume: "prepare"},
	{Name: "deploy", Title: "Deploy", Attempts: 1, Limit: site.StageDeploy, Resume: "prepare"},
	{Name: "mend", Title: "Mend", Attempts: 1, Resume: "prepare", Detour: true},
	{Name: "prove", Title: "Prove", Attempts: 1, Resume: "prove"},
	{Name: StageCompensate, Title: "Undo", Attempts: 3, Pseudo: true},
	{Name: StageAdopt, Title: "Adopt", Attempts: 1, Pseudo: true},
}

func plainFamily() *Family[plain] {
	return &Family[plain]{
		Noun: "chore", Table: func(plain) Table { return plainTable }, Sample: func(j Job) plain { return plain{j} },
		Undone: func(plain) string { return "nothing is undone" }, AfterEnd: func(plain) string { return "it has ended" },
		Reached: func(p plain, took string) string { return p.Hostname + " is done" + took },
		Rewind:  map[string]string{"unproven": "deploy", "lost_in_space": "nowhere"},
	}
}

// outcome is what matters of a verdict.
type outcome struct {
	status   durable.JobStatus
	stage    string
	attempts int
	told     EventStatus
	do       durable.TurnKind
	next     string // stage of the turn
	tells    Announced
	complete bool
	parks    bool
	anew     bool
	action   durable.JobEvent
}

func TestVerdicts(t *testing.T) {
	fails := func(f bringup.Failure) error { return &f }
	running := Job{Status: durable.JobRunning, Stage: "prepare"}
	at := func(stage string) Job { return Job{Status: durable.JobRunning, Stage: stage} }
	undoing := func(action durable.JobEvent) Job {
		return Job{Status: durable.JobCompensating, Stage: "deploy", Action: action}
	}
	for name, c := range map[string]struct {
		before  Job
		stage   string
		attempt int
		result  bringup.Result
		err     error
		want    outcome
	}{
		"goes on": {
			running, "prepare", 1,
			bringup.Result{},
			nil,
			outcome{durable.JobRunning, "deploy", 0, StageSucceeded, durable.TurnRun, "deploy", AnnounceStage, false, false, false, ""},
		},
		"is skipped": {
			running, "prepare", 1,
			bringup.Result{Skipped: true},
			nil,
			outcome{durable.JobRunning, "deploy", 0, StageSkipped, durable.TurnRun, "deploy", AnnounceStage, false, false, false, ""},
		},
		"leads elsewhere": {
			running, "prepare", 1,
			bringup.Result{Next: "prove"},
			nil,
			outcome{durable.JobRunning, "prove", 0, StageSucceeded, durable.TurnRun, "prove", AnnounceStage, false, false, false, ""},
		},
		"leads nowhere": {
			running, "prepare", 1,
			bringup.Result{Next: "nowhere"},
			nil,
			outcome{durable.JobFailedManualIntervention, "prepare", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"leads to a pseudo stage": {
			running, "prepare", 1,
			bringup.Result{Next: StageAdopt},
			nil,
			outcome{durable.JobFailedManualIntervention, "prepare", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"passes detours by": {
			at("deploy"), "deploy", 1,
			bringup.Result{},
			nil,
			outcome{durable.JobRunning, "prove", 0, StageSucceeded, durable.TurnRun, "prove", AnnounceStage, false, false, false, ""},
		},
		"a detour must lead somewhere": {
			at("mend"), "mend", 1,
			bringup.Result{},
			nil,
			outcome{durable.JobFailedManualIntervention, "mend", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"waits quietly": {
			running, "prepare", 2,
			bringup.Result{Await: &bringup.Await{Most: time.Minute}},
			nil,
			outcome{durable.JobRunning, "prepare", 2, "", durable.TurnAwait, "prepare", "", false, false, false, ""},
		},
		"waits and says so": {
			running, "prepare", 2,
			bringup.Result{Message: "not yet", Await: &bringup.Await{Most: time.Minute}},
			nil,
			outcome{durable.JobRunning, "prepare", 2, StageNote, durable.TurnAwait, "prepare", AnnounceStage, false, false, false, ""},
		},
		"reaches its goal": {
			at("prove"), "prove", 1,
			bringup.Result{},
			nil,
			outcome{durable.JobCompleted, "prove", 0, StageSucceeded, durable.TurnEnd, "", AnnounceCompleted, true, false, false, ""},
		},
		"reaches its goal by adoption": {
			Job{Status: durable.JobRunning, Stage: "prove", Adopted: true},
			"prove", 1,
			bringup.Result{},
			nil,
			outcome{durable.JobReconciled, "prove", 0, StageSucceeded, durable.TurnEnd, "", AnnounceCompleted, true, false, false, ""},
		},
		"fails and is repeated": {
			running, "prepare", 2,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.BMCPowerFailure}),
			outcome{durable.JobRunning, "prepare", 2, StageFailed, durable.TurnLater, "prepare", AnnounceStage, false, false, false, ""},
		},
		"fails once too often": {
			running, "prepare", 3,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.BMCPowerFailure}),
			outcome{durable.JobFailedManualIntervention, "prepare", 3, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"fails for good": {
			running, "prepare", 1,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.BMCPowerFailure, Final: true}),
			outcome{durable.JobFailedManualIntervention, "prepare", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"what passes gets more attempts": {
			at("deploy"), "deploy", 4,
			bringup.Result{},
			fault.New(fault.Unavailable, "away", "away"),
			outcome{durable.JobRunning, "deploy", 4, StageFailed, durable.TurnLater, "deploy", AnnounceStage, false, false, false, ""},
		},
		"and is parked as retryable": {
			at("deploy"), "deploy", 5,
			bringup.Result{},
			fault.New(fault.Unavailable, "away", "away"),
			outcome{durable.JobFailedRetryable, "deploy", 5, StageFailed, durable.TurnPark, "", AnnounceFailed, false, true, false, ""},
		},
		"a failure leads to a detour": {
			at("deploy"), "deploy", 1,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.DeployCloudInitFailure, Next: "mend"}),
			outcome{durable.JobRunning, "mend", 0, StageFailed, durable.TurnRun, "mend", AnnounceStage, false, false, false, ""},
		},
		"a code rewinds": {
			at("prove"), "prove", 1,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.HardwareSyncFailure, Code: "unproven"}),
			outcome{durable.JobFailedManualIntervention, "deploy", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"to a stage that there is": {
			at("prove"), "prove", 1,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.HardwareSyncFailure, Code: "lost_in_space"}),
			outcome{durable.JobFailedManualIntervention, "prove", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"an action is over when the job is parked": {
			Job{Status: durable.JobRunning, Stage: "prove", Action: durable.JobRerun},
			"prove", 1,
			bringup.Result{},
			errors.New("a defect"),
			outcome{durable.JobFailedManualIntervention, "prove", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, ""},
		},
		"adopts": {
			Job{Status: durable.JobRunning, Stage: "prepare", Action: durable.JobAdoptObserved},
			StageAdopt, 1,
			bringup.Result{Next: "prove"},
			nil,
			outcome{durable.JobRunning, "prove", 0, StageSucceeded, durable.TurnRun, "prove", AnnounceStage, false, false, false, ""},
		},
		"is undone": {
			undoing(durable.JobCancel), StageCompensate, 1,
			bringup.Result{},
			nil,
			outcome{durable.JobCancelled, "deploy", 1, StageCompensated, durable.TurnEnd, "", AnnounceCancelled, false, false, false, durable.JobCancel},
		},
		"is undone to start anew": {
			undoing(durable.JobRestartClean), StageCompensate, 1,
			bringup.Result{},
			nil,
			outcome{durable.JobRunning, "prepare", 0, StageCompensated, durable.TurnRun, "prepare", AnnounceStage, false, false, true, durable.JobRestartClean},
		},
		"undoing gets stuck": {
			undoing(durable.JobCancel), StageCompensate, 1,
			bringup.Result{},
			fails(bringup.Failure{Class: durable.UpstreamTransient, Final: true, Next: "mend"}),
			outcome{durable.JobFailedManualIntervention, "deploy", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false, durable.JobCancel},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config[plain]{Family: plainFamily(), Backoff: func(int) time.Duration { return time.Second }})
			stage, known := plainTable.Of(c.stage)
			if !known {
				t.Fatal("no such stage")
			}
			v := r.judge(attempt[plain]{
				call:  durable.StageCall{Stage: c.stage, Attempt: c.attempt, Epoch: 7},
				table: plainTable, stage: stage, row: plain{c.before}, before: c.before, work: &bringup.Work{}, result: c.result, err: c.err,
			})
			got := outcome{v.status, v.stage, v.attempts, v.told.Status, v.turn.Do, v.turn.Stage, v.announced(), v.complete, v.parks, v.anew, v.action}
			if got != c.want {
				t.Errorf("\ngot  %+v\nwant %+v", got, c.want)
			}
			if v.turn.Epoch != 7 {
				t.Errorf("epoch %d", v.turn.Epoch)
			}
		})
	}
}

func TestWhatTakesLongHasALimit(t *testing.T) {
	if turn := plainTable.turnTo("deploy", 1, 1, site.DefaultPolicy()); turn.Limit <= margin {
		t.Errorf("%+v", turn)
	}
	if turn := plainTable.turnTo("prepare", 1, 1, site.DefaultPolicy()); turn.Limit != 0 {
		t.Errorf("%+v", turn)
	}
}

func TestAFamilyMayForbidActions(t *testing.T) {
	f := plainFamily()
	f.Forbids = func(_ plain, action durable.JobEvent) bool {
		return action == durable.JobCancel || action == durable.JobRestartClean
	}
	parked := f.Parked("deploy", durable.StateAmbiguity)
	legal := f.LegalActions(parked)
	if slices.Contains(legal, durable.JobCancel) || slices.Contains(legal, durable.JobRestartClean) || len(legal) != 4 {
		t.Errorf("%v", legal)
	}
	for _, a := range f.Recommend(parked) {
		if !slices.Contains(legal, a.Action) {
			t.Errorf("%s is recommended and forbidden", a.Action)
		}
	}
	e := f.Explain(parked, nil, time.Unix(0, 0))
	if len(e.Actions) != len(Actions) || e.Actions[3].Rank != 4 || e.Actions[4].Legal {
		t.Errorf("%+v", e.Actions)
	}
	if err := f.NotAllowed(parked, durable.JobCancel); fault.CodeOf(err) != "action_not_allowed" {
		t.Error(err)
	}
	f.Forbids = func(plain, durable.JobEvent) bool { return true }
	if f.Recommended(parked) != "" || len(f.Recommend(parked)) != 0 {
		t.Error("something is recommended where nothing is possible")
	}
}

func TestRecommendations(t *testing.T) {
	f := plainFamily()
	f.First = map[durable.FailureClass][]durable.JobEvent{durable.HardwareMismatch: {durable.JobRerun}, durable.StateAmbiguity: {durable.JobCancel}}
	f.FirstOf = map[string]durable.JobEvent{"odd": durable.JobRestartClean, CodeMarked: durable.JobCancel}
	f.Adoptable = []string{"Ready"}
	for name, c := range map[string]struct {
		class  durable.FailureClass
		change func(*Job)
		want   durable.JobEvent
	}{
		"by class":                 {durable.HardwareMismatch, func(*Job) {}, durable.JobRerun},
		"by code":                  {durable.HardwareMismatch, func(j *Job) { j.ErrorCode = "odd" }, durable.JobRestartClean},
		"stopped by an operator":   {durable.StateAmbiguity, func(j *Job) { j.ErrorCode = CodeMarked }, durable.JobResume},
		"what can be adopted":      {durable.StateAmbiguity, func(j *Job) { j.Observed.Status = "Ready" }, durable.JobAdoptObserved},
		"what cannot be":           {durable.StateAmbiguity, func(j *Job) { j.Observed.Status = "Broken" }, durable.JobCancel},
		"undoing that got stuck":   {durable.HardwareMismatch, func(j *Job) { j.Action = durable.JobRestartClean }, durable.JobRestartClean},
		"a class without advice":   {durable.BMCPowerFailure, func(*Job) {}, durable.JobRetryStage},
		"nothing of one that runs": {durable.BMCPowerFailure, func(j *Job) { j.Status = durable.JobRunning }, ""},
	} {
		p := f.Parked("deploy", c.class)
		c.change(&p.Job)
		if got := f.Recommended(p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
