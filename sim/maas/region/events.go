package region

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Level is how important an event is.
type Level int

// The levels of MAAS.
const (
	Audit    Level = 0
	Debug    Level = 10
	Info     Level = 20
	Warning  Level = 30
	Error    Level = 40
	Critical Level = 50
)

var levelNames = map[Level]string{
	Audit: "AUDIT", Debug: "DEBUG", Info: "INFO", Warning: "WARNING", Error: "ERROR",
	Critical: "CRITICAL",
}

// Event is one line of the log of a machine.
type Event struct {
	ID       int
	Machine  string
	Hostname string
	User     string
	Level    Level
	At       time.Time
	Type     string
	Text     string
	Action   string
}

// mostEvents limits the log, as MAAS's own clean-up does.
const mostEvents = 400_000

func (r *Region) say(m *Machine, level Level, kind, text string) {
	r.enter(m, &Event{Level: level, Type: kind, Text: text})
}

// sayDuring logs an event that names its action.
func (r *Region) sayDuring(m *Machine, action string, level Level, kind, text string) {
	r.enter(m, &Event{Level: level, Type: kind, Text: text, Action: action})
}

// enter writes an event into the log. People see the latest by its own time,
// which a node may date back.
func (r *Region) enter(m *Machine, e *Event) {
	e.ID, e.Machine, e.Hostname = r.id("event"), m.SystemID, m.Hostname
	if e.At.IsZero() {
		e.At = r.clock.Now()
	}
	if len(r.state.Events) >= mostEvents {
		r.state.Events = slices.Clone(r.state.Events[mostEvents/4:])
	}
	r.state.Events = append(r.state.Events, e)
	if e.Level < Info || m.Said != nil && e.At.Before(m.Said.At) {
		return
	}
	m.Said = &Said{Text: e.Type, Action: e.Action, At: e.At}
	if e.Text != "" {
		m.Said.Text += " - " + e.Text
	}
}

// sayRequest logs what a user asked for.
func (r *Region) sayRequest(m *Machine, c Caller, kind, comment string) {
	text := "(" + c.name() + ")"
	if comment != "" {
		text += " - " + comment
	}
	r.enter(m, &Event{User: c.name(), Level: Debug, Type: kind, Text: text})
}

// EventDoc is an event on the wire.
type EventDoc struct {
	Username    string `json:"username"`
	Node        string `json:"node"`
	Hostname    string `json:"hostname"`
	ID          int    `json:"id"`
	Level       string `json:"level"`
	Created     string `json:"created"`
	Type        string `json:"type"`
	Description string `json:"description"`
}

// EventPage is the answer of an event query.
type EventPage struct {
	Count   int        `json:"count"`
	Events  []EventDoc `json:"events"`
	NextURI *string    `json:"next_uri"`
	PrevURI *string    `json:"prev_uri"`
}

const (
	defaultEvents = 100
	mostPerQuery  = 1000
)

type eventQuery struct {
	ids, hosts, macs, domains, zones, pools, agents []string
	owner                                           string
	level                                           Level
	limit                                           int
	before, after                                   int
	hasBefore, hasAfter                             bool
}

func parseEventQuery(q url.Values) (eventQuery, error) {
	e := eventQuery{
		ids: q["id"], hosts: q["hostname"], macs: q["mac_address"], domains: q["domain"], zones: q["zone"],
		pools: q["pool"], agents: q["agent_name"], owner: q.Get("owner"), level: Info, limit: defaultEvents,
	}
	if l := q.Get("level"); l != "" {
		known := false
		for level, name := range levelNames {
			if name == l {
				e.level, known = level, true
			}
		}
		if !known {
			return e, badRequest("Unrecognised log level: %s", l)
		}
	}
	var err error
	number := func(name string, into *int) bool {
		v := q.Get(name)
		if v == "" || err != nil {
			return false
		}
		n, e := strconv.Atoi(v)
		if e != nil {
			err = badRequest("Invalid %s: Please enter an integer value", name)
			return false
		}
		*into = n
		return true
	}
	number("limit", &e.limit)
	e.hasBefore, e.hasAfter = number("before", &e.before), number("after", &e.after)
	switch {
	case err != nil:
		return e, err
	case e.limit > mostPerQuery:
		return e, badRequest("Requested number of events %d is greater than limit: %d", e.limit, mostPerQuery)
	case e.hasBefore && e.hasAfter:
		return e, badRequest("There is undetermined behaviour when both `after` and `before` are specified.")
	}
	return e, nil
}

