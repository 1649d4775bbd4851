package job

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
)

type plain struct {
	Job
	ready bool // it can be adopted
}

const broken FailureClass = "broken"

var plainTable = Table{
	{Name: "prepare", Title: "Prepare", Attempts: 3, Resume: "prepare"},
	{Name: "deploy", Title: "Deploy", Attempts: 1, Limit: "deploy", Resume: "prepare"},
	{Name: "mend", Title: "Mend", Attempts: 1, Resume: "prepare", Detour: true},
	{Name: "prove", Title: "Prove", Attempts: 1, Resume: "prove"},
	{Name: StageCompensate, Title: "Undo", Attempts: 3, Pseudo: true},
	{Name: StageAdopt, Title: "Adopt", Attempts: 1, Pseudo: true},
}

func plainFamily() *Family[plain] {
	return &Family[plain]{
		Noun: "chore", Life: &Parking, Table: func(plain) Table { return plainTable },
		Sample: func(j Job) plain { return plain{Job: j} },
		Undone: func(plain) string { return "nothing is undone" }, AfterEnd: func(plain) string { return "it has ended" },
		Reached: func(p plain, took string) string { return p.Subject + " is done" + took },
	}
}

// outcome is what matters of a verdict.
type outcome struct {
	status   Status
	stage    string
	attempts int
	told     EventStatus
	do       durable.TurnKind
	next     string // stage of the turn
	tells    Announced
	complete bool
	parks    bool
	anew     bool
	action   Trigger
}

