package moment

import (
	"strconv"
	"strings"
	"time"

	"gpuaas/cli/internal/failure"
)

// Times as people type them. Those without a zone are local, as they are shown.
var (
	zonedForms = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04Z07:00"}
	localForms = []string{
		"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05",
		"2006-01-02",
	}
	clockForms = []string{"15:04", "15:04:05"}
)

// Forms says which times are understood, for help texts.
const Forms = `a time such as "2026-03-04 05:06", 2026-03-04T05:06:07Z, 05:06 or "yesterday 05:06", or how long ago it was: 90m, 12h, 7d`

// Parse reads a time as people type it.
func Parse(text string, now time.Time) (time.Time, error) {
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
	if d, err := ParseLife(strings.TrimSuffix(given, " ago")); err == nil {
		return now.Add(-d).UTC(), nil
	}
	return time.Time{}, failure.New(failure.Usage, "usage", "", "%q is not a time: give %s", text, Forms)
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

// Distance is how far away something is, before or after now.
func Distance(d time.Duration) string {
	if d < 0 {
		return "in " + Short(-d)
	}
	return Short(d) + " ago"
}

// Short is a duration in its largest unit.
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 2*day:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d/day)) + "d"
}

// Whole is a duration in all of its units, without those that are zero at its end: 12h, 1h30m.
func Whole(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if before, ends := strings.CutSuffix(text, zero); ends {
			text = before + zero[:1]
		}
	}
	return text
}

// ParseLife is a duration that may be in days.
func ParseLife(text string) (time.Duration, error) {
	const longest = 100 * 365
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 31)
		if err != nil || n > longest {
			return 0, failure.New(failure.Usage, "usage", "", "%q is not a number of days", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, failure.New(failure.Usage, "usage", "", "%q is not a duration such as 90m, 12h or 30d", text)
	}
	return d, nil
}
