package onboarding

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/onboarding/internal/onboardingdb"
)

// Explanation says how an onboarding stands: what it waits for, what was seen
// and since when, what is probably wrong, and what may be done.
type Explanation struct {
	Summary       string               `json:"summary" doc:"How it stands, in a sentence." example:"c07u43 is parked at stage 11 of 16 (Wait until Deployed) for 25 min: the deployment took longer than 1 h 30 min"`
	Status        durable.JobStatus    `json:"status" enum:"pending,running,completed,failed_retryable,failed_manual_intervention,cancelled,compensating,reconciled"`
	Stage         string               `json:"stage" example:"wait_for_deployed"`
	StageTitle    string               `json:"stage_title" doc:"The stage, for people." example:"Wait until Deployed"`
	Expected      string               `json:"expected" doc:"The condition that must become true for it to go on."`
	Observed      string               `json:"observed" doc:"What was seen instead, or last."`
	ObservedSince *time.Time           `json:"observed_since,omitempty" doc:"Since when MAAS has been seen so."`
	WaitingSince  *time.Time           `json:"waiting_since,omitempty" doc:"Since when it stands as it does; of one that ended, when that was."`
	FailureClass  durable.FailureClass `json:"failure_class,omitempty" doc:"What sort of failure it is; absent when nothing failed."`
	ErrorCode     string               `json:"error_code,omitempty" doc:"What went wrong, for programs."`
	LikelyCause   string               `json:"likely_cause,omitempty" doc:"What is usually behind it."`
	Remedy        string               `json:"remedy,omitempty" doc:"What to put right before acting."`
	Actions       []ExplainedAction    `json:"actions" nullable:"false" doc:"What operators can do: first what is legal now, the best first."`
}

// ExplainedAction is an action of operators, and what it would do here.
type ExplainedAction struct {
	Action  durable.JobEvent `json:"action" enum:"retry_stage,resume,rerun,restart_clean,cancel,adopt_observed_state,mark_manual_intervention_required"`
	Rank    int              `json:"rank,omitempty" doc:"1 is the best; absent when the action is not legal now."`
	Legal   bool             `json:"legal" doc:"Whether the present state allows it."`
	Safety  Safety           `json:"safety" enum:"safe,needs_care,destroys_data" doc:"What it may cost."`
	Does    string           `json:"does" doc:"What it would do here."`
	Command string           `json:"command" doc:"How to do it on the command line."`
}

// usually says how long stages take that wait for hardware.
var usually = map[string]string{
	bringup.CreateOrFindInMAAS:           "seconds; up to half an hour when the machine must be discovered first",
	bringup.WaitForReady:                 "8 to 20 min",
	bringup.WaitForDeployed:              "10 to 30 min",
	bringup.RecoverForDatasourceRetry:    "1 to 5 min",
	bringup.EnsureHardwareSyncConfigured: "under a minute once the machine answers over SSH",
	bringup.WaitForHardwareSyncHealthy:   "a minute or two",
	bringup.WaitForAgentEnrollment:       "1 to 5 min",
	StageCompensate:                      "1 to 5 min; hours when disks are erased",
}

// Explain says how an onboarding stands. It is a function of its arguments: the
// same facts always get the same explanation. The events are its newest ones,
// the oldest of them first.
func Explain(o Onboarding, events []Event, now time.Time) Explanation {
	stage := doing(o)
	e := Explanation{
		Status: o.Status, Stage: stage, StageTitle: stage, ObservedSince: utc(o.ObservedSince), FailureClass: o.FailureClass,
		ErrorCode: o.ErrorCode, LikelyCause: likelyCause(o), Remedy: o.ErrorRemedy, Actions: explainActions(o),
	}
	if s, known := StageOf(stage); known {
		e.StageTitle, e.Expected = s.Title, s.Expects
	}
	e.Observed = observed(o, events)
	switch o.Status {
	case durable.JobPending:
		e.explainPending(o, now)
	case durable.JobRunning:
		e.explainRunning(o, events, now)
	case durable.JobCompensating:
		e.WaitingSince = utc(since(o))
		e.Summary = fmt.Sprintf("%s: what was done is being undone%s%s", o.Hostname, lasting(since(o), now), onBehalf(o, events))
	case durable.JobFailedRetryable, durable.JobFailedManualIntervention:
		e.WaitingSince = utc(o.ParkedAt)
		e.Summary = fmt.Sprintf("%s is parked at %s%s: %s", o.Hostname, place(o), lasting(o.ParkedAt, now), brief(whyParked(o, events)))
	case durable.JobCompleted, durable.JobReconciled, durable.JobCancelled:
		e.explainEnded(o, events)
	}
	return e
}

