package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
)

// Turn is what the workflow of a job does next. Activities decide it, from the
// job's row and the table of its stages, and the history keeps it: a release
// that changes the table cannot derail a workflow that is under way.
type Turn struct {
	Do      TurnKind      `json:"do"`
	Stage   string        `json:"stage,omitempty"`   // to run next, unless the job ends
	Attempt int           `json:"attempt,omitempty"` // which one of the stage that will be
	Epoch   int64         `json:"epoch"`             // of the job, when this was decided
	Wait    time.Duration `json:"wait,omitempty"`    // Later: so long; Await: at most so long
	Signal  string        `json:"signal,omitempty"`  // Await: what ends the wait early; Park: what may mend the job
	Limit   time.Duration `json:"limit,omitempty"`   // for one execution of the stage
	// Marks are what people look for in Temporal; empty: as they were.
	Marks map[string]string `json:"marks,omitempty"`
}

// TurnKind says what sort of turn it is.
type TurnKind string

// The turns.
const (
	TurnRun   TurnKind = "run"   // run the stage now
	TurnLater TurnKind = "later" // run the stage after a while
	TurnAwait TurnKind = "await" // run the stage when a signal has come, or after a while
	TurnPark  TurnKind = "park"  // do nothing until an operator acts, or a signal may have mended the job
	TurnEnd   TurnKind = "end"   // the job is over
)

// ActSignal tells the workflow of a job that its row has changed under it: an
// operator acted. It carries nothing; the row says what to do.
const ActSignal = "act"

// Job is a job to the workflow that carries it out.
type Job struct {
	ID string
	// Next is the activity that reads the job's row and says what to do now. It
	// takes the id of the job and gives a Turn. It may carry out what it finds to be
	// done first, and then gives the Turn after that.
	Next string
	// Stage is the name of the activity of a stage. It takes a StageCall and
	// gives a Turn.
	Stage func(stage string) string
	// Signals are the names of those that turns may await. They may come before
	// anybody waits for them, or when nobody does any more.
	Signals []string
	// Lost is the activity that records that a stage could not be executed. It
	// takes a StageCall and a StageLoss and gives a Turn.
	Lost string
	// Wake is the activity that lets a parked job go on, if the signal that its
	// turn named has mended it. It takes the id of the job. Empty: no turn to park
	// names a signal.
	Wake string
}

// StageCall asks an activity for one attempt at a stage.
type StageCall struct {
	Job     string `json:"job"`
	Stage   string `json:"stage"`
	Attempt int    `json:"attempt"`
	Epoch   int64  `json:"epoch"`
}

// StageLoss is why an attempt brought no answer.
type StageLoss struct {
	Kind    fault.Kind `json:"kind"`
	Code    string     `json:"code"`
	Message string     `json:"message"`
}

// CodeSuperseded is the code of the fault of an activity whose epoch is over.
const CodeSuperseded = "job_superseded"

// Superseded is the fault of an activity whose epoch is over: it has had no
// effect that is not recorded, and must have none from now on.
func Superseded(noun, id string) error {
	return fault.New(fault.Conflict, CodeSuperseded, "%s %s was taken over by a later action", noun, id)
}

const (
	// A stage that is being executed says so at least this often; a worker that
	// was killed is noticed, and a stage that must stop hears of it, within it.
	stageHeartbeat = 15 * time.Second
	// What a stage that waits for nothing may take: a write to MAAS can take five
	// minutes, and one stage may make several.
	defaultStageLimit = 20 * time.Minute
)

// RunJob carries a job out, turn by turn. It ends when the job does: a job that
// failed is parked, and its workflow stays open and costs nothing.
func RunJob(ctx workflow.Context, job Job) error {
	turn, err := job.next(ctx)
	for err == nil && turn.Do != TurnEnd {
		if err = mark(ctx, turn.Marks); err != nil {
			return err
		}
		turn, err = job.take(ctx, turn)
	}
	if err == nil {
		err = mark(ctx, turn.Marks)
	}
	for _, name := range append(job.Signals, ActSignal) {
		drain(workflow.GetSignalChannel(ctx, name))
	}
	return err
}

// take does one turn and says what comes after it.
func (j Job) take(ctx workflow.Context, turn Turn) (Turn, error) {
	act := workflow.GetSignalChannel(ctx, ActSignal)
	switch turn.Do {
	case TurnRun:
		return j.run(ctx, turn)
	case TurnLater, TurnAwait:
		acted, err := pause(ctx, act, turn)
		if err != nil || acted {
			return j.nextAfter(ctx, err)
		}
		return j.run(ctx, turn)
	case TurnPark, TurnEnd:
		if err := j.parked(ctx, act, turn); err != nil {
			return Turn{}, err
		}
	}
	return j.next(ctx)
}

