package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// Runner is the handler of operation.run.
type Runner struct {
	Deps
	kinds  map[string]Kind
	spools spools
}

// New makes a runner with every kind of step that is compiled in.
func New(d Deps) *Runner {
	r := &Runner{
		Deps: d, kinds: map[string]Kind{}, spools: spools{open: map[string]*spool{}, ctx: context.Background()},
	}
	for name, maker := range makers {
		r.kinds[name] = maker(machine{d})
	}
	return r
}

// Check implements task.Handler. Nothing is done before Apply, so only what an
// earlier process finished can be the result.
func (r *Runner) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, err := paramsOf(t)
	if err != nil {
		return nil, false, err
	}
	x := newRun(r, t, p)
	for i := p.Begin; i < len(p.Steps); i++ {
		outcome, finished := x.finished(i)
		if !finished {
			return nil, false, nil
		}
		x.outcomes = append(x.outcomes, outcome)
		if x.ends(i, outcome) {
			break
		}
	}
	return x.output(), true, nil
}

// Apply implements task.Handler.
func (r *Runner) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := paramsOf(t)
	if err != nil {
		return nil, err
	}
	x := newRun(r, t, p)
	defer x.secrets.wipe()
	x.spool = r.take(t.Envelope)
	if p.TimeoutSeconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(p.TimeoutSeconds)*time.Second, errOverall)
		defer cancel()
	}
	for i := p.Begin; i < len(p.Steps); i++ {
		outcome, err := x.step(ctx, i)
		if err != nil {
			return nil, err // the agent ends; the next process goes on
		}
		x.outcomes = append(x.outcomes, outcome)
		if x.ends(i, outcome) {
			break
		}
	}
	if x.spool != nil {
		x.spool.close(logPatience)
	}
	return x.output(), nil
}

func paramsOf(t *task.Task) (*agentwire.OperationRunParams, error) {
	p, ok := t.Params.(*agentwire.OperationRunParams)
	if !ok {
		return nil, fmt.Errorf("task %s of type %s has parameters of type %T", t.TaskID, t.Type, t.Params)
	}
	return p, nil
}

// run is one operation under way.
type run struct {
	deps     Deps
	kinds    map[string]Kind
	task     *task.Task
	params   *agentwire.OperationRunParams
	secrets  *vault
	outcomes []agentwire.StepOutcome
	spool    *spool // nil: nobody takes the log
}

// logPatience is how long the end of a run waits for its log to be sent. What
// is left is sent later.
const logPatience = 10 * time.Second

func newRun(r *Runner, t *task.Task, p *agentwire.OperationRunParams) *run {
	return &run{deps: r.Deps, kinds: r.kinds, task: t, params: p, secrets: newVault()}
}

// ends says whether a run stops after a step.
func (x *run) ends(i int, o agentwire.StepOutcome) bool {
	switch o.Status {
	case agentwire.StepCancelled:
		return true
	case agentwire.StepFailed:
		return x.params.Steps[i].OnFailure == agentwire.OnFailureStop
	default:
		return false
	}
}

// output says what became of every step. Those that were not reached are named.
func (x *run) output() agentwire.OperationRunOutput {
	out := agentwire.OperationRunOutput{Steps: x.outcomes}
	for _, s := range x.params.Steps[x.params.Begin+len(x.outcomes):] {
		out.Steps = append(out.Steps, agentwire.StepOutcome{ID: s.ID, Kind: s.Kind, Status: agentwire.StepNotReached})
	}
	total := 0
	for i := range out.Steps {
		if total += len(out.Steps[i].Output); total > agentwire.MaxStepOutputs {
			total -= len(out.Steps[i].Output)
			out.Steps[i].Output, out.Steps[i].OutputDropped = nil, true
		}
	}
	return out
}

func (s *Step) key(what string) string { return "step/" + strconv.Itoa(s.index) + "/" + what }