func (e *Explanation) explainPending(o Onboarding, now time.Time) {
	e.WaitingSince = utc(&o.RequestedAt)
	if o.AdmittedAt != nil {
		e.WaitingSince = utc(o.AdmittedAt)
		e.Expected = "a worker takes it up"
		e.Summary = fmt.Sprintf("%s has had a place%s and starts as soon as a worker takes it up", o.Hostname, lasting(o.AdmittedAt, now))
		return
	}
	e.Expected = "a place within the limits of the site and the batch is free"
	e.Summary = fmt.Sprintf("%s has waited%s for a free place", o.Hostname, lasting(&o.RequestedAt, now))
}

// queue is what an onboarding that is pending waits in, which only the
// database knows.
type queue struct {
	used, limit           int // places of the site
	ofBatch, limitOfBatch int // and of the batch; no limit: it is on its own
	batch                 id.OnboardingBatch
	pausedAt              *time.Time
}

func (q queue) inUse() string {
	text := fmt.Sprintf("%d of %d places of the site are in use", q.used, q.limit)
	if q.limitOfBatch > 0 {
		text += fmt.Sprintf(", %d of %d of the batch", q.ofBatch, q.limitOfBatch)
	}
	return text
}

// within adds what a pending onboarding waits for.
func (e Explanation) within(o Onboarding, q queue, now time.Time) Explanation {
	e.Observed = q.inUse()
	switch {
	case o.AdmittedAt != nil:
	case q.pausedAt != nil:
		e.WaitingSince = utc(q.pausedAt)
		e.Expected = "the batch is resumed, and a place within the limits of the site and the batch is free"
		e.Observed = fmt.Sprintf("batch %s is paused since %s; %s", q.batch, q.pausedAt.UTC().Format(time.RFC3339), e.Observed)
		e.Summary = fmt.Sprintf("%s is not begun: its batch has been paused%s", o.Hostname, lasting(q.pausedAt, now))
		e.Remedy = fmt.Sprintf("go on with the batch: gpuaas onboarding batch resume %s --reason REASON", q.batch)
	case q.used >= q.limit:
		e.Summary += fmt.Sprintf(": %d of %d of the site are in use", q.used, q.limit)
	case q.limitOfBatch > 0 && q.ofBatch >= q.limitOfBatch:
		e.Summary += fmt.Sprintf(": %d of %d of the batch are in use", q.ofBatch, q.limitOfBatch)
	}
	return e
}

func (e *Explanation) explainRunning(o Onboarding, events []Event, now time.Time) {
	e.WaitingSince = utc(since(o))
	e.Summary = fmt.Sprintf("%s is at %s%s%s", o.Hostname, place(o), lasting(since(o), now), onBehalf(o, events))
	if usual := usually[doing(o)]; usual != "" {
		e.Summary += "; usually that takes " + usual
	}
	if last := newest(o, events, StageFailed, StageStarted, StageSucceeded); last != nil && last.Status == StageFailed {
		e.Summary += fmt.Sprintf("; attempt %d failed and another one follows: %s", last.Attempt, last.Message)
	}
}

func (e *Explanation) explainEnded(o Onboarding, events []Event) {
	e.WaitingSince, e.Expected = utc(o.CompletedAt), ""
	took := ""
	if o.StartedAt != nil && o.CompletedAt != nil {
		took = " after " + span(o.CompletedAt.Sub(*o.StartedAt))
	}
	switch o.Status {
	case durable.JobCompleted:
		e.Summary = fmt.Sprintf("%s became node %s%s", o.Hostname, o.Node, took)
	case durable.JobReconciled:
		e.Summary = fmt.Sprintf("%s became node %s%s; a state that was brought about outside was adopted on the way", o.Hostname, o.Node, took)
	default:
		e.Summary = fmt.Sprintf("the onboarding of %s was cancelled%s", o.Hostname, took)
		if d := newestDecision(events, durable.JobCancel); d != nil {
			e.Summary += " " + d.said()
		}
	}
	if len(o.Facts.Left) > 0 {
		e.Summary += "; left: " + strings.Join(o.Facts.Left, "; ")
	}
}

