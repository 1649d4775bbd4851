package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Standing says how a job stands: what it waits for, what was seen and since
// when, and what is probably wrong.
type Standing struct {
	Summary       string       `json:"summary" doc:"How it stands, in a sentence." example:"c07u43 has been parked at stage 11 of 16 (Wait until Deployed) for 25 min: the deployment took longer than 1 h 30 min"`
	Status        Status       `json:"status"`
	Stage         string       `json:"stage" example:"wait_for_deployed"`
	StageTitle    string       `json:"stage_title" doc:"The stage, for people." example:"Wait until Deployed"`
	Expected      string       `json:"expected" doc:"The condition that must become true for it to go on."`
	Observed      string       `json:"observed" doc:"What was seen instead, or last."`
	ObservedAt    *time.Time   `json:"observed_at,omitempty" doc:"When MAAS was last seen so."`
	ObservedSince *time.Time   `json:"observed_since,omitempty" doc:"Since when MAAS has been seen so."`
	WaitingSince  *time.Time   `json:"waiting_since,omitempty" doc:"Since when it stands as it does; of one that ended, when that was."`
	FailureClass  FailureClass `json:"failure_class,omitempty" doc:"What sort of failure it is; absent when nothing failed."`
	ErrorCode     string       `json:"error_code,omitempty" doc:"What went wrong, for programs."`
	LikelyCause   string       `json:"likely_cause,omitempty" doc:"What is usually behind it."`
	Remedy        string       `json:"remedy,omitempty" doc:"What to put right before acting."`
}

// Explanation says how a job stands and what may be done about it.
type Explanation struct {
	Standing
	Actions []ExplainedAction `json:"actions" nullable:"false" doc:"What operators can do: first what is legal now, the best first."`
}

// ExplainedAction is an action of operators, and what it would do here.
type ExplainedAction struct {
	Action  Trigger `json:"action"`
	Rank    int     `json:"rank,omitempty" doc:"1 is the best; absent when the action is not legal now."`
	Legal   bool    `json:"legal" doc:"Whether the present state allows it."`
	Safety  Safety  `json:"safety" enum:"safe,needs_care,destroys_data" doc:"What it may cost."`
	Does    string  `json:"does" doc:"What it would do here."`
	Command string  `json:"command" doc:"How to do it on the command line."`
}

// Sighting is what was last seen of the subject of a job.
type Sighting struct {
	Text  string // for people; empty if nothing was seen
	At    *time.Time
	Since *time.Time // since when it has been seen like this
}

// Explain says how a job stands. It is a function of its arguments: the same
// facts always get the same explanation. The events are its newest ones, the
// oldest of them first.
func (f *Family[R]) Explain(r R, events []Event, now time.Time) Explanation {
	j := f.common(r)
	stage := f.doingStage(j)
	var seen Sighting
	if f.Seen != nil {
		seen = f.Seen(r, now)
	}
	e := Explanation{
		Standing: Standing{
			Status: j.Status, Stage: stage, StageTitle: stage, ObservedAt: UTC(seen.At), ObservedSince: UTC(seen.Since),
			FailureClass: j.FailureClass, ErrorCode: j.ErrorCode, LikelyCause: f.likelyCause(j), Remedy: j.ErrorRemedy,
		},
		Actions: f.explainActions(r),
	}
	if s, known := f.stageOf(r, stage); known {
		e.StageTitle, e.Expected = s.Title, s.Expects
	}
	e.Observed = f.observed(j, seen.Text, events)
	switch j.Phase {
	case Waiting:
		f.explainPending(&e.Standing, j, now)
	case Working:
		f.explainRunning(&e.Standing, r, events, now)
	case Undoing:
		e.WaitingSince = UTC(j.since())
		e.Summary = fmt.Sprintf("%s has been rolling back%s%s", j.Subject, Lasting(j.since(), now),
			f.onBehalf(j, events))
	case Parked:
		e.WaitingSince = UTC(j.ParkedAt)
		e.Summary = fmt.Sprintf("%s has been parked at %s%s: %s", j.Subject, f.place(r), Lasting(j.ParkedAt, now),
			brief(f.whyParked(j, events)))
	case Over:
		f.explainEnded(&e.Standing, r, events)
	}
	return e
}