// finished returns the outcome that an earlier process wrote down.
func (x *run) finished(i int) (agentwire.StepOutcome, bool) {
	var o agentwire.StepOutcome
	raw := x.task.Reporter.Recall((&Step{index: i}).key("outcome"))
	if raw == "" || json.Unmarshal([]byte(raw), &o) != nil {
		return o, false
	}
	return o, true
}

var (
	errOverall = errors.New("the run has used up its time")
	errTimeout = errors.New("the step has used up its time")
	// errCutOff ends a step that no cancel interrupts. It is a timeout of the
	// step: nobody knows how far it came.
	errCutOff = fmt.Errorf("%w: the run has none left", errTimeout)
)

// step does one step, unless it is done. An error means that the agent ends.
func (x *run) step(ctx context.Context, i int) (agentwire.StepOutcome, error) {
	spec := x.params.Steps[i]
	if o, finished := x.finished(i); finished && !x.mustAgain(i, o) {
		return o, nil
	}
	kind, _ := agentwire.LookupStep(spec.Kind)
	s := &Step{ID: spec.ID, Kind: kind, run: x, index: i}
	s.Begun = x.task.Reporter.Recall(s.key("begun")) != ""
	o := agentwire.StepOutcome{ID: spec.ID, Kind: spec.Kind, StartedAt: x.deps.Clock().UTC()}
	x.task.Reporter.Step(spec.ID, "started", "")
	err := x.attempts(ctx, s, spec, &o)
	if errors.Is(context.Cause(ctx), task.ErrInterrupted) && err != nil {
		return o, err
	}
	x.conclude(s, &o, err)
	raw, err := json.Marshal(o)
	if err != nil {
		return o, fmt.Errorf("encode outcome of step %s: %w", s.ID, err)
	}
	s.point("done")
	if err := x.task.Reporter.Checkpoint(s.key("outcome"), string(raw)); err != nil {
		return o, fmt.Errorf("write down the end of step %s: %w", s.ID, err)
	}
	s.point("written")
	message := o.Summary
	if o.Error != nil {
		message = o.Error.Message
	}
	x.task.Reporter.Step(spec.ID, stepWord(o.Status), message)
	return o, nil
}

// stepWord is how a sign of life calls the end of a step.
func stepWord(status string) string {
	switch status {
	case agentwire.StepSucceeded, agentwire.StepPlanned:
		return "succeeded"
	case agentwire.StepCancelled:
		return "skipped"
	default:
		return "failed"
	}
}

// mustAgain says that a finished step is of no use to the ones after it: the
// secrets it got went away with the process.
func (x *run) mustAgain(i int, o agentwire.StepOutcome) bool {
	return o.Status == agentwire.StepSucceeded && x.params.Steps[i].Kind == agentwire.StepCredentialMint
}

// attempts tries a step as often as its definition allows.
func (x *run) attempts(ctx context.Context, s *Step, spec agentwire.OperationStep, o *agentwire.StepOutcome) error {
	for n := 1; ; n++ {
		s.Attempt, o.Attempts = n, n
		err := x.once(ctx, s, spec, o)
		var f *Failure
		if err == nil || ctx.Err() != nil || n >= spec.Attempts || !errors.As(err, &f) ||
			f.Class != agentwire.FailureTransient {
			return err
		}
		s.Say(agentwire.StreamAgent, fmt.Sprintf("attempt %d of %d failed: %s", n, spec.Attempts, err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(spec.BackoffSeconds) * time.Second):
		}
	}
}

