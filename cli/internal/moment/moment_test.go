package moment

import (
	"strings"
	"testing"
	"time"
)

func TestTimesAsPeopleTypeThem(t *testing.T) {
	zone := time.FixedZone("somewhere", 2*3600)
	now := time.Date(2026, 3, 1, 1, 30, 0, 0, zone) // the day before it in UTC, and the first of a month
	for text, want := range map[string]string{
		"2026-02-04T05:06:07Z":      "2026-02-04T05:06:07Z",
		"2026-02-04T05:06:07+01:00": "2026-02-04T04:06:07Z",
		"2026-02-04T05:06:07.5Z":    "2026-02-04T05:06:07Z",
		"2026-02-04 05:06Z":         "2026-02-04T05:06:00Z",
		"2026-02-04 05:06:07Z":      "2026-02-04T05:06:07Z",
		"2026-02-04T05:06Z":         "2026-02-04T05:06:00Z",
		"2026-02-04 05:06":          "2026-02-04T03:06:00Z",
		"2026-02-04  05:06:07 ":     "2026-02-04T03:06:07Z",
		"2026-02-04T05:06":          "2026-02-04T03:06:00Z",
		"2026-02-04":                "2026-02-03T22:00:00Z",
		"01:15":                     "2026-02-28T23:15:00Z",
		"today 01:15:30":            "2026-02-28T23:15:30Z",
		"today":                     "2026-02-28T22:00:00Z",
		"yesterday 14:00":           "2026-02-28T12:00:00Z",
		"yesterday":                 "2026-02-27T22:00:00Z",
		"now":                       "2026-02-28T23:30:00Z",
		"10m":                       "2026-02-28T23:20:00Z",
		"1h30m ago":                 "2026-02-28T22:00:00Z",
		"7d":                        "2026-02-21T23:30:00Z",
	} {
		got, err := Parse(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, want %s: %v", text, got.Format(time.RFC3339), want, err)
		}
	}
	for _, text := range []string{
		"", "ago", "tomorrow", "yesterday noon", "yesterday 25:00", "2026-02-30", "2026-13-01 00:00", "04.02.2026", "-1h",
		"10", "5:6:7:8", "yesterdayish",
	} {
		got, err := Parse(text, now)
		if err == nil {
			t.Errorf("%q is %s", text, got)
			continue
		}
		for _, said := range []string{`"2026-03-04 05:06"`, "yesterday", "90m"} {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%q: the refusal does not say that %s is accepted: %v", text, said, err)
			}
		}
	}
}

func TestWholeDurationsReadAsTheyAreTyped(t *testing.T) {
	for d, want := range map[time.Duration]string{
		12 * time.Hour: "12h", 90 * time.Minute: "1h30m", 5 * time.Minute: "5m", 30 * time.Second: "30s",
		0: "0s", 10 * time.Second: "10s", time.Hour + 5*time.Second: "1h0m5s", 20 * time.Hour: "20h",
		100 * time.Millisecond: "100ms",
	} {
		if got := Whole(d); got != want {
			t.Errorf("%v reads %q, want %q", d, got, want)
		}
	}
}
