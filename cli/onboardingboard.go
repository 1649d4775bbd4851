package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/contract/eventwire"
)

// watchedRow is one onboarding as the board shows it.
type watchedRow struct {
	id, hostname, status, stage, code, message string
	attempt                                    int64
	begun, ended                               time.Time
	updated                                    time.Time
}

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

// board shows onboardings: in place on a terminal, elsewhere a line for each change.
type board struct {
	silent, inPlace, loaded bool
	format                  string
	size                    func() size // of the terminal
	out                     io.Writer
	now                     func() time.Time
	zone                    *time.Location
	numbers                 map[string]int    // of stages, by name
	after                   map[string]string // the stage that usually follows
	total                   int
	rows                    map[string]*watchedRow
	order                   []string
}

// learn takes the stages, so that events can be placed among them.
func (b *board) learn(raws []json.RawMessage) error {
	stages, err := decodeAll[apiclient.OnboardingStageView](raws)
	b.numbers, b.after = map[string]int{}, map[string]string{}
	var unfollowed []string
	for _, s := range stages {
		b.numbers[s.value.Name] = int(s.value.Number)
		b.total = max(b.total, int(s.value.Number))
		if !s.value.Detour {
			for _, before := range unfollowed {
				b.after[before] = s.value.Name
			}
			unfollowed = nil
		}
		unfollowed = append(unfollowed, s.value.Name)
	}
	return err
}

func (b *board) row(id, hostname string) *watchedRow {
	if b.rows[id] == nil {
		b.rows[id] = &watchedRow{id: id, hostname: hostname, begun: b.now()}
		b.order = append(b.order, id)
	}
	return b.rows[id]
}

// see takes how an onboarding stands.
func (b *board) see(v apiclient.OnboardingView) error {
	id := v.OnboardingId.String()
	live := v.ParkedAt == nil && v.CompletedAt == nil
	if b.rows[id] == nil && b.loaded && !live {
		return nil // of long ago
	}
	r := b.row(id, v.Hostname)
	changed := r.status != string(v.Status) || r.stage != v.CurrentStage
	r.status, r.stage, r.attempt, r.updated, r.begun = string(v.Status), v.CurrentStage, v.CurrentAttempt, v.UpdatedAt, v.RequestedAt
	r.ended, r.code = time.Time{}, ""
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
	return b.tell(r, r.status)
}

// apply takes what an event says, unless the row is known to be further.
func (b *board) apply(e eventwire.Onboarding, at time.Time) error {
	r := b.row(e.OnboardingID, e.Hostname)
	if at.Before(r.updated) {
		return nil
	}
	r.status, r.stage, r.attempt, r.updated, r.code, r.ended = e.Status, e.Stage, int64(e.Attempt), at, e.ErrorCode, time.Time{}
	r.message = e.Message
	if r.settled() {
		r.ended = at
	}
	word := r.status
	if r.status == "running" && e.StageStatus != "" {
		word = e.StageStatus
	}
	if err := b.tell(r, word); err != nil {
		return err
	}
	// The next stage is under way by now; what is told of it is its end.
	if next := b.after[e.Stage]; next != "" && (e.StageStatus == "succeeded" || e.StageStatus == "skipped") && r.status == "running" {
		r.stage, r.attempt = next, 1
	}
	return b.draw()
}

// tell prints a line about a row, where the board is not drawn in place.
func (b *board) tell(r *watchedRow, word string) error {
	if b.silent || b.inPlace || b.format != formatTable {
		return nil
	}
	parts := []string{b.now().In(b.zone).Format("15:04:05"), r.hostname, b.place(r), word}
	if r.attempt > 1 {
		parts = append(parts, fmt.Sprintf("(attempt %d)", r.attempt))
	}
	return write(b.out, strings.TrimRight(harmless(strings.Join(append(parts, r.message), "  ")), " ")+"\n")
}

