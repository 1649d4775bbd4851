package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// watchedRow is one job as the board shows it.
type watchedRow struct {
	id, hostname, mode, status, stage, code, message string
	outcome                                          string // of one that reached its goal; empty: it did not, or has none
	attempt                                          int64
	waits                                            bool // for a place in its batch
	begun, ended                                     time.Time
	updated                                          time.Time
}

// standing is the status, with what tells a goal that was reached with gaps from
// one that was reached whole.
func (r *watchedRow) standing() string {
	if r.outcome == withGaps {
		return r.status + " with gaps"
	}
	return r.status
}

// withGaps is the outcome of a job that did less than it was asked for.
const withGaps = "with_gaps"

func (r *watchedRow) parked() bool { return strings.HasPrefix(r.status, "failed_") }

func (r *watchedRow) succeeded() bool { return r.status == "completed" || r.status == "reconciled" }

func (r *watchedRow) settled() bool { return r.parked() || r.succeeded() || r.status == "cancelled" }

// named is the machine with what went wrong.
func (r *watchedRow) named() string {
	if r.code == "" {
		return r.hostname
	}
	return r.hostname + " (" + r.code + ")"
}

// stagePlan is the stages that jobs of one mode go through.
type stagePlan struct {
	numbers map[string]int    // of stages, by name
	after   map[string]string // the stage that usually follows
	total   int
}

// board shows jobs: in place on a terminal, elsewhere a line for each change.
type board struct {
	silent, inPlace, loaded bool
	halted                  bool // what waits is not begun, because too many have failed
	format                  string
	size                    func() frame.Size // of the terminal
	show                    func(picture string) error
	out                     io.Writer
	now                     func() time.Time
	zone                    *time.Location
	plans                   map[string]stagePlan // by mode
	rows                    map[string]*watchedRow
	order                   []string
}

// plannedStage is a row of a table of stages.
type plannedStage struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Detour bool   `json:"detour"`
}

// planOf makes the stages known, so that events can be placed among them.
func planOf(stages []plannedStage) stagePlan {
	p := stagePlan{numbers: map[string]int{}, after: map[string]string{}}
	var unfollowed []string
	for _, s := range stages {
		p.numbers[s.Name] = s.Number
		p.total = max(p.total, s.Number)
		if !s.Detour {
			for _, before := range unfollowed {
				p.after[before] = s.Name
			}
			unfollowed = nil
		}
		unfollowed = append(unfollowed, s.Name)
	}
	return p
}

// jobID is the id of a job: in the contract each kind of job has a name of its own for it.
type jobID struct {
	OnboardingID   string `json:"onboarding_id"`
	DecommissionID string `json:"decommission_id"`
}

func (i jobID) id() string { return cmp.Or(i.OnboardingID, i.DecommissionID) }