// parked waits for an operator, or for the signal that may have mended the job.
func (j Job) parked(ctx workflow.Context, act workflow.ReceiveChannel, turn Turn) error {
	if turn.Signal == "" { // also in histories of before, which name none
		act.Receive(ctx, nil)
		return nil
	}
	woken := false
	workflow.NewSelector(ctx).
		AddReceive(act, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		AddReceive(workflow.GetSignalChannel(ctx, turn.Signal),
			func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); drain(c); woken = true }).
		Select(ctx)
	if !woken {
		return nil
	}
	return Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, j.Wake, j.ID).Get(ctx, nil)
	})
}

// pause waits as a turn says; acted tells that an operator ended the wait.
func pause(ctx workflow.Context, act workflow.ReceiveChannel, turn Turn) (acted bool, err error) {
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	s := workflow.NewSelector(ctx).
		AddReceive(act, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); acted = true }).
		AddFuture(workflow.NewTimer(timerCtx, turn.Wait), func(f workflow.Future) { err = f.Get(ctx, nil) })
	if turn.Signal != "" {
		s.AddReceive(workflow.GetSignalChannel(ctx, turn.Signal),
			func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); drain(c) })
	}
	s.Select(ctx)
	return acted, err
}

func drain(c workflow.ReceiveChannel) {
	for c.ReceiveAsync(nil) {
	}
}

// run executes a stage. When an operator acts meanwhile, the stage is told to
// stop and has stopped before anything else is done.
func (j Job) run(ctx workflow.Context, turn Turn) (Turn, error) {
	limit := turn.Limit
	if limit == 0 {
		limit = defaultStageLimit
	}
	stageCtx, stop := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: limit, HeartbeatTimeout: stageHeartbeat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2,
			MaximumInterval: 30 * time.Second,
		},
	}))
	defer stop()
	call := StageCall{Job: j.ID, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch}
	done := workflow.ExecuteActivity(stageCtx, j.Stage(turn.Stage), call)
	acted := false
	act := workflow.GetSignalChannel(ctx, ActSignal)
	workflow.NewSelector(ctx).
		AddReceive(act, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); acted = true }).
		AddFuture(done, func(workflow.Future) {}).
		Select(ctx)
	if acted {
		stop()
	}
	var after Turn
	err := done.Get(ctx, &after)
	switch {
	case acted: // whatever the stage says, the row has the last word
		return j.nextAfter(ctx, nil)
	case err == nil:
		return after, nil
	case ctx.Err() != nil:
		return Turn{}, ctx.Err()
	}
	return j.lost(ctx, call, FromTemporal(err))
}

func (j Job) lost(ctx workflow.Context, call StageCall, err error) (Turn, error) {
	loss := StageLoss{
		Kind: fault.KindOf(err), Code: fault.CodeOf(err),
		Message: "the stage could not be executed; see the worker's log",
	}
	if loss.Code == CodeSuperseded {
		return j.next(ctx)
	}
	if f, ok := fault.As(err); ok {
		loss.Message = f.Message
	}
	var turn Turn
	insisted := Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, j.Lost, call, loss).Get(ctx, &turn)
	})
	return turn, insisted
}

// next asks the row. What operators did before it is read needs no telling.
func (j Job) next(ctx workflow.Context) (Turn, error) {
	drain(workflow.GetSignalChannel(ctx, ActSignal))
	var turn Turn
	err := Insist(ctx, func(ctx workflow.Context) error {
		// It may carry out what it finds, and takes as long as a stage then.
		options := workflow.GetActivityOptions(ctx)
		options.StartToCloseTimeout, options.HeartbeatTimeout = defaultStageLimit, stageHeartbeat
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), j.Next, j.ID).Get(ctx, &turn)
	})
	return turn, err
}

func (j Job) nextAfter(ctx workflow.Context, err error) (Turn, error) {
	if err != nil {
		return Turn{}, err
	}
	return j.next(ctx)
}

// mark notes in Temporal what people look for there. A workflow that was
// started without marks, because its Temporal has none of ours, gets none.
func mark(ctx workflow.Context, marks map[string]string) error {
	if len(marks) == 0 || workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		return nil
	}
	var updates []temporal.SearchAttributeUpdate
	for _, name := range workflow.DeterministicKeys(marks) {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(marks[name]))
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}
