package cli

import (
	"strings"
	"time"
)

// Times as people type them. Those without a zone are local, as they are shown.
var (
	zonedForms = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04Z07:00"}
	localForms = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"}
	clockForms = []string{"15:04", "15:04:05"}
)

const momentForms = `a time such as "2026-03-04 05:06", 2026-03-04T05:06:07Z, 05:06 or "yesterday 05:06", or how long ago it was: 90m, 12h, 7d`

// moment is a time, or one that lies so long before now.
func (a *app) moment(text string) (time.Time, error) {
	return parseMoment(text, a.now().In(a.zone))
}

func parseMoment(text string, now time.Time) (time.Time, error) {
	given := strings.Join(strings.Fields(text), " ")
	for _, form := range zonedForms {
		if t, err := time.Parse(form, given); err == nil {
			return t.UTC(), nil
		}
	}
	for _, form := range localForms {
		if t, err := time.ParseInLocation(form, given, now.Location()); err == nil {
			return t.UTC(), nil
		}
	}
	if t, ok := onADay(given, now); ok {
		return t.UTC(), nil
	}
	if d, err := parseLife(strings.TrimSuffix(given, " ago")); err == nil {
		return now.Add(-d).UTC(), nil
	}
	return time.Time{}, fail(exitUsage, "usage", "", "%q is no time: give %s", text, momentForms)
}

// onADay is a time of today or of yesterday, or the beginning of that day.
func onADay(text string, now time.Time) (time.Time, bool) {
	day, clock, both := strings.Cut(text, " ")
	back := 0
	switch {
	case text == "now":
		return now, true
	case day == "yesterday":
		back = 1
	case day != "today":
		clock, both = text, true
	}
	if !both {
		clock = "00:00"
	}
	for _, form := range clockForms {
		if t, err := time.Parse(form, clock); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day()-back, t.Hour(), t.Minute(), t.Second(), 0, now.Location()), true
		}
	}
	return time.Time{}, false
}
