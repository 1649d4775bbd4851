package onboarding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/binding"
	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/node"
	"gpuaas/controlplane/internal/onboarding/internal/onboardingdb"
	"gpuaas/controlplane/internal/site"
)

const workKind = "onboarding"

// next reads the row and says what its workflow does now. An onboarding that
// waits for its workflow starts here.
func (s *Service) next(ctx context.Context, job id.Onboarding, run string) (durable.Turn, error) {
	o, err := s.Get(ctx, job)
	if err != nil {
		return durable.Turn{}, err
	}
	if o.Status == durable.JobPending {
		if o, err = s.start(ctx, job, run); err != nil {
			return durable.Turn{}, err
		}
	}
	turn := durable.Turn{Do: durable.TurnEnd, Epoch: o.Epoch}
	switch o.Status {
	case durable.JobRunning, durable.JobCompensating:
		policy, err := s.policy(ctx, o)
		if err != nil {
			return durable.Turn{}, err
		}
		attempt, err := s.nextAttempt(ctx, o)
		if err != nil {
			return durable.Turn{}, err
		}
		turn = turnTo(o.under(), attempt, o.Epoch, policy)
	case durable.JobFailedRetryable, durable.JobFailedManualIntervention:
		turn.Do = durable.TurnPark
	case durable.JobPending, durable.JobCompleted, durable.JobCancelled, durable.JobReconciled:
	}
	turn.Marks = statusMarks(o.Status, o.Stage)
	return turn, nil
}

// nextAttempt is the number of the attempt that comes now. One whose worker died
// is taken up again as the same: only attempts that ended count.
func (s *Service) nextAttempt(ctx context.Context, o Onboarding) (int, error) {
	unfinished, err := s.reads.Unfinished(ctx, onboardingdb.UnfinishedParams{OnboardingID: o.ID, Epoch: o.Epoch, Stage: o.under()})
	if err != nil {
		return 0, fmt.Errorf("read ledger of onboarding: %w", err)
	}
	if unfinished && o.Attempt > 0 {
		return o.Attempt, nil
	}
	return o.Attempt + 1, nil
}

// under is what is to be run for a row.
func (o Onboarding) under() string {
	switch {
	case o.Status == durable.JobCompensating:
		return StageCompensate
	case o.Action == durable.JobAdoptObserved:
		return StageAdopt
	}
	return o.Stage
}

// policy is that of the profile, for time limits alone: what a stage needs of a
// profile that is gone it will miss itself.
func (s *Service) policy(ctx context.Context, o Onboarding) (site.Policy, error) {
	p, err := s.sites.Profile(ctx, o.Site, o.Profile)
	if fault.KindOf(err) == fault.NotFound {
		return site.DefaultPolicy(), nil
	}
	return p.Policy, err
}

func (s *Service) start(ctx context.Context, job id.Onboarding, run string) (Onboarding, error) {
	var o Onboarding
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now := s.now()
		r, err := onboardingdb.New(tx).Start(ctx, onboardingdb.StartParams{ID: job, StartedAt: &now, WorkflowRunID: run})
		if errors.Is(err, pgx.ErrNoRows) { // somebody else was faster
			r, err = onboardingdb.New(tx).Get(ctx, job)
			o, err = found(r, err)
			return err
		}
		if o, err = found(r, err); err != nil {
			return err
		}
		return announce(ctx, tx, eventwire.NodeOnboardingStarted, o, Event{Stage: o.Stage})
	})
	return o, err
}

// begin takes a stage up. A run that the row does not expect is superseded.
func (s *Service) begin(ctx context.Context, call durable.StageCall, run string, chained bool) (attempt, error) {
	a := attempt{call: call}
	job, err := id.Parse[id.Onboarding](call.Job)
	if err != nil {
		return a, fault.Wrap(err, fault.Internal, "onboarding_id_malformed", "%q is not the id of an onboarding", call.Job)
	}
	var ok bool
	if a.stage, ok = StageOf(call.Stage); !ok {
		return a, fault.New(fault.Internal, "stage_unknown", "there is no stage %s", call.Stage)
	}
	r, err := s.reads.BeginStage(ctx, onboardingdb.BeginStageParams{
		ID: job, Epoch: call.Epoch, Stage: call.Stage, Attempt: int32(call.Attempt), WorkflowRunID: run, Chained: chained, Now: s.now(), //nolint:gosec // attempts are few
	})
	if a.before, err = current(r, err, job); err != nil {
		return a, err
	}
	a.work, a.token = s.workOf(a.before, a.stage)
	return a, nil
}

// equip reads the site and the profile, as they are now.
func (s *Service) equip(ctx context.Context, a attempt) error {
	var err error
	if a.work.Site, err = s.sites.Site(ctx, a.before.Site); err != nil {
		return err
	}
	if a.work.Profile, err = s.sites.Profile(ctx, a.before.Site, a.before.Profile); err != nil {
		return err
	}
	if limit := a.stage.TimeLimit(a.work.Profile.Policy); limit > 0 {
		a.work.Deadline = a.work.Since.Add(limit)
	}
	return nil
}