func TestVerdicts(t *testing.T) {
	fails := func(f Failure) error { return &f }
	running := Job{Status: Running, Stage: "prepare"}
	at := func(stage string) Job { return Job{Status: Running, Stage: stage} }
	undoing := func(action Trigger) Job {
		return Job{Status: Compensating, Stage: "deploy", Action: action}
	}
	for name, c := range map[string]struct {
		before  Job
		stage   string
		attempt int
		result  Result
		err     error
		want    outcome
	}{
		"goes on": {
			running, "prepare", 1,
			Result{},
			nil,
			outcome{Running, "deploy", 0, StageSucceeded, durable.TurnRun, "deploy", AnnounceStage, false, false, false, ""},
		},
		"is skipped": {
			running, "prepare", 1,
			Result{Skipped: true},
			nil,
			outcome{Running, "deploy", 0, StageSkipped, durable.TurnRun, "deploy", AnnounceStage, false, false, false, ""},
		},
		"leads elsewhere": {
			running, "prepare", 1,
			Result{Next: "prove"},
			nil,
			outcome{Running, "prove", 0, StageSucceeded, durable.TurnRun, "prove", AnnounceStage, false, false, false, ""},
		},
		"leads nowhere": {
			running, "prepare", 1,
			Result{Next: "nowhere"},
			nil,
			outcome{
				FailedManualIntervention, "prepare", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true,
				false, "",
			},
		},
		"leads to a pseudo stage": {
			running, "prepare", 1,
			Result{Next: StageAdopt},
			nil,
			outcome{
				FailedManualIntervention, "prepare", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true,
				false, "",
			},
		},
		"passes detours by": {
			at("deploy"), "deploy", 1,
			Result{},
			nil,
			outcome{Running, "prove", 0, StageSucceeded, durable.TurnRun, "prove", AnnounceStage, false, false, false, ""},
		},
		"a detour must lead somewhere": {
			at("mend"), "mend", 1,
			Result{},
			nil,
			outcome{
				FailedManualIntervention, "mend", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false,
				"",
			},
		},
		"waits quietly": {
			running, "prepare", 2,
			Result{Await: &Await{Most: time.Minute}},
			nil,
			outcome{Running, "prepare", 2, "", durable.TurnAwait, "prepare", "", false, false, false, ""},
		},
		"waits and says so": {
			running, "prepare", 2,
			Result{Message: "not yet", Await: &Await{Most: time.Minute}},
			nil,
			outcome{Running, "prepare", 2, StageNote, durable.TurnAwait, "prepare", AnnounceStage, false, false, false, ""},
		},
		"reaches its goal": {
			at("prove"), "prove", 1,
			Result{},
			nil,
			outcome{Completed, "prove", 0, StageSucceeded, durable.TurnEnd, "", AnnounceCompleted, true, false, false, ""},
		},
		"reaches its goal by adoption": {
			Job{Status: Running, Stage: "prove", Adopted: true},
			"prove", 1,
			Result{},
			nil,
			outcome{Reconciled, "prove", 0, StageSucceeded, durable.TurnEnd, "", AnnounceCompleted, true, false, false, ""},
		},
		"fails and is repeated": {
			running, "prepare", 2,
			Result{},
			fails(Failure{Class: "BMCPowerFailure"}),
			outcome{Running, "prepare", 2, StageFailed, durable.TurnLater, "prepare", AnnounceStage, false, false, false, ""},
		},
		"fails once too often": {
			running, "prepare", 3,
			Result{},
			fails(Failure{Class: "BMCPowerFailure"}),
			outcome{
				FailedManualIntervention, "prepare", 3, StageFailed, durable.TurnPark, "", AnnounceManual, false, true,
				false, "",
			},
		},
		"fails for good": {
			running, "prepare", 1,
			Result{},
			fails(Failure{Class: "BMCPowerFailure", Final: true}),
			outcome{
				FailedManualIntervention, "prepare", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true,
				false, "",
			},
		},
		"what passes gets more attempts": {
			at("deploy"), "deploy", 4,
			Result{},
			fault.New(fault.Unavailable, "away", "away"),
			outcome{Running, "deploy", 4, StageFailed, durable.TurnLater, "deploy", AnnounceStage, false, false, false, ""},
		},
		"and is parked as retryable": {
			at("deploy"), "deploy", 5,
			Result{},
			fault.New(fault.Unavailable, "away", "away"),
			outcome{FailedRetryable, "deploy", 5, StageFailed, durable.TurnPark, "", AnnounceFailed, false, true, false, ""},
		},
		"a failure leads to a detour": {
			at("deploy"), "deploy", 1,
			Result{},
			fails(Failure{Class: "DeployCloudInitFailure", Next: "mend"}),
			outcome{Running, "mend", 0, StageFailed, durable.TurnRun, "mend", AnnounceStage, false, false, false, ""},
		},
		"a code rewinds": {
			at("prove"), "prove", 1,
			Result{},
			fails(Failure{Class: "HardwareSyncFailure", Code: &Code{Name: "unproven", Rewind: "deploy"}}),
			outcome{
				FailedManualIntervention, "deploy", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false,
				"",
			},
		},
		"to a stage that there is": {
			at("prove"), "prove", 1,
			Result{},
			fails(Failure{Class: "HardwareSyncFailure", Code: &Code{Name: "lost_in_space", Rewind: "nowhere"}}),
			outcome{
				FailedManualIntervention, "prove", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false,
				"",
			},
		},
		"an action is over when the job is parked": {
			Job{Status: Running, Stage: "prove", Action: Rerun},
			"prove", 1,
			Result{},
			errors.New("a defect"),
			outcome{
				FailedManualIntervention, "prove", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false,
				"",
			},
		},
		"adopts": {
			Job{Status: Running, Stage: "prepare", Action: AdoptObserved},
			StageAdopt, 1,
			Result{Next: "prove"},
			nil,
			outcome{Running, "prove", 0, StageSucceeded, durable.TurnRun, "prove", AnnounceStage, false, false, false, ""},
		},
		"is undone": {
			undoing(Cancel), StageCompensate, 1,
			Result{},
			nil,
			outcome{
				Cancelled, "deploy", 1, StageCompensated, durable.TurnEnd, "", AnnounceCancelled, false, false, false,
				Cancel,
			},
		},
		"is undone to start anew": {
			undoing(RestartClean), StageCompensate, 1,
			Result{},
			nil,
			outcome{
				Running, "prepare", 0, StageCompensated, durable.TurnRun, "prepare", AnnounceStage, false, false, true,
				RestartClean,
			},
		},
		"undoing gets stuck": {
			undoing(Cancel), StageCompensate, 1,
			Result{},
			fails(Failure{Class: UpstreamTransient, Final: true, Next: "mend"}),
			outcome{
				FailedManualIntervention, "deploy", 1, StageFailed, durable.TurnPark, "", AnnounceManual, false, true, false,
				Cancel,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config[plain, *Work]{Family: plainFamily(), Backoff: func(int) time.Duration { return time.Second }})
			stage, known := plainTable.Of(c.stage)
			if !known {
				t.Fatal("no such stage")
			}
			c.before.Phase = Parking.PhaseOf(c.before.Status)
			v := r.judge(attempt[plain, *Work]{
				call:  durable.StageCall{Stage: c.stage, Attempt: c.attempt, Epoch: 7},
				table: plainTable, stage: stage, row: plain{Job: c.before}, before: c.before, work: &Work{}, result: c.result,
				err: c.err,
			})
			got := outcome{
				v.status, v.stage, v.attempts, v.told.Status, v.turn.Do, v.turn.Stage, v.announced(), v.complete,
				v.parks, v.anew, v.action,
			}
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
	if turn := plainTable.turnTo("deploy", 1, 1, Limits{"deploy": time.Hour}); turn.Limit <= margin {
		t.Errorf("%+v", turn)
	}
	if turn := plainTable.turnTo("prepare", 1, 1, Limits{"deploy": time.Hour}); turn.Limit != 0 {
		t.Errorf("%+v", turn)
	}
}

func TestAFamilyMayForbidActions(t *testing.T) {
	f := plainFamily()
	f.Forbids = func(_ plain, action Trigger) bool {
		return action == Cancel || action == RestartClean
	}
	parked := f.ParkedBy("deploy", StateAmbiguity)
	legal := f.LegalActions(parked)
	if slices.Contains(legal, Cancel) || slices.Contains(legal, RestartClean) || len(legal) != 4 {
		t.Errorf("%v", legal)
	}
	for _, a := range f.Recommend(parked) {
		if !slices.Contains(legal, a.Action) {
			t.Errorf("%s is recommended and forbidden", a.Action)
		}
	}
	e := f.Explain(parked, nil, time.Unix(0, 0))
	if len(e.Actions) != len(Parking.Actions) || e.Actions[3].Rank != 4 || e.Actions[4].Legal {
		t.Errorf("%+v", e.Actions)
	}
	if err := f.NotAllowed(parked, Cancel); fault.CodeOf(err) != "action_not_allowed" {
		t.Error(err)
	}
	f.Forbids = func(plain, Trigger) bool { return true }
	if f.Recommended(parked) != "" || len(f.Recommend(parked)) != 0 {
		t.Error("something is recommended where nothing is possible")
	}
}

// What mends comes first, and among what mends the safest: also where a family
// names the dangerous one first.
func TestRecommendedActionsAreOrderedSafestFirst(t *testing.T) {
	f := plainFamily()
	f.First = map[FailureClass][]Trigger{broken: {RestartClean, Cancel, Resume}}
	f.HoldsData = func(plain) bool { return true }
	var got []Trigger
	for _, a := range f.Recommend(f.ParkedBy("deploy", broken)) {
		got = append(got, a.Action)
	}
	want := []Trigger{Resume, Cancel, RestartClean, RetryStage, Rerun, AdoptObserved}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

var (
	_ = DeclareCode(Code{Name: "odd", Mends: Mends{AnyFamily: RestartClean}})
	_ = DeclareCode(Code{Name: "odd_chore", Mends: Mends{AnyFamily: RestartClean, "chore": AdoptObserved}})
	_ = DeclareCode(Code{Name: "odd_errand", Mends: Mends{"errand": RestartClean}})
)

func TestRecommendations(t *testing.T) {
	f := plainFamily()
	f.First = map[FailureClass][]Trigger{broken: {Rerun}, StateAmbiguity: {Cancel}}
	f.Adoptable = func(p plain) bool { return p.ready }
	for name, c := range map[string]struct {
		class  FailureClass
		change func(*plain)
		want   Trigger
	}{
		"by class":                 {broken, func(*plain) {}, Rerun},
		"by code":                  {broken, func(j *plain) { j.ErrorCode = "odd" }, RestartClean},
		"by code, in this family":  {broken, func(j *plain) { j.ErrorCode = "odd_chore" }, AdoptObserved},
		"by code, in another one":  {broken, func(j *plain) { j.ErrorCode = "odd_errand" }, Rerun},
		"stopped by an operator":   {StateAmbiguity, func(j *plain) { j.ErrorCode = CodeMarked }, Resume},
		"what can be adopted":      {StateAmbiguity, func(j *plain) { j.ready = true }, AdoptObserved},
		"what cannot be":           {StateAmbiguity, func(j *plain) { j.ready = false }, Cancel},
		"undoing that got stuck":   {broken, func(j *plain) { j.Action = RestartClean }, RestartClean},
		"a class without advice":   {"BMCPowerFailure", func(*plain) {}, RetryStage},
		"nothing of one that runs": {"BMCPowerFailure", func(j *plain) { j.Status = Running }, ""},
	} {
		p := f.ParkedBy("deploy", c.class)
		c.change(&p)
		if got := f.Recommended(p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
