package rollout

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// Berlin puts its clock from 02:00 to 03:00 on 28 March 2027, and from 03:00 back to
// 02:00 on 31 October 2027; both are Sundays. 18 January 2027 is a Monday.
func TestWindowsGoByTheClockOnTheWall(t *testing.T) {
	daily := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	in := func(zone, from, to string, days ...string) Window {
		if days == nil {
			days = daily
		}
		return Window{zone, days, from, to}
	}
	const berlin = "Europe/Berlin"
	for _, c := range []struct {
		name, now, want string
		window          Window
		closed          []string
	}{
		{"before it", "2027-01-18T20:00:00Z", "2027-01-18T21:00:00Z", in(berlin, "22:00", "04:00"), nil},
		{"in it", "2027-01-18T23:00:00Z", "2027-01-18T23:00:00Z", in(berlin, "22:00", "04:00"), nil},
		{
			"in the one of yesterday", "2027-01-19T02:59:00Z", "2027-01-19T02:59:00Z", in(berlin, "22:00", "04:00", "mon"),
			nil,
		},
		{"at its end", "2027-01-19T03:00:00Z", "2027-01-19T21:00:00Z", in(berlin, "22:00", "04:00"), nil},
		{
			"on its day", "2027-01-19T03:00:00Z", "2027-01-25T21:00:00Z", in(berlin, "22:00", "04:00", "mon"),
			nil,
		},
		{"in summer", "2027-07-19T12:00:00Z", "2027-07-19T20:00:00Z", in(berlin, "22:00", "04:00"), nil},
		{
			"through the night of spring", "2027-03-28T01:59:00Z", "2027-03-28T01:59:00Z", in(berlin, "22:00", "04:00", "sat"),
			nil,
		},
		{
			"an hour shorter in spring", "2027-03-28T02:00:00Z", "2027-04-03T20:00:00Z", in(berlin, "22:00", "04:00", "sat"),
			nil,
		},
		{
			"begins where the clock jumps", "2027-03-28T00:00:00Z", "2027-03-28T01:00:00Z", in(berlin, "02:30", "04:00"),
			nil,
		},
		{
			"left out in spring", "2027-03-28T00:00:00Z", "2027-03-29T00:15:00Z", in(berlin, "02:15", "02:45"),
			nil,
		},
		{
			"the first of two in autumn", "2027-10-30T23:00:00Z", "2027-10-31T00:30:00Z", in(berlin, "02:30", "06:00", "sun"),
			nil,
		},
		{
			"not closed between the two", "2027-10-31T01:10:00Z", "2027-10-31T01:10:00Z", in(berlin, "02:30", "06:00", "sun"),
			nil,
		},
		{
			"an hour longer in autumn", "2027-10-31T04:59:00Z", "2027-10-31T04:59:00Z", in(berlin, "02:30", "06:00", "sun"),
			nil,
		},
		{
			"ends with the first of two", "2027-10-31T00:30:00Z", "2027-11-07T00:00:00Z", in(berlin, "01:00", "02:30", "sun"),
			nil,
		},
		{
			"a zone of half hours", "2027-01-18T12:00:00Z", "2027-01-18T16:30:00Z", in("Asia/Kolkata", "22:00", "24:00"),
			nil,
		},
		{
			"a closed day", "2027-01-18T20:00:00Z", "2027-01-20T21:00:00Z", in(berlin, "22:00", "04:00"),
			[]string{"2027-01-18", "2027-01-19"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Plan{Windows: []Window{c.window}, Closed: c.closed}.schedule()
			if err != nil {
				t.Fatal(err)
			}
			if got, ever := s.opens(at(t, c.now)); !ever || !got.Equal(at(t, c.want)) {
				t.Errorf("it opens at %s, not at %s", got.UTC().Format(time.RFC3339), c.want)
			}
		})
	}
}

// The earliest of several windows counts.
func TestTheEarliestWindowCounts(t *testing.T) {
	s, err := Plan{Windows: []Window{
		{"UTC", []string{"fri"}, "10:00", "11:00"}, {"America/New_York", []string{"thu"}, "10:00", "11:00"},
	}}.schedule()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := s.opens(at(t, "2027-01-18T00:00:00Z")); !got.Equal(at(t, "2027-01-21T15:00:00Z")) {
		t.Errorf("it opens at %s", got)
	}
}

func TestWindowsThatNeverOpenAreRefused(t *testing.T) {
	now := at(t, "2027-01-18T00:00:00Z")
	var year []string
	for d := range daysAhead + 5 {
		year = append(year, now.AddDate(0, 0, d-2).Format(time.DateOnly))
	}
	const invalid, never = "agent_rollout_window_invalid", "agent_rollout_window_never_opens"
	for name, c := range map[string]struct {
		window Window
		closed []string
		code   string
	}{
		"no such zone":     {Window{"Europe/Atlantis", []string{"mon"}, "10:00", "11:00"}, nil, invalid},
		"zone of the host": {Window{"Local", []string{"mon"}, "10:00", "11:00"}, nil, invalid},
		"no zone":          {Window{"", []string{"mon"}, "10:00", "11:00"}, nil, invalid},
		"no length":        {Window{"UTC", []string{"mon"}, "10:00", "10:00"}, nil, invalid},
		"no time":          {Window{"UTC", []string{"mon"}, "25:00", "10:00"}, nil, invalid},
		"no such day":      {Window{"UTC", []string{"moonday"}, "10:00", "11:00"}, nil, invalid},
		"no date":          {Window{"UTC", []string{"mon"}, "10:00", "11:00"}, []string{"christmas"}, invalid},
		"on no day":        {Window{"UTC", nil, "10:00", "11:00"}, nil, never},
		"all days closed":  {Window{"UTC", []string{"mon", "tue"}, "10:00", "11:00"}, year, never},
	} {
		t.Run(name, func(t *testing.T) {
			err := Plan{Windows: []Window{c.window}, Closed: c.closed}.checkWindows(now)
			if fault.CodeOf(err) != c.code {
				t.Errorf("%v", err)
			}
		})
	}
	if err := (Plan{Closed: []string{"2027-01-18"}}).checkWindows(now); fault.CodeOf(err) != invalid {
		t.Errorf("closed days without a window: %v", err)
	}
	if err := (Plan{}).checkWindows(now); err != nil {
		t.Errorf("a plan without windows: %v", err)
	}
}