func (s *Service) workOf(o Onboarding, stage Stage) (*bringup.Work, *token) {
	w := &bringup.Work{
		Kind: workKind, Job: o.ID.String(), WorkflowID: o.WorkflowID, Epoch: o.Epoch, Attempt: o.Attempt, Since: s.now(),
		SKU: o.SKU, Hostname: o.Hostname, IPMIIP: o.IPMIIP, Node: o.Node, InitializeDisks: o.InitializeDisks,
		Reset:  stage.Name == StageCompensate && o.Action == durable.JobRestartClean,
		PXEMAC: o.PXEMAC, SystemID: o.SystemID, Facts: o.Facts, Observed: o.Observed,
	}
	if o.StageStartedAt != nil {
		w.Since = *o.StageStartedAt
	}
	mine := &token{of: o.UpdatedAt}
	w.Fence = func(ctx context.Context) error { return s.fence(ctx, o, mine) }
	w.Save = func(ctx context.Context) error { return s.save(ctx, o, w, mine) }
	return w, mine
}

// token is what an execution of a stage holds while nobody else has taken the
// stage up: the time of the last change of the row, which it made itself.
type token struct {
	mu sync.Mutex
	of time.Time
}

func (s *Service) fence(ctx context.Context, o Onboarding, mine *token) error {
	mine.mu.Lock()
	defer mine.mu.Unlock()
	holds, err := s.reads.Fence(ctx, onboardingdb.FenceParams{ID: o.ID, Epoch: o.Epoch, Token: mine.of})
	if err != nil {
		return fmt.Errorf("ask fence of onboarding: %w", err)
	}
	if !holds {
		return superseded(o.ID)
	}
	return nil
}

// claimedByOther says that another onboarding in flight has the machine.
func claimedByOther(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.ConstraintName == "node_onboardings_machine"
}

// disclaim lets go of a machine that another onboarding has.
func disclaim(o Onboarding, w *bringup.Work) *bringup.Failure {
	claimed := w.SystemID
	w.SystemID = o.SystemID
	return &bringup.Failure{
		Class: durable.StateAmbiguity, Code: "machine_claimed", Final: true,
		Message: fmt.Sprintf("machine %s of MAAS is being onboarded under another name already", claimed),
		Remedy:  "find out which of the two the machine is; cancel the other onboarding, then rerun",
		Details: map[string]any{"system_id": claimed},
	}
}

// save keeps what a stage has found out so far.
func (s *Service) save(ctx context.Context, o Onboarding, w *bringup.Work, mine *token) error {
	facts, err := encodeFacts(w.Facts)
	if err != nil {
		return err
	}
	mine.mu.Lock()
	defer mine.mu.Unlock()
	changed, err := s.reads.Save(ctx, onboardingdb.SaveParams{
		ID: o.ID, Epoch: o.Epoch, Token: mine.of, MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts,
		ObservedStatus: w.Observed.Status, ObservedPower: w.Observed.Power, ObservedIps: listed(w.Observed.IPs), ObservedAt: instant(w.Observed.At),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return superseded(o.ID)
	case claimedByOther(err):
		return disclaim(o, w)
	case err != nil:
		return fmt.Errorf("save onboarding: %w", err)
	}
	mine.of = changed
	return nil
}

func listed(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

// record ends an attempt: the row, the ledger, the event and, when the job gives
// its place back, the next one that gets it, in one transaction.
func (s *Service) record(ctx context.Context, a attempt) (durable.Turn, error) {
	v := s.judge(a)
	err := s.carryOut(ctx, a, v)
	var f *bringup.Failure
	switch {
	case v.complete && errors.As(err, &f): // the node does not agree
		v = s.judgeFailure(a, f)
		err = s.carryOut(ctx, a, v)
	case claimedByOther(err):
		v = s.judgeFailure(a, disclaim(a.before, a.work))
		err = s.carryOut(ctx, a, v)
	}
	if fault.KindOf(err) == fault.Ambiguous { // repeating finds out; a result that was recorded supersedes
		err = fault.Wrap(err, fault.Unavailable, "stage_not_recorded", "the end of the stage may not have been recorded")
	}
	return v.turn, err
}

func (s *Service) carryOut(ctx context.Context, a attempt, v verdict) error {
	p, err := s.columns(a, v)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if v.anew {
			if p.NodeID, err = freshNode(ctx, tx, a.before); err != nil {
				return err
			}
		}
		r, err := onboardingdb.New(tx).EndStage(ctx, p)
		after, err := current(r, err, a.before.ID)
		if err != nil {
			return err
		}
		if v.complete {
			if err := complete(ctx, tx, a.work, after); err != nil {
				return err
			}
		}
		if kind := v.event(); kind != "" {
			if err := announce(ctx, tx, kind, after, v.told); err != nil {
				return err
			}
		}
		if !holdsPlace(after) {
			return s.handOn(ctx, tx, after.Site)
		}
		return nil
	})
}