func (f *Family[R]) explainPending(e *Standing, j Job, now time.Time) {
	e.WaitingSince = UTC(&j.RequestedAt)
	if j.AdmittedAt != nil {
		e.WaitingSince = UTC(j.AdmittedAt)
		e.Expected = "a worker picks it up"
		e.Summary = fmt.Sprintf("%s has had a slot%s and starts as soon as a worker picks it up", j.Subject,
			Lasting(j.AdmittedAt, now))
		return
	}
	e.Expected = "a slot within the limits of the site and the batch is free"
	e.Summary = fmt.Sprintf("%s has been waiting%s for a free slot", j.Subject, Lasting(&j.RequestedAt, now))
}

func (f *Family[R]) explainRunning(e *Standing, r R, events []Event, now time.Time) {
	j := f.common(r)
	e.WaitingSince = UTC(j.since())
	e.Summary = fmt.Sprintf("%s has been at %s%s%s", j.Subject, f.place(r), Lasting(j.since(), now), f.onBehalf(j, events))
	if s, known := f.stageOf(r, f.doingStage(j)); known && s.Usually != "" {
		e.Summary += "; this usually takes " + s.Usually
	}
	if last := f.newest(j, events, StageFailed, StageStarted, StageSucceeded); last != nil && last.Status == StageFailed {
		e.Summary += fmt.Sprintf("; attempt %d failed and another one follows: %s", last.Attempt, last.Message)
	}
}

