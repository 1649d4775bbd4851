package maas

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// Source is what a watcher reads from. Client implements it.
type Source interface {
	Machines(ctx context.Context, f Filter) ([]Machine, error)
	Machine(ctx context.Context, id string) (Machine, error)
	EventReader
}

// WatcherConfig tunes a watcher. Zero values mean the defaults.
type WatcherConfig struct {
	Clock          Clock
	Pace           func(Status) (least, most time.Duration) // shortest and longest pause between looks, by status
	EventsEvery    time.Duration                            // 2 s
	HeartbeatEvery time.Duration                            // 10 s
	Parallel       int                                      // reads at a time; 3, which leaves a slot to others
}

// Watcher looks at the machines of one site for everybody who waits for one of
// them. It reads many machines with one request, reads the events of the region
// to notice changes early, and looks less often at what takes long, or when
// MAAS is slow.
//
// It runs only while somebody waits.
type Watcher struct {
	source Source
	cfg    WatcherConfig
	tail   *Tail

	mu       sync.Mutex
	watched  map[string]*watched
	running  bool
	closed   bool
	readers  int
	tailing  bool
	tailDue  time.Time
	cost     time.Duration // average time to read one machine
	lastFail error         // failure of the latest look, while MAAS does not answer
	kick     chan struct{}
	end      chan struct{}
}

type watched struct {
	id       string
	waiters  map[*waiter]struct{}
	due      time.Time
	interval time.Duration
	status   Status
	reading  bool
	again    bool // an event came while it was being read
	missing  int  // direct reads that did not find it
}

type waiter struct{ news chan sighting }

// sighting is the result of one look at a machine.
type sighting struct {
	machine Machine
	err     error
}

// NewWatcher makes a watcher. There should be one per site.
func NewWatcher(source Source, cfg WatcherConfig) *Watcher {
	if cfg.Clock == nil {
		cfg.Clock = systemClock{}
	}
	if cfg.Pace == nil {
		cfg.Pace = DefaultPace
	}
	preset(&cfg.EventsEvery, 2*time.Second)
	preset(&cfg.HeartbeatEvery, 10*time.Second)
	preset(&cfg.Parallel, PerSite-1)
	return &Watcher{
		source: source, cfg: cfg,
		watched: map[string]*watched{}, kick: make(chan struct{}, 1), end: make(chan struct{}),
	}
}

// DefaultPace looks often at what takes seconds and seldom at what takes
// minutes. Within the range, it looks less often the longer nothing changes.
func DefaultPace(s Status) (least, most time.Duration) {
	switch s {
	case StatusCommissioning, StatusTesting, StatusDeploying, StatusDiskErasing:
		return 5 * time.Second, 15 * time.Second
	default: // releasing, power, and everything else that takes seconds
		return 2 * time.Second, 5 * time.Second
	}
}

// Close ends the watcher and all waits.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.end)
	}
}

// Wait returns the machine once want is satisfied. It fails at once if want
// says so, with the event of MAAS that explains it, if the machine is gone, and
// if the API key is refused. While MAAS does not answer, it goes on waiting. It
// calls heartbeat, which may be nil, at least every HeartbeatEvery.
func (w *Watcher) Wait(ctx context.Context, systemID string, want func(Machine) Verdict, heartbeat func()) (
	Machine, error,
) {
	me := w.join(systemID)
	defer w.leave(systemID, me)
	var last Machine
	beat := w.cfg.Clock.After(w.cfg.HeartbeatEvery)
	for {
		select {
		case seen := <-me.news:
			if seen.err != nil {
				return last, seen.err
			}
			last = seen.machine
			if v := want(last); v.Failed() {
				return last, w.explain(ctx, last, v)
			} else if v.Done() {
				return last, nil
			}
		case <-beat:
			if heartbeat != nil {
				heartbeat()
			}
			beat = w.cfg.Clock.After(w.cfg.HeartbeatEvery)
		case <-ctx.Done():
			return last, w.ended(systemID, last, ctx.Err())
		case <-w.end:
			return last, w.ended(systemID, last, errors.New("the watcher was closed"))
		}
	}
}

func (w *Watcher) ended(id string, last Machine, cause error) error {
	w.mu.Lock()
	fail := w.lastFail
	w.mu.Unlock()
	if fail != nil {
		cause = fmt.Errorf("%w; MAAS did not answer: %w", cause, fail)
	}
	state := last.Status.Label()
	if last.SystemID == "" {
		state = "not seen yet"
	}
	return fault.Wrap(cause, fault.Unavailable, CodeWaitEnded, "the wait for MAAS machine %s ended while it was %s", id,
		state).
		WithRemedy("look at the machine and its events in MAAS")
}

// MachineError holds the details of a wait that failed.
type MachineError struct {
	SystemID string
	Hostname string
	Status   Status
	Reason   string
	Event    *Event // the event that explains it, if MAAS has one
}

func (f *MachineError) Error() string {
	text := fmt.Sprintf("%s is %s: %s", shown(f.Hostname), f.Status.Label(), f.Reason)
	if f.Event != nil {
		text += fmt.Sprintf(" (event %d)", f.Event.ID)
	}
	return text
}

// explain finds the event that says why a machine failed.
func (w *Watcher) explain(ctx context.Context, m Machine, v Verdict) error {
	detail := &MachineError{SystemID: m.SystemID, Hostname: m.Hostname, Status: m.Status, Reason: v.Reason()}
	why := ""
	events, err := w.source.Events(ctx, EventQuery{IDs: []string{m.SystemID}, Level: LevelWarning, Limit: 10})
	if err == nil {
		if e := telling(events); e != nil {
			detail.Event = e
			why = quoted(shown(e.Type + " - " + e.Description))
		}
	}
	return fault.Wrap(detail, fault.Conflict, CodeMachineFailed, "%s is %s in MAAS; %s%s", shown(m.Hostname),
		m.Status.Label(), v.Reason(), why).
		WithRemedy("look at the machine's events and script results in MAAS")
}

// telling chooses the newest event, preferring the one with which MAAS gave up.
func telling(events []Event) *Event {
	var best *Event
	for i := range events {
		e := &events[i]
		if best == nil || e.Type == "Marking node failed" || best.Type != "Marking node failed" {
			best = e
		}
	}
	return best
}