// place is the stage of a row, with its number.
func (b *board) place(r *watchedRow) string {
	if n := b.number(r); n > 0 {
		return fmt.Sprintf("%d/%d %s", n, b.total, r.stage)
	}
	return r.stage
}

func (b *board) number(r *watchedRow) int {
	if r.succeeded() {
		return b.total
	}
	return b.numbers[r.stage]
}

// size is how many columns and lines the terminal has.
type size struct{ columns, lines int }

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
	if len(rows) > screen.lines-around { // what needs somebody first, then what moves
		slices.SortStableFunc(rows, func(x, y *watchedRow) int { return cmp.Compare(urgency(x), urgency(y)) })
		fit := max(screen.lines-around-1, 1)
		rows, hidden = rows[:fit], rows[fit:]
	}
	table := make([][]string, len(rows))
	for i, r := range rows {
		table[i] = []string{r.hostname, b.bar(r, screen.columns >= barFrom), r.status, b.elapsed(r), attempts(r), harmless(cmp.Or(r.message, r.stage))}
	}
	text := b.counts() + "\n\n" + align(table)
	if len(hidden) > 0 {
		text += fmt.Sprintf("… and %d more: %s\n", len(hidden), strings.Join(byStatus(hidden), ", "))
	}
	return write(b.out, clearScreen+narrow(text, screen.columns))
}

// narrow shortens lines that are wider than the terminal.
func narrow(text string, columns int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > columns {
			lines[i] = strings.TrimRight(string(runes[:max(columns-1, 0)]), " ") + "…"
		}
	}
	return strings.Join(lines, "\n")
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
	n := b.number(r)
	share := fmt.Sprintf("%2d/%d", n, b.total)
	if !drawn {
		return share
	}
	return strings.Repeat("█", n) + strings.Repeat("░", max(b.total-n, 0)) + " " + share
}

func (b *board) elapsed(r *watchedRow) string {
	until := r.ended
	if until.IsZero() {
		until = b.now()
	}
	return short(max(until.Sub(r.begun), 0))
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
	number := map[string]int{}
	for _, r := range rows {
		number[r.status]++
	}
	var parts []string
	for _, status := range []string{"pending", "running", "compensating", "completed", "reconciled", "failed_retryable", "failed_manual_intervention", "cancelled"} {
		if number[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", number[status], status))
		}
	}
	return parts
}

// settled says whether nothing more will happen by itself.
func (b *board) settled() bool {
	for _, r := range b.rows {
		if !r.settled() {
			return false
		}
	}
	return b.loaded
}

// verdict is how all of them ended.
func (b *board) verdict(s *session, scope watchScope) error {
	var parked, cancelled []string
	var first *watchedRow
	for _, id := range b.order {
		switch r := b.rows[id]; {
		case r.parked():
			if first == nil {
				first = r
			}
			parked = append(parked, r.named())
		case r.status == "cancelled":
			cancelled = append(cancelled, r.hostname)
		}
	}
	switch {
	case first != nil:
		remedy := "read why, and how to go on: gpuaas onboarding explain " + first.hostname
		if len(parked) > 1 {
			remedy += "; the others: gpuaas onboarding list --status failed"
			if scope.batch != nil {
				remedy += " --batch " + scope.batch.String()
			}
		}
		return fail(exitUnsuccessful, "onboarding_parked", remedy, "%d of %d need an operator: %s", len(parked), len(b.rows), strings.Join(parked, ", "))
	case len(cancelled) > 0:
		return fail(exitUnsuccessful, "onboarding_cancelled", "see what was left: gpuaas onboarding explain "+cancelled[0],
			"%d of %d were cancelled: %s", len(cancelled), len(b.rows), strings.Join(cancelled, ", "))
	case len(b.rows) == 0:
		s.note("nothing is being onboarded")
	default:
		s.note("%s became %s", plural(len(b.rows), "machine"), plural(len(b.rows), "node"))
	}
	return nil
}