// columns is a verdict as the row and the ledger have it.
func (s *Service) columns(a attempt, v verdict) (onboardingdb.EndStageParams, error) {
	now, w := s.now(), a.work
	p := onboardingdb.EndStageParams{
		ID: a.before.ID, Epoch: a.call.Epoch, Token: a.token.of, Attempt: int32(a.call.Attempt), Now: now, //nolint:gosec // attempts are few
		MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, NodeID: w.Node,
		ObservedStatus: w.Observed.Status, ObservedPower: w.Observed.Power, ObservedIps: listed(w.Observed.IPs), ObservedAt: instant(w.Observed.At),
		Status: string(v.status), NextStage: v.stage, NextAttempt: int32(v.attempts), SameStage: v.attempts > 0, //nolint:gosec // attempts are few
		Action: string(v.action), Adopted: v.adopted,
		ToldStage: v.told.Stage, ToldStatus: string(v.told.Status), ToldMessage: bounded(v.told.Message),
	}
	facts := w.Facts
	if v.anew {
		facts, p.MaasSystemID, p.PxeMac = forgetMachine(facts), "", ""
	}
	var details map[string]any
	if v.parks {
		p.FailureClass, p.ErrorCode, p.ErrorMessage, p.ErrorRemedy = string(v.why.Class), v.why.Code, bounded(v.why.Message), bounded(v.why.Remedy)
		details, p.ParkedAt = v.why.Details, &now
	}
	if s, ok := durable.JobLifecycle.State(v.status); ok && s.Terminal {
		p.CompletedAt = &now
	}
	var failures [3]error
	p.Facts, failures[0] = encodeFacts(facts)
	p.ErrorDetails, failures[1] = encoded(details)
	p.ToldDetails, failures[2] = encoded(v.details(a))
	return p, errors.Join(failures[:]...)
}

// bounded keeps a text to what a person reads.
func bounded(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// complete makes the node part of the fleet. No node becomes active without an
// agent that has polled and, where it is required, a healthy sync.
func complete(ctx context.Context, tx pgx.Tx, w *bringup.Work, o Onboarding) error {
	n, err := node.Get(ctx, tx, o.Node)
	if err != nil {
		return disagreeing(err)
	}
	healthy := w.Facts.SyncHealthy != nil && (w.Facts.DeployedAt == nil || !w.Facts.SyncHealthy.Before(*w.Facts.DeployedAt))
	switch {
	case w.SystemID == "":
		return notReady(durable.StateAmbiguity, "machine_unknown", "which machine of MAAS %s is, is not known", n.Hostname)
	case n.FirstPollAt == nil:
		return notReady(durable.AgentEnrollmentFailure, "agent_not_seen", "the agent of node %s has not polled", n.Hostname)
	case w.Profile.Policy.RequireHWSync && !healthy:
		return notReady(durable.HardwareSyncFailure, codeSyncUnproven, "no healthy hardware sync of %s was seen since it was deployed", n.Hostname)
	}
	if len(w.Facts.Addresses) > 0 {
		if err := node.SetHost(ctx, tx, o.Node, w.Facts.Addresses[0]); err != nil {
			return disagreeing(err)
		}
	}
	if n.Status != node.Active {
		if _, err := node.Move(ctx, tx, o.Node, node.Enrolled, "its onboarding completed"); err != nil {
			return disagreeing(err)
		}
	}
	return disagreeing(binding.Bind(ctx, tx, binding.Binding{
		Node: o.Node, Site: o.Site, Profile: o.Profile, SystemID: w.SystemID, IPMIIP: w.IPMIIP, PXEMAC: w.PXEMAC,
		Status: w.Observed.Status, Power: w.Observed.Power, IPs: w.Observed.IPs, SeenAt: instant(w.Observed.At),
	}))
}

const codeSyncUnproven = "hw_sync_unproven"

func notReady(class durable.FailureClass, code, format string, args ...any) error {
	return &bringup.Failure{Class: class, Code: code, Message: fmt.Sprintf(format, args...), Final: true}
}

// disagreeing makes a failure of the job of what a noun refuses; a database that
// is away is none.
func disagreeing(err error) error {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NotFound, fault.Invalid:
		f := bringup.Classify(err)
		f.Class, f.Final = durable.StateAmbiguity, true
		return f
	case fault.Stale, fault.Ambiguous, fault.Unavailable, fault.RateLimited, fault.Internal, fault.Forbidden, fault.Unauthenticated:
	}
	return err
}