// once fills in what earlier steps gave, looks, and changes what is not as
// wanted.
func (x *run) once(ctx context.Context, s *Step, spec agentwire.OperationStep, o *agentwire.StepOutcome) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail(agentwire.FailureAmbiguous, "handler_panic",
				fmt.Sprintf("the handler of %s panicked: %v", s.Kind.Kind, p),
				"report it to the makers of gpuaas; look at the node before the run is taken up again", nil)
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	handler, ok := x.kinds[s.Kind.Kind]
	if !ok {
		return fail(agentwire.FailureCapability, "step_kind_unknown", "this agent does not carry out steps of the kind "+
			s.Kind.Kind, "update the agent of the node", nil)
	}
	filled, err := s.Kind.Fill(spec.With, x.find)
	if err == nil {
		s.Params, err = s.Kind.DecodeFilled(filled)
	}
	if err != nil {
		return fail(agentwire.FailurePermanent, "step_params_invalid", "the parameters of step "+s.ID+
			" are wrong after the results of earlier steps were filled in",
			"mend the definition or its inputs, and run it anew", err)
	}
	base, done := uninterrupted(ctx, s.Kind)
	defer done()
	within, cancel := context.WithTimeoutCause(base, time.Duration(spec.TimeoutSeconds)*time.Second, errTimeout)
	defer cancel()
	return x.checkAndApply(within, s, handler, o)
}

// uninterrupted returns what limits a step. One that must not be interrupted
// outlives a cancel, and ends at its own time limit or at the run's.
func uninterrupted(ctx context.Context, kind agentwire.StepKind) (context.Context, context.CancelFunc) {
	until, limited := ctx.Deadline()
	switch {
	case kind.Interruptible:
		return ctx, func() {}
	case !limited:
		return context.WithoutCancel(ctx), func() {}
	default:
		return context.WithDeadlineCause(context.WithoutCancel(ctx), until, errCutOff)
	}
}

func (x *run) checkAndApply(ctx context.Context, s *Step, handler Kind, o *agentwire.StepOutcome) error {
	look, err := handler.Check(ctx, s)
	o.ResolvedProfile, o.HardwareMatch = s.profile, s.match
	if err != nil {
		return x.explained(ctx, s, err)
	}
	o.Summary = look.Summary
	if x.params.Plan {
		o.Changed = !look.Done
		return x.put(o, look.Output)
	}
	if look.Done {
		o.Changed = s.Begun // an earlier process did it
		return x.put(o, look.Output)
	}
	if err := x.task.Reporter.Checkpoint(s.key("begun"), strconv.Itoa(s.Attempt)); err != nil {
		return fail(agentwire.FailureTransient, "journal_unavailable", "the step was not begun, because the agent cannot "+
			"write it down", "free space on the disk of the node", err)
	}
	s.point("begun")
	result, err := handler.Apply(ctx, s)
	s.point("applied")
	if err != nil {
		return x.doubted(ctx, s, handler, o, x.explained(ctx, s, err))
	}
	o.Changed, o.Summary = result.Changed, result.Summary
	return x.put(o, result.Output)
}

