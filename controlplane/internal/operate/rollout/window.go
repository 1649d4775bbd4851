package rollout

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // machines without a database of time zones know them too

	"gpuaas/controlplane/internal/base/fault"
)

// Window is a time of the week in which nodes may be begun with, by the clock on the
// wall of its zone. One that ends before it begins goes on into the next day. What the
// clock leaves out in spring is left out of it; where the clock is put back in autumn it
// begins and ends with the first of the two equal times.
type Window struct {
	Zone string   `json:"zone" minLength:"1" maxLength:"64" doc:"A time zone of the IANA." example:"Europe/Berlin"`
	Days []string `json:"days" nullable:"false" minItems:"1" maxItems:"7" enum:"mon,tue,wed,thu,fri,sat,sun" doc:"On which days it begins."`
	From string   `json:"from" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$" doc:"When it begins." example:"22:00"`
	To   string   `json:"to" pattern:"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$" doc:"When it ends; if that is earlier than it begins, on the next day." example:"04:00"`
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const (
	dayMinutes = 24 * 60
	// daysAhead is how far somebody looks for the next opening: longer than a year, so
	// that what opens once a year is found.
	daysAhead = 400
)

// minutes reads a time of day. The pattern of the field has admitted it, except where
// the API is not what asks.
func minutes(text string) (int, error) {
	if text == "24:00" {
		return dayMinutes, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, windowInvalid("%.20q is no time of day", text).WithRemedy("write it as 22:00")
	}
	return t.Hour()*60 + t.Minute(), nil
}

func windowInvalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "agent_rollout_window_invalid", format, args...)
}

// schedule is when a plan lets nodes be begun with.
type schedule struct {
	windows []opening
	closed  []string
}

type opening struct {
	zone     *time.Location
	days     []time.Weekday
	from, to int // minutes since midnight; to is after from
}

// schedule reads the windows of a plan.
func (p Plan) schedule() (schedule, error) {
	out := schedule{closed: p.Closed}
	for _, date := range p.Closed {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return out, windowInvalid("%.20q is no date", date).WithRemedy("write it as 2026-12-24")
		}
	}
	if len(p.Closed) > 0 && len(p.Windows) == 0 {
		return out, windowInvalid("there are closed days, and no window that they could close").
			WithRemedy("give a window, such as --window \"mon-sun 00:00-24:00 UTC\"")
	}
	for _, w := range p.Windows {
		o, err := w.opening()
		if err != nil {
			return out, err
		}
		out.windows = append(out.windows, o)
	}
	return out, nil
}

func (w Window) opening() (opening, error) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil || w.Zone == "" || w.Zone == "Local" {
		return opening{}, windowInvalid("%.64q is no time zone", w.Zone).
			WithRemedy("name one of the IANA, such as Europe/Berlin or UTC")
	}
	o := opening{zone: zone}
	if o.from, err = minutes(w.From); err != nil {
		return o, err
	}
	if o.to, err = minutes(w.To); err != nil {
		return o, err
	}
	if o.from == o.to {
		return o, windowInvalid("a window from %s to %s has no length", w.From, w.To).
			WithRemedy("for whole days, from 00:00 to 24:00")
	}
	if o.to < o.from {
		o.to += dayMinutes
	}
	for _, name := range w.Days {
		day := slices.Index(weekdays, name)
		if day < 0 {
			return o, windowInvalid("%.20q is no day of the week", name).
				WithRemedy("name it as mon, tue, wed, thu, fri, sat or sun")
		}
		o.days = append(o.days, time.Weekday(day))
	}
	return o, nil
}

// checkWindows refuses windows that never open.
func (p Plan) checkWindows(now time.Time) error {
	s, err := p.schedule()
	if err != nil {
		return err
	}
	if _, ever := s.opens(now); !ever {
		return fault.New(fault.Invalid, "agent_rollout_window_never_opens",
			"no window of the plan opens in the next %d days: the rollout would never begin", daysAhead).
			WithRemedy("give a window that is longer or on other days, or close fewer days")
	}
	return nil
}

// opens says when nodes may be begun with next: at once, or later. It is false if the
// windows do not open in any time to come.
func (s schedule) opens(now time.Time) (at time.Time, ever bool) {
	if len(s.windows) == 0 {
		return now, true
	}
	for _, w := range s.windows {
		if begins, ok := w.next(now, s.closed); ok && (!ever || begins.Before(at)) {
			at, ever = begins, true
		}
	}
	return at, ever
}

// next is when a window is open next: now, if it is open.
func (o opening) next(now time.Time, closed []string) (time.Time, bool) {
	year, month, day := now.In(o.zone).Date()
	for ahead := -1; ahead <= daysAhead; ahead++ { // the one of yesterday may go on
		date := time.Date(year, month, day+ahead, 0, 0, 0, 0, time.UTC)
		if !slices.Contains(o.days, date.Weekday()) || slices.Contains(closed, date.Format(time.DateOnly)) {
			continue
		}
		begins, ends := onTheWall(date, o.from, o.zone), onTheWall(date, o.to, o.zone)
		if !ends.After(now) || !ends.After(begins) {
			continue
		}
		if begins.Before(now) {
			return now, true
		}
		return begins, true
	}
	return time.Time{}, false
}

// onTheWall is the first moment at which the clock of a zone shows a time of a day, or,
// where it leaves that out, the moment at which it is put forward.
func onTheWall(date time.Time, minutes int, zone *time.Location) time.Time {
	wanted := date.Add(time.Duration(minutes) * time.Minute) // as if the zone was UTC
	t := time.Date(date.Year(), date.Month(), date.Day(), 0, minutes, 0, 0, zone)
	_, offset := t.Zone()
	shows := t.Add(time.Duration(offset) * time.Second).UTC()
	since, until := t.ZoneBounds()
	switch {
	case shows.After(wanted):
		return since
	case shows.Before(wanted):
		return until
	case since.IsZero():
		return t
	}
	_, before := since.Add(-time.Second).Zone()
	if earlier := t.Add(time.Duration(offset-before) * time.Second); offset < before && earlier.Before(since) {
		return earlier
	}
	return t
}

// opensAt is when nodes of a rollout may be begun with; nil: now.
func (r Rollout) opensAt(now time.Time) (*time.Time, error) {
	s, err := r.Plan.schedule()
	if err != nil {
		return nil, fmt.Errorf("read windows of rollout: %w", err)
	}
	at, ever := s.opens(now)
	switch {
	case !ever:
		at = now.AddDate(0, 0, daysAhead) // its last one has passed; somebody aborts it
	case !at.After(now):
		return nil, nil
	}
	return &at, nil
}
