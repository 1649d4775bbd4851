package maas

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Level is how important an event is.
type Level string

// The levels of events.
const (
	LevelDebug    Level = "DEBUG"
	LevelInfo     Level = "INFO"
	LevelWarning  Level = "WARNING"
	LevelError    Level = "ERROR"
	LevelCritical Level = "CRITICAL"
)

// Event is something that MAAS recorded about a machine.
type Event struct {
	ID          int64     `json:"id"`
	SystemID    string    `json:"node"`
	Hostname    string    `json:"hostname"`
	Level       Level     `json:"level"`
	Type        string    `json:"type"`
	Description string    `json:"description"`
	Username    string    `json:"username"`
	Created     EventTime `json:"created"`
}

// EventTime is the time of an event, in UTC and to the second. It is zero if
// MAAS wrote it in a form that this program does not know.
type EventTime struct{ time.Time }

// UnmarshalJSON never fails: an event without a time is better than none.
func (t *EventTime) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return nil //nolint:nilerr // see above
	}
	text = strings.ReplaceAll(text, ".", "")
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05", time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			t.Time = at.UTC()
			return nil
		}
	}
	return nil
}

// MaxEvents is the most that MAAS returns at once.
const MaxEvents = 1000

// EventQuery selects events. After is exclusive.
type EventQuery struct {
	IDs   []string // of machines; empty: all
	Level Level    // the least important level; empty: INFO
	After int64    // 0: the newest ones
	Limit int      // 0: 100
}

// Events returns events, the oldest first. With After it returns the first ones
// after that id, otherwise the newest.
func (c *Client) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	values := url.Values{}
	if len(q.IDs) > 0 {
		values["id"] = q.IDs
	}
	if q.Level != "" {
		values.Set("level", string(q.Level))
	}
	if q.After > 0 {
		values.Set("after", number(q.After))
	}
	if q.Limit > 0 {
		values.Set("limit", number(int64(min(q.Limit, MaxEvents))))
	}
	page, err := fetch[struct {
		Events []Event `json:"events"`
	}](ctx, c, call{path: "events/", op: "query", query: values})
	if err != nil {
		return nil, fmt.Errorf("query MAAS events: %w", err)
	}
	slices.SortFunc(page.Events, func(a, b Event) int { return int(a.ID - b.ID) })
	return page.Events, nil
}

// EventReader is what a Tail reads from.
type EventReader interface {
	Events(ctx context.Context, q EventQuery) ([]Event, error)
}

// overlap is how many ids before the cursor are read again, because MAAS
// assigns an id before the transaction that uses it commits.
const overlap = 100

// Tail follows the events of a region with its own cursor, because the link to
// the next page that MAAS sends loses its place as soon as a page is empty.
type Tail struct {
	reader EventReader
	level  Level
	cursor int64
	begun  bool
	seen   map[int64]bool // ids within the overlap that were returned already
}

// NewTail follows events after an id. 0 means from now on.
func NewTail(reader EventReader, level Level, after int64) *Tail {
	return &Tail{reader: reader, level: level, cursor: after, begun: after > 0, seen: map[int64]bool{}}
}

// Next returns the events since the last call, the oldest first.
func (t *Tail) Next(ctx context.Context) ([]Event, error) {
	if !t.begun {
		newest, err := t.reader.Events(ctx, EventQuery{Level: t.level, Limit: overlap})
		if err != nil {
			return nil, err
		}
		t.begun = true
		t.fresh(newest) // older events are skipped
		return nil, nil
	}
	var out []Event
	for from := max(t.cursor-overlap, 0); ; {
		page, err := t.reader.Events(ctx, EventQuery{Level: t.level, After: from, Limit: MaxEvents})
		if err != nil {
			return out, err
		}
		out = append(out, t.fresh(page)...)
		if len(page) < MaxEvents {
			return out, nil
		}
		from = page[len(page)-1].ID
	}
}

// fresh moves the cursor and returns the events that were not returned before.
func (t *Tail) fresh(page []Event) []Event {
	var out []Event
	for _, e := range page {
		if !t.seen[e.ID] {
			t.seen[e.ID] = true
			out = append(out, e)
		}
		t.cursor = max(t.cursor, e.ID)
	}
	for id := range t.seen {
		if id < t.cursor-2*overlap {
			delete(t.seen, id)
		}
	}
	return out
}