// doubted looks once more after a failure of which nobody knows whether the
// step was done. It is not done again.
func (x *run) doubted(ctx context.Context, s *Step, handler Kind, o *agentwire.StepOutcome, err error) error {
	var f *Failure
	if !errors.As(err, &f) || f.Class != agentwire.FailureAmbiguous {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	look, probe := handler.Check(again, s)
	if probe != nil || !look.Done {
		return err
	}
	s.Say(agentwire.StreamAgent, "the step failed, but the node is as wanted: "+err.Error())
	o.Changed, o.Summary = true, look.Summary
	return x.put(o, look.Output)
}

// explained gives every failure a class.
func (x *run) explained(ctx context.Context, s *Step, err error) error {
	var f *Failure
	if errors.As(err, &f) {
		return err
	}
	if errors.Is(context.Cause(ctx), errTimeout) {
		class := agentwire.FailureTransient
		if s.Kind.Impact.Changes() {
			class = agentwire.FailureAmbiguous
		}
		return fail(class, "step_timeout", "step "+s.ID+" did not end in time",
			"look at its log for what took so long; give it more time in the definition", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fail(agentwire.FailurePermanent, "step_failed", "step "+s.ID+" failed", "look at its log", err)
}

// put encodes the output of a step and checks it against the contract.
func (x *run) put(o *agentwire.StepOutcome, output any) error {
	if output == nil {
		return nil
	}
	raw, err := json.Marshal(output)
	kind, _ := agentwire.LookupStep(o.Kind)
	if err == nil {
		_, err = kind.Output(raw)
	}
	if err != nil {
		return fail(agentwire.FailurePermanent, "output_invalid", "the output of step "+o.ID+" cannot be reported",
			"report it to the makers of gpuaas", err)
	}
	// Whatever a step puts into its output, no secret leaves the node with it.
	if clean := []byte(x.secrets.redact(string(raw))); !bytes.Equal(clean, raw) && json.Valid(clean) {
		raw = clean
	}
	if len(raw) > agentwire.MaxStepOutput {
		o.OutputDropped = true
		return nil
	}
	o.Output = raw
	return nil
}

// conclude turns the end of a step into its outcome.
func (x *run) conclude(s *Step, o *agentwire.StepOutcome, err error) {
	o.FinishedAt = x.deps.Clock().UTC()
	var f *Failure
	switch {
	case err == nil && x.params.Plan:
		o.Status = agentwire.StepPlanned
	case err == nil:
		o.Status = agentwire.StepSucceeded
	case errors.As(err, &f):
		o.Status = agentwire.StepFailed
		o.Error = &agentwire.StepError{
			Code: f.Code, Class: f.Class, Message: bounded(x.secrets.redact(f.Error())), Remedy: f.Remedy,
		}
		if f.Output != nil {
			if bad := x.put(o, f.Output); bad != nil {
				s.Say(agentwire.StreamAgent, bad.Error())
			}
		}
	default: // the run was stopped
		o.Status = agentwire.StepCancelled
		o.Error = &agentwire.StepError{
			Code: "cancelled", Class: agentwire.FailureCancelled, Message: bounded(x.secrets.redact(err.Error())),
			Remedy: "take the run up again when it may go on",
		}
	}
	o.Summary = bounded(x.secrets.redact(o.Summary))
	if o.Error != nil { // whoever follows the log reads there why it ends
		s.Say(agentwire.StreamAgent, o.Status+": "+o.Error.Message)
	}
	if x.spool != nil {
		o.LogLines, o.LogBytesDropped = x.spool.counts(s.ID)
	}
}

const maxMessage = 4000

func bounded(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return s[:maxMessage] + "…"
}

// find looks up the result of an earlier step.
func (x *run) find(r agentwire.Reference) (agentwire.Value, bool, error) {
	if r.Root != agentwire.RootSteps {
		return agentwire.Value{}, false, errors.New("the control plane did not fill it in")
	}
	id, path := r.Path[0], r.Path[1:]
	raw, kindName := x.params.Earlier[id], ""
	for _, s := range x.params.Steps {
		if s.ID == id {
			kindName = s.Kind
		}
	}
	for _, o := range x.outcomes {
		if o.ID == id {
			raw = o.Output
		}
	}
	kind, _ := agentwire.LookupStep(kindName)
	gives, _ := kind.OutputField(path)
	value, err := dig(raw, path)
	if err != nil {
		return agentwire.Value{}, true, err
	}
	return agentwire.Value{JSON: value, Secret: gives == "secret"}, true, nil
}

// dig follows names into a document. What is not there is nil.
func dig(raw json.RawMessage, path []string) (json.RawMessage, error) {
	for _, name := range path {
		if len(raw) == 0 {
			return nil, nil
		}
		switch raw[0] {
		case '{':
			members := map[string]json.RawMessage{}
			if err := json.Unmarshal(raw, &members); err != nil {
				return nil, fmt.Errorf("decode: %w", err)
			}
			raw = members[name]
		case '[':
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, fmt.Errorf("decode: %w", err)
			}
			i, err := strconv.Atoi(name)
			if err != nil {
				return nil, fmt.Errorf("%q is not the number of an entry: %w", name, err)
			}
			if i < 0 || i >= len(items) {
				return nil, nil
			}
			raw = items[i]
		default:
			return nil, nil
		}
	}
	if string(raw) == "null" {
		return nil, nil
	}
	return raw, nil
}
