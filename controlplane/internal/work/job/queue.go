package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Queue is the queue in which a job waits for a place.
type Queue struct {
	site                  string         // its name; empty if the job takes no place of a site
	siteHeld              map[string]int // places of the site, by the family of the jobs that hold them
	siteLimit             int
	batch                 *Batch // nil: the job was asked for on its own
	batchHeld, batchLimit int    // no limit: as many as there are
}

// explain says what the job waits for.
func (q Queue) explain(e *Standing, family string, j Job, now time.Time) {
	held, who := q.holders()
	e.Observed = q.inUse(held, who)
	b := q.batch
	switch {
	case b != nil && b.PausedAt != nil:
		e.WaitingSince = UTC(b.PausedAt)
		e.Expected = "an operator resumes the batch, and a slot within the limits is free"
		e.Observed = fmt.Sprintf("batch %s is %s; %s", b.ID, b.paused(), e.Observed)
		e.Summary = fmt.Sprintf("%s has not started: its batch has been %s%s", j.Subject, b.paused(),
			Lasting(b.PausedAt, now))
		e.Remedy = fmt.Sprintf("continue the batch: gpuaas %s batch resume %s", family, b.ID)
		if b.Halted {
			e.Remedy = fmt.Sprintf("deal with those that failed: gpuaas %s list --batch %s --status failed; then %s",
				family, b.ID, e.Remedy)
		}
	case q.site != "" && held >= q.siteLimit:
		e.Expected = fmt.Sprintf("a job at site %s frees its slot", q.site)
		e.Summary += fmt.Sprintf(" of site %s: %d of %d are in use%s", q.site, held, q.siteLimit, who)
	case q.batchLimit > 0 && q.batchHeld >= q.batchLimit:
		e.Expected = "a job of its batch frees its slot"
		e.Summary += fmt.Sprintf(" of its batch: %d of %d are in use", q.batchHeld, q.batchLimit)
	}
}

// paused says who paused the batch, and why.
func (b Batch) paused() string {
	text := "paused"
	switch {
	case b.Halted:
		text = "halted"
	case b.PausedByName != "" || b.PausedBy != "":
		text += " by " + decision{Name: b.PausedByName, Actor: b.PausedBy}.who()
	}
	if b.PauseReason != "" {
		text += " (" + b.PauseReason + ")"
	}
	return text
}

// holders is how many places of the site are held, and by jobs of which families.
func (q Queue) holders() (held int, who string) {
	var each []string
	for family, n := range q.siteHeld {
		held += n
		each = append(each, fmt.Sprintf("%d by %ss", n, family))
	}
	slices.Sort(each)
	if len(each) == 0 {
		return 0, ""
	}
	return held, " (" + strings.Join(each, ", ") + ")"
}

func (q Queue) inUse(held int, who string) string {
	var parts []string
	if q.site != "" {
		parts = append(parts, fmt.Sprintf("%d of %d slots of site %s are in use%s", held, q.siteLimit, q.site, who))
	}
	if q.batchLimit > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d slots of the batch are in use", q.batchHeld, q.batchLimit))
	}
	if b := q.batch; b != nil && b.MaxFailures != nil {
		parts = append(parts, fmt.Sprintf("%d failed or were cancelled; the limit is %d", b.Failures(), *b.MaxFailures))
	}
	if len(parts) == 0 {
		return "nothing yet"
	}
	return strings.Join(parts, "; ")
}