func (f *Family[R]) explainEnded(e *Standing, r R, events []Event) {
	j := f.common(r)
	e.WaitingSince, e.Expected = UTC(j.CompletedAt), ""
	took := ""
	if j.StartedAt != nil && j.CompletedAt != nil {
		took = " after " + span(j.CompletedAt.Sub(*j.StartedAt))
	}
	switch {
	case f.Life.endsBy(j.Status, TriggerComplete):
		e.Summary = f.Reached(r, took)
	case f.Life.endsBy(j.Status, TriggerReconcile):
		e.Summary = f.Reached(r, took) + "; gpuaas adopted a state that it did not set itself along the way"
		if !j.Adopted {
			e.Summary = f.Reached(r, took) + "; it was parked, and a later check proved that it had reached its goal"
		}
	default:
		e.Summary = fmt.Sprintf("the %s of %s was %s%s", f.Noun, j.Subject, j.Status, took)
		if d := newestDecision(events, f.Life.Having(UndoesAndEnds)...); d != nil {
			e.Summary += " " + d.said()
		}
	}
	if f.Left != nil {
		if left := f.Left(r); len(left) > 0 {
			e.Summary += "; left: " + strings.Join(left, "; ")
		}
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

// observed describes what was last seen of the subject of the job, and what the
// stage last said.
func (f *Family[R]) observed(j Job, seen string, events []Event) string {
	var parts []string
	if seen != "" {
		parts = append(parts, seen)
	}
	if j.Phase == Parked && j.ErrorMessage != "" {
		parts = append(parts, f.whyParked(j, events))
		if last := f.newest(j, events, Observation); last != nil {
			parts = append(parts, "seen since: "+last.Message)
		}
	} else if last := f.newest(j, events, StageFailed, StageNote, Observation, StageSucceeded, StageSkipped,
		StageCompensated); last != nil && last.Message != "" {
		parts = append(parts, last.Message)
	}
	if len(parts) == 0 {
		return "nothing yet"
	}
	return strings.Join(parts, "; ")
}

// newest returns the last event of the given kinds in the present stage and
// epoch, or nil if there is none.
func (f *Family[R]) newest(j Job, events []Event, kinds ...EventStatus) *Event {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Stage == f.doingStage(j) && events[i].Epoch == j.Epoch && slices.Contains(kinds, events[i].Status) {
			return &events[i]
		}
	}
	return nil
}

// explainActions lists what operators can do: what is legal first, then the
// rest, so that nobody must guess why something is missing. What ended has none.
func (f *Family[R]) explainActions(r R) []ExplainedAction {
	out, j := []ExplainedAction{}, f.common(r)
	if j.Phase == Over {
		return out
	}
	add := func(rank int, a Advice) {
		out = append(out, ExplainedAction{
			Action: a.Action, Rank: rank, Legal: rank > 0, Safety: a.Safety, Does: a.Does,
			Command: fmt.Sprintf("gpuaas %s %s %s", f.Noun, f.Life.WordOf(a.Action), j.ID),
		})
	}
	for i, a := range f.Recommend(r) {
		add(i+1, a)
	}
	legal := f.LegalActions(r)
	for _, action := range f.Life.AllActions() {
		if !slices.Contains(legal, action) {
			add(0, f.advise(r, action))
		}
	}
	return out
}

// place is where a job is, for people.
func (f *Family[R]) place(r R) string {
	j := f.common(r)
	title := f.doingStage(j)
	number, total := f.Table(r).Number(title)
	if stage, known := f.stageOf(r, title); known {
		title = stage.Title
	}
	if number == 0 {
		return fmt.Sprintf("%q", title)
	}
	if j.Attempt > 1 {
		title += fmt.Sprintf(", attempt %d", j.Attempt)
	}
	return fmt.Sprintf("stage %d of %d (%s)", number, total, title)
}

func (f *Family[R]) onBehalf(j Job, events []Event) string {
	if j.Action == "" {
		return ""
	}
	if d := newestDecision(events, j.Action); d != nil {
		return fmt.Sprintf(" because %s chose %s: %s", d.who(), f.spoken(j.Action), d.reason)
	}
	return fmt.Sprintf(" because an operator chose %s", f.spoken(j.Action))
}

// spoken is an action as it is said in a sentence: restart clean.
func (f *Family[R]) spoken(action Trigger) string {
	return strings.ReplaceAll(f.Life.WordOf(action), "-", " ")
}

// decision is an action of an operator, as recorded in the ledger.
type decision struct {
	Action Trigger `json:"action"`
	Actor  string  `json:"actor"`
	Name   string  `json:"actor_name"`
	Role   string  `json:"actor_role"`
	reason string
}

// newestDecision returns the last action of operators among these, or nil if
// the entries do not go back that far.
func newestDecision(events []Event, actions ...Trigger) *decision {
	for i := len(events) - 1; i >= 0; i-- {
		var d decision
		if events[i].Status == OperatorAction && json.Unmarshal(events[i].Details, &d) == nil &&
			slices.Contains(actions, d.Action) {
			d.reason = events[i].Message
			return &d
		}
	}
	return nil
}

func (d decision) who() string {
	who := cmp.Or(d.Name, d.Actor, "an operator")
	if d.Role == "" {
		return who
	}
	return who + " (" + d.Role + ")"
}

// said is who did it and why.
func (d decision) said() string { return fmt.Sprintf("by %s: %s", d.who(), d.reason) }

// whyParked is why a job waits for somebody: what failed, and who stopped it for
// which reason.
func (f *Family[R]) whyParked(j Job, events []Event) string {
	why := cmp.Or(j.ErrorMessage, "an operator must decide")
	d := newestDecision(events, f.Life.Having(Stops)...)
	switch {
	case d == nil || f.Life.EffectOf(j.Action) != Stops:
		return why
	case j.ErrorCode == CodeMarked:
		return "stopped " + d.said()
	}
	return why + "; automation was stopped " + d.said()
}

// since is when the stage began; one that has not begun yet follows what last
// happened to the job.
func (j Job) since() *time.Time {
	if j.StageStartedAt == nil {
		return &j.UpdatedAt
	}
	return j.StageStartedAt
}

// Lasting returns how long something has lasted, as in " for 3 min", or "" if
// nobody knows.
func Lasting(since *time.Time, now time.Time) string {
	if since == nil {
		return ""
	}
	return " for " + span(now.Sub(*since))
}

// Ago is how long ago something was, as in "3 min ago".
func Ago(at, now time.Time) string { return span(now.Sub(at)) + " ago" }

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

// UTC is an instant as people compare them; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}
