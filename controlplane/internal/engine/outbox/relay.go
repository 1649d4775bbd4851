package outbox

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Deliverer carries messages to one destination. The messages of one call
// belong to different aggregates, so their order does not matter.
type Deliverer interface {
	// Deliver returns one result per message: nil if it was accepted. A fault
	// of kind Unavailable says that the destination cannot be reached: it does
	// not count as an attempt, and the relay waits for the destination. Any
	// other error counts as an attempt. A message may be delivered again after
	// it was accepted, always with the same id.
	Deliver(ctx context.Context, batch []Message) []error
}

// RelayConfig says what to relay and how. Zero values mean the defaults.
type RelayConfig struct {
	DB           *postgres.DB
	Logger       *slog.Logger
	Destinations map[string]Deliverer // by DestinationNATS, DestinationTemporal

	BatchSize   int           // messages of one partition at a time; 256
	Workers     int           // partitions of a destination at a time; 2
	MaxAttempts int           // then the message has failed; 10
	RetryUnit   time.Duration // attempt n is followed by a pause of 2^n units; 1 s
	RetryCap    time.Duration // the longest pause; 60 s
	OutageCap   time.Duration // the longest pause while a destination is away; 3 s
	BatchBudget time.Duration // how long the delivery of a batch may take; 20 s
	Sweep       time.Duration // look for work at least this often; 30 s
}

func (c RelayConfig) withDefaults() RelayConfig {
	set := func(d *time.Duration, standard time.Duration) {
		if *d <= 0 {
			*d = standard
		}
	}
	count := func(n *int, standard int) {
		if *n <= 0 {
			*n = standard
		}
	}
	count(&c.BatchSize, 256)
	count(&c.Workers, 2)
	count(&c.MaxAttempts, 10)
	set(&c.RetryUnit, time.Second)
	set(&c.RetryCap, time.Minute)
	set(&c.OutageCap, 3*time.Second)
	set(&c.BatchBudget, 20*time.Second)
	set(&c.Sweep, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Relay carries messages from the outbox to their destinations. Each
// destination has its own workers, so one that is away does not hold up
// another.
type Relay struct {
	cfg RelayConfig
}

// NewRelay makes a relay. Run starts it.
func NewRelay(cfg RelayConfig) *Relay { return &Relay{cfg: cfg.withDefaults()} }

// Run relays until the context ends, then finishes the batches in hand and
// returns. It outlives any outage of the database or a destination.
func (r *Relay) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Destinations)) {
		l := &lane{
			RelayConfig: r.cfg, name: name, to: r.cfg.Destinations[name],
			log: r.cfg.Logger.With("destination", name), woken: make(chan struct{}, 1), metrics: relayMetrics(name),
		}
		group.Go(func() { l.listen(ctx) })
		for range r.cfg.Workers {
			group.Go(func() { l.work(ctx) })
		}
	}
	group.Wait()
}

// lane is the way to one destination.
type lane struct {
	RelayConfig
	name    string
	to      Deliverer
	log     *slog.Logger
	woken   chan struct{}
	away    atomic.Bool // the destination could not be reached last time
	metrics relayMetrics
}

// wake makes one idle worker look for work. If it finds some, it wakes the
// next.
func (l *lane) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// listen keeps a subscription to the database's notifications. After each new
// subscription the relay looks for what was committed in between.
func (l *lane) listen(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := l.DB.Listen(ctx, channelOf(l.name), func() { failures = 0; l.wake() }, func(string) { l.wake() })
		if ctx.Err() != nil {
			return
		}
		l.log.WarnContext(ctx, "outbox notifications lost; subscribing again", "error", err)
		pause(ctx, backOff(failures, 100*time.Millisecond, l.OutageCap))
	}
}

// work empties the lane, one batch at a time, and sleeps when there is nothing
// to do. When the context has ended, it notifies other relays: events that came
// in meanwhile must not wait for their next sweep.
func (l *lane) work(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		found, err := l.relayBatch(context.WithoutCancel(ctx))
		switch {
		case err != nil:
			l.logOutage(ctx, err)
			pause(ctx, backOff(failures, 100*time.Millisecond, l.OutageCap))
			failures++
		case found:
			failures = 0
		default:
			failures = 0
			l.idle(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = l.DB.Notify(ctx, channelOf(l.name), "") // best effort: the sweep finds it otherwise
}

// logOutage logs the beginning of an outage of a destination, not each of the
// many attempts during it.
func (l *lane) logOutage(ctx context.Context, err error) {
	if fault.CodeOf(err) != postgres.ErrUnavailable.Code && fault.KindOf(err) == fault.Unavailable {
		if !l.away.Swap(true) {
			l.log.WarnContext(ctx, "outbox destination is unavailable; messages wait", "error", err)
		}
		return
	}
	l.log.WarnContext(ctx, "outbox batch interrupted; it will be repeated", "error", err)
}

// idle sleeps until there may be something to do. The timer matters only for
// messages that wait for another attempt, and for work of a relay that died.
func (l *lane) idle(ctx context.Context) {
	timer := time.NewTimer(l.outlook(ctx))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.woken:
	case <-timer.C:
	}
}

// heldElsewhere is how soon to look again at work that another relay holds:
// that relay may have died without telling anybody.
const heldElsewhere = time.Second

func (l *lane) outlook(ctx context.Context) time.Duration {
	o, err := outboxdb.New(l.DB).Outlook(ctx, l.name)
	if err != nil {
		return heldElsewhere // the next batch meets and reports the same trouble
	}
	wait := l.Sweep
	if o.HeldElsewhere {
		wait = min(wait, heldElsewhere)
	}
	if due := o.DueInSeconds; due < wait.Seconds() {
		wait = max(time.Duration(math.Ceil(due*1000))*time.Millisecond, 10*time.Millisecond)
	}
	return wait
}

// backOff is the pause after a number of failures, with jitter so that relays
// do not retry in step.
func backOff(failures int, unit, longest time.Duration) time.Duration {
	d := longest
	if failures < 30 && unit<<failures < longest {
		d = unit << failures
	}
	return d*3/4 + rand.N(d/2+1) //nolint:gosec // jitter, not a secret
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