func anyOf(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

func (r *Region) matches(q *eventQuery, e *Event, m *Machine) bool {
	loud := e.Level >= q.level
	if q.level == Audit {
		loud = e.Level == Audit
	}
	if !loud || !anyOf(q.ids, m.SystemID) || !anyOf(q.hosts, m.Hostname) || !anyOf(q.domains, m.Domain) ||
		!anyOf(q.zones, m.Zone) || !anyOf(q.pools, m.Pool) || !anyOf(q.agents, m.AgentName) {
		return false
	}
	if q.owner != "" && e.User != q.owner {
		return false
	}
	return len(q.macs) == 0 || slices.ContainsFunc(m.Interfaces,
		func(i *Interface) bool { return slices.Contains(q.macs, i.MAC) })
}

// Events answers an event query: newest first, whichever way it was paged.
func (r *Region) Events(c Caller, q url.Values) (*EventPage, error) {
	e, err := parseEventQuery(q)
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := r.findEvents(&e, c)
	page := &EventPage{Count: len(found), Events: make([]EventDoc, 0, len(found))}
	for _, f := range found {
		user := f.User
		if user == "" {
			user = "unknown"
		}
		page.Events = append(page.Events, EventDoc{
			Username: user, Node: f.Machine, Hostname: f.Hostname, ID: f.ID,
			Level: levelNames[f.Level], Created: f.At.UTC().Format("Mon, 02 Jan. 2006 15:04:05"), Type: f.Type,
			Description: f.Text,
		})
	}
	page.NextURI, page.PrevURI = eventURIs(q, &e, found)
	return page, nil
}

func (r *Region) findEvents(q *eventQuery, c Caller) []*Event {
	var found []*Event
	take := func(e *Event) bool {
		if m := r.bySystem[e.Machine]; m != nil && visible(c, m) && r.matches(q, e, m) {
			found = append(found, e)
		}
		return len(found) < q.limit
	}
	all := r.state.Events
	from := func(id int) int {
		i, _ := slices.BinarySearchFunc(all, id, func(e *Event, id int) int { return e.ID - id })
		return i
	}
	if q.hasAfter {
		for _, e := range all[from(q.after+1):] {
			if !take(e) {
				break
			}
		}
		slices.Reverse(found)
		return found
	}
	if q.hasBefore {
		all = all[:from(q.before)]
	}
	for _, e := range slices.Backward(all) {
		if !take(e) {
			break
		}
	}
	return found
}

// eventURIs returns the links to the previous and next page. The one after an
// empty page has lost its cursor, as in MAAS.
func eventURIs(q url.Values, e *eventQuery, found []*Event) (next, prev *string) {
	var b strings.Builder
	b.WriteString("/MAAS/api/2.0/events/?op=query")
	for _, name := range []string{
		"id", "hostname", "mac_address", "domain", "zone", "pool", "agent_name", "owner",
		"level", "limit",
	} {
		for _, v := range q[name] {
			b.WriteString("&" + name + "=" + url.QueryEscape(v))
		}
	}
	base := b.String()
	link := func(name string, id int) *string {
		s := base + "&" + name + "=" + strconv.Itoa(id)
		return &s
	}
	if len(found) > 0 {
		return link("after", found[0].ID), link("before", found[len(found)-1].ID)
	}
	bare := base
	if e.hasAfter {
		return &bare, link("before", e.after+1)
	}
	return &bare, nil
}

// Latest returns the newest event of a machine at or above a level.
func (r *Region) Latest(systemID string, level Level) (EventDoc, error) {
	p, err := r.Events(Caller{User: &User{Name: "admin", Admin: true}},
		url.Values{"id": {systemID}, "level": {levelNames[level]}, "limit": {"1"}})
	if err != nil {
		return EventDoc{}, err
	}
	if len(p.Events) == 0 {
		return EventDoc{}, &RefusalError{
			Status: http.StatusNotFound,
			Text:   fmt.Sprintf("machine %s has said nothing", strings.TrimSpace(systemID)),
		}
	}
	return p.Events[0], nil
}