// brief is the beginning of a text that is told in full elsewhere.
func brief(text string) string {
	const most = 160
	if runes := []rune(text); len(runes) > most {
		return strings.TrimSpace(string(runes[:most])) + "…"
	}
	return text
}

// observed is what was last seen of the machine, and what the stage last said.
func observed(o Onboarding, events []Event) string {
	var parts []string
	switch o.Observed.Status {
	case "":
	case bringup.Absent:
		parts = append(parts, "MAAS has no such machine")
	default:
		seen := "MAAS shows it as " + o.Observed.Status
		if o.Observed.Power != "" {
			seen += ", power " + o.Observed.Power
		}
		if len(o.Observed.IPs) > 0 {
			seen += ", " + strings.Join(o.Observed.IPs, " ")
		}
		parts = append(parts, seen)
	}
	if o.parked() && o.ErrorMessage != "" {
		parts = append(parts, whyParked(o, events))
	} else if last := newest(o, events, StageFailed, StageNote, StageSucceeded, StageSkipped, StageCompensated); last != nil && last.Message != "" {
		parts = append(parts, last.Message)
	}
	if len(parts) == 0 {
		return "nothing yet"
	}
	return strings.Join(parts, "; ")
}

// doing is the stage that an onboarding is at. While it is undone, its row keeps
// the stage that it had come to.
func doing(o Onboarding) string {
	if o.Status == durable.JobCompensating || o.halfUndone() {
		return StageCompensate
	}
	return o.Stage
}

// newest is the last event of the present stage and epoch that is of one of
// these kinds; nil: none.
func newest(o Onboarding, events []Event, kinds ...EventStatus) *Event {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Stage == doing(o) && events[i].Epoch == o.Epoch && slices.Contains(kinds, events[i].Status) {
			return &events[i]
		}
	}
	return nil
}

// explainActions lists what operators can do: what is legal first, then the
// rest, so that nobody must guess why something is missing. What ended has none.
func explainActions(o Onboarding) []ExplainedAction {
	out := []ExplainedAction{}
	if state, known := durable.JobLifecycle.State(o.Status); known && state.Terminal {
		return out
	}
	add := func(rank int, a Advice) {
		out = append(out, ExplainedAction{
			Action: a.Action, Rank: rank, Legal: rank > 0, Safety: a.Safety, Does: a.Does,
			Command: fmt.Sprintf("gpuaas onboarding %s %s --reason REASON", wordOf(a.Action), o.ID),
		})
	}
	for i, a := range Recommend(o) {
		add(i+1, a)
	}
	legal := LegalActions(o)
	for _, action := range Actions {
		if !slices.Contains(legal, action) {
			add(0, Advice{Action: action, Safety: safetyOf(o, action), Does: does(o, action)})
		}
	}
	return out
}

// wordOf is how an action is called in addresses and on the command line.
func wordOf(action durable.JobEvent) string {
	for _, v := range verbs {
		if v.action == action {
			return v.path
		}
	}
	return string(action)
}

// stageNumber says which of the stages one is; 0: none of them.
func stageNumber(name string) (number, total int) {
	at := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == name })
	return at + 1, len(stages)
}

// place is where an onboarding is, for people.
func place(o Onboarding) string {
	title := doing(o)
	if stage, known := StageOf(title); known {
		title = stage.Title
	}
	number, total := stageNumber(doing(o))
	if number == 0 {
		return fmt.Sprintf("%q", title)
	}
	if o.Attempt > 1 {
		title += fmt.Sprintf(", attempt %d", o.Attempt)
	}
	return fmt.Sprintf("stage %d of %d (%s)", number, total, title)
}

func onBehalf(o Onboarding, events []Event) string {
	if o.Action == "" {
		return ""
	}
	if d := newestDecision(events, o.Action); d != nil {
		return fmt.Sprintf(", because %s asked for %s: %s", d.who(), wordOf(o.Action), d.reason)
	}
	return fmt.Sprintf(", because an operator asked for %s", wordOf(o.Action))
}