// jobView is what the contract says of jobs of every kind.
type jobView struct {
	jobID
	Hostname       string     `json:"hostname"`
	Mode           string     `json:"mode"`
	Status         string     `json:"status"`
	Outcome        string     `json:"outcome"`
	CurrentStage   string     `json:"current_stage"`
	CurrentAttempt int64      `json:"current_attempt"`
	Epoch          int64      `json:"epoch"`
	RequestedAt    time.Time  `json:"requested_at"`
	AdmittedAt     *time.Time `json:"admitted_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
	ParkedAt       *time.Time `json:"parked_at"`
	CompletedAt    *time.Time `json:"completed_at"`
	Failure        *struct {
		FailureClass string `json:"failure_class"`
		ErrorCode    string `json:"error_code"`
		ErrorMessage string `json:"error_message"`
	} `json:"failure"`
}

// jobEvent is what events about jobs of every kind say.
type jobEvent struct {
	jobID
	Hostname    string `json:"hostname"`
	Mode        string `json:"mode"`
	Status      string `json:"status"`
	Outcome     string `json:"outcome"`
	Stage       string `json:"stage"`
	Attempt     int64  `json:"attempt"`
	StageStatus string `json:"stage_status"`
	ErrorCode   string `json:"error_code"`
	Message     string `json:"message"`
}

func (b *board) row(id, hostname, mode string) *watchedRow {
	if b.rows[id] == nil {
		b.rows[id] = &watchedRow{id: id, hostname: hostname, mode: mode, begun: b.now()}
		b.order = append(b.order, id)
	}
	return b.rows[id]
}

// see takes how a job stands.
func (b *board) see(v jobView) error {
	id := v.id()
	live := v.ParkedAt == nil && v.CompletedAt == nil
	if b.rows[id] == nil && b.loaded && !live {
		return nil // of long ago
	}
	r := b.row(id, v.Hostname, v.Mode)
	changed := r.status != v.Status || r.stage != v.CurrentStage
	r.status, r.stage, r.attempt, r.updated, r.begun = v.Status, v.CurrentStage, v.CurrentAttempt, v.UpdatedAt,
		v.RequestedAt
	r.outcome = v.Outcome
	r.ended, r.code, r.waits = time.Time{}, "", v.Status == "pending" && v.AdmittedAt == nil
	switch {
	case v.ParkedAt != nil:
		r.ended = *v.ParkedAt
	case v.CompletedAt != nil:
		r.ended = *v.CompletedAt
	}
	if v.Failure != nil {
		r.code, r.message = v.Failure.ErrorCode, v.Failure.ErrorMessage
	}
	if !changed {
		return nil
	}
	return b.tell(r, r.standing())
}

// apply takes what an event says, unless the row is known to be further.
func (b *board) apply(e jobEvent, at time.Time) error {
	r := b.row(e.id(), e.Hostname, e.Mode)
	if at.Before(r.updated) {
		return nil
	}
	r.status, r.stage, r.attempt, r.updated, r.code, r.ended = e.Status, e.Stage, e.Attempt, at, e.ErrorCode, time.Time{}
	r.message, r.waits, r.outcome = e.Message, false, e.Outcome
	if r.settled() {
		r.ended = at
	}
	word := r.standing()
	if r.status == "running" && e.StageStatus != "" {
		word = e.StageStatus
	}
	if err := b.tell(r, word); err != nil {
		return err
	}
	// The next stage is under way by now; what is told of it is its end.
	if next := b.plans[r.mode].after[e.Stage]; next != "" &&
		(e.StageStatus == "succeeded" || e.StageStatus == "skipped") && r.status == "running" {
		r.stage, r.attempt = next, 1
	}
	return b.draw()
}

// tell prints a line about a row, where the board is not drawn in place.
func (b *board) tell(r *watchedRow, word string) error {
	if b.silent || b.inPlace || b.format != output.Table {
		return nil
	}
	parts := []string{b.now().In(b.zone).Format("15:04:05"), r.hostname, b.place(r), word}
	if r.attempt > 1 {
		parts = append(parts, fmt.Sprintf("(attempt %d)", r.attempt))
	}
	return output.Write(b.out, strings.TrimRight(output.Harmless(strings.Join(append(parts, r.message), "  ")), " ")+"\n")
}

// place is the stage of a row, with its number.
func (b *board) place(r *watchedRow) string {
	if n := b.number(r); n > 0 {
		return fmt.Sprintf("%d/%d %s", n, b.plans[r.mode].total, r.stage)
	}
	return r.stage
}

func (b *board) number(r *watchedRow) int {
	if r.succeeded() {
		return b.plans[r.mode].total
	}
	return b.plans[r.mode].numbers[r.stage]
}

// barFrom is the width from which there is room for bars.
const barFrom = 100

// draw draws the board on a terminal, so that it neither wraps nor scrolls.
func (b *board) draw() error {
	if !b.inPlace {
		return nil
	}
	rows := make([]*watchedRow, len(b.order))
	for i, id := range b.order {
		rows[i] = b.rows[id]
	}
	slices.SortStableFunc(rows, func(x, y *watchedRow) int { return cmp.Compare(x.hostname, y.hostname) })
	screen := b.size()
	const around = 3 // the counts, the empty line below them, the line of the cursor
	var hidden []*watchedRow
	if len(rows) > screen.Lines-around { // what needs somebody first, then what moves
		slices.SortStableFunc(rows, func(x, y *watchedRow) int { return cmp.Compare(urgency(x), urgency(y)) })
		fit := max(screen.Lines-around-1, 1)
		rows, hidden = rows[:fit], rows[fit:]
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{
			r.hostname, b.bar(r, screen.Columns >= barFrom), r.standing(), b.elapsed(r), attempts(r),
			output.Harmless(cmp.Or(r.message, r.stage)),
		}
	}
	text := b.counts() + "\n\n" + table.Align(cells)
	if len(hidden) > 0 {
		text += fmt.Sprintf("… and %d more: %s\n", len(hidden), strings.Join(byStatus(hidden), ", "))
	}
	return b.show(text)
}

func urgency(r *watchedRow) int {
	switch {
	case r.parked():
		return 0
	case r.status == "running" || r.status == "compensating":
		return 1
	case r.settled():
		return 3
	}
	return 2
}

func attempts(r *watchedRow) string {
	if r.attempt > 1 {
		return fmt.Sprintf("attempt %d", r.attempt)
	}
	return ""
}

// bar is how far a row has come: ████░░░░ 4/8.
func (b *board) bar(r *watchedRow, drawn bool) string {
	n, total := b.number(r), b.plans[r.mode].total
	share := fmt.Sprintf("%2d/%d", n, total)
	if !drawn {
		return share
	}
	return strings.Repeat("█", n) + strings.Repeat("░", max(total-n, 0)) + " " + share
}

func (b *board) elapsed(r *watchedRow) string {
	until := r.ended
	if until.IsZero() {
		until = b.now()
	}
	return moment.Short(max(until.Sub(r.begun), 0))
}

// counts says how many there are, and how many stand how.
func (b *board) counts() string {
	all := make([]*watchedRow, 0, len(b.rows))
	for _, r := range b.rows {
		all = append(all, r)
	}
	return strings.Join(append([]string{plural(len(all), "machine")}, byStatus(all)...), ", ")
}

// byStatus says how many of the rows stand how.
func byStatus(rows []*watchedRow) []string {
	number, gaps := map[string]int{}, 0
	for _, r := range rows {
		number[r.status]++
		if r.outcome == withGaps {
			gaps++
		}
	}
	var parts []string
	for _, status := range apiclient.JobStates {
		if number[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", number[status], status))
		}
	}
	if gaps > 0 {
		parts = append(parts, fmt.Sprintf("%d of them with gaps", gaps))
	}
	return parts
}

// settled says whether nothing more will happen by itself.
func (b *board) settled() bool {
	for _, r := range b.rows {
		if !r.settled() && (!b.halted || !r.waits) {
			return false
		}
	}
	return b.loaded
}

// verdict is how all of them ended.
func (b *board) verdict(s *session, kind *jobKind, scope watchScope) error {
	var parked, cancelled []string
	var first *watchedRow
	waiting := 0
	for _, id := range b.order {
		switch r := b.rows[id]; {
		case r.parked():
			if first == nil {
				first = r
			}
			parked = append(parked, r.named())
		case r.status == "cancelled":
			cancelled = append(cancelled, r.hostname)
		case r.waits:
			waiting++
		}
	}
	if waiting > 0 && scope.batch != nil {
		s.Note("%s not begun: the batch is halted; see: gpuaas %s batch show %s", plural(waiting, "machine"), kind.noun,
			scope.batch)
	}
	switch {
	case first != nil:
		remedy := fmt.Sprintf("read why, and how to go on: gpuaas %s explain %s", kind.noun, first.hostname)
		if len(parked) > 1 {
			remedy += fmt.Sprintf("; the others: gpuaas %s list --status failed", kind.noun)
			if scope.batch != nil {
				remedy += " --batch " + scope.batch.String()
			}
		}
		return failure.New(failure.Unsuccessful, kind.noun+"_parked", remedy, "%d of %d need an operator: %s", len(parked),
			len(b.rows), strings.Join(parked, ", "))
	case len(cancelled) > 0:
		return failure.New(failure.Unsuccessful, kind.noun+"_cancelled",
			fmt.Sprintf("see what was left: gpuaas %s explain %s", kind.noun, cancelled[0]),
			"%d of %d were cancelled: %s", len(cancelled), len(b.rows), strings.Join(cancelled, ", "))
	case len(b.rows) == 0:
		s.Note("%s", kind.idle)
	default:
		s.Note("%s", kind.reached(len(b.rows)))
	}
	return nil
}