// decision is what an operator did, as the ledger has it.
type decision struct {
	Action durable.JobEvent `json:"action"`
	Actor  string           `json:"actor"`
	Role   string           `json:"actor_role"`
	reason string
}

// newestDecision is when operators last did something; nil: the entries do not
// go back so far.
func newestDecision(events []Event, action durable.JobEvent) *decision {
	for i := len(events) - 1; i >= 0; i-- {
		var d decision
		if events[i].Status == OperatorAction && json.Unmarshal(events[i].Details, &d) == nil && d.Action == action {
			d.reason = events[i].Message
			return &d
		}
	}
	return nil
}

func (d decision) who() string {
	switch {
	case d.Actor == "":
		return "an operator"
	case d.Role == "":
		return d.Actor
	}
	return d.Actor + " (" + d.Role + ")"
}

// said is who did it and why.
func (d decision) said() string { return fmt.Sprintf("by %s: %s", d.who(), d.reason) }

// whyParked is why an onboarding waits for somebody: what failed, and who
// stopped it for which reason.
func whyParked(o Onboarding, events []Event) string {
	why := or(o.ErrorMessage, "an operator must decide")
	d := newestDecision(events, durable.JobMarkManual)
	switch {
	case d == nil || o.Action != durable.JobMarkManual:
		return why
	case o.ErrorCode == codeMarked:
		return "stopped " + d.said()
	}
	return why + "; automation was stopped " + d.said()
}

// since is when the stage began; one that has not begun yet follows what last
// happened to the onboarding.
func since(o Onboarding) *time.Time {
	if o.StageStartedAt == nil {
		return &o.UpdatedAt
	}
	return o.StageStartedAt
}

func lasting(since *time.Time, now time.Time) string {
	if since == nil {
		return ""
	}
	return " for " + span(now.Sub(*since))
}

// span is a length of time in its two largest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(big, small time.Duration, bigUnit, smallUnit string) string {
		if rest := d % big / small; rest > 0 {
			return fmt.Sprintf("%d %s %d %s", d/big, bigUnit, rest, smallUnit)
		}
		return fmt.Sprintf("%d %s", d/big, bigUnit)
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return two(time.Hour, time.Minute, "h", "min")
	}
	return two(day, time.Hour, "d", "h")
}

// recentEvents is how much of the ledger an explanation goes by.
const recentEvents = 50

// explained reads an onboarding and explains it.
func (s *Service) explained(ctx context.Context, onboarding id.Onboarding) (Onboarding, []Event, Explanation, error) {
	o, err := s.Get(ctx, onboarding)
	if err != nil {
		return Onboarding{}, nil, Explanation{}, err
	}
	events, err := s.LatestEvents(ctx, onboarding, recentEvents)
	if err != nil {
		return Onboarding{}, nil, Explanation{}, err
	}
	explanation := Explain(o, events, s.now())
	if o.Status == durable.JobPending {
		q, err := s.queueOf(ctx, o)
		if err != nil {
			return Onboarding{}, nil, Explanation{}, err
		}
		explanation = explanation.within(o, q, s.now())
	}
	return o, events, explanation, nil
}

// queueOf reads what a pending onboarding waits in.
func (s *Service) queueOf(ctx context.Context, o Onboarding) (queue, error) {
	places, err := s.reads.Places(ctx, onboardingdb.PlacesParams{SiteID: o.Site, BatchID: o.Batch})
	if err != nil {
		return queue{}, fmt.Errorf("count places in use: %w", err)
	}
	q := queue{used: int(places.OfSite), limit: int(places.SiteLimit)}
	if o.Batch.IsZero() {
		return q, nil
	}
	r, err := s.reads.Batch(ctx, o.Batch)
	b, err := batchFound(r, err)
	if err != nil {
		return queue{}, err
	}
	limit, err := s.reads.BatchLimit(ctx, b.Profile)
	if err != nil {
		return queue{}, fmt.Errorf("read limit of batch: %w", err)
	}
	q.batch, q.pausedAt, q.ofBatch, q.limitOfBatch = b.ID, b.PausedAt, int(places.OfBatch), int(limit)
	return q, nil
}
