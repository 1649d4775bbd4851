package stack

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// engine is something that the stack can start.
type engine interface {
	// launch starts the engine, waits until it answers and completes its
	// set-up, telling what it does. It is called again after each death, and
	// leaves nothing running if it fails.
	launch(ctx context.Context, say func(detail string)) (instance, error)
	// address returns where it listens.
	address() string
	// describe fills in what clients need.
	describe(*Endpoints)
}

// instance is one run of an engine.
type instance interface {
	done() <-chan struct{}    // closed when it has ended
	stop(ctx context.Context) // orderly; with force when ctx ends
	kill()
}

const (
	firstWait     = 100 * time.Millisecond
	longestWait   = 5 * time.Second
	healthyAfter  = 30 * time.Second // a run this long forgives earlier deaths
	launchTimeout = 2 * time.Minute
)

type request int

const (
	killAndHold request = iota
	resume
)

type asked struct {
	what   request
	answer chan error
}

// supervisor owns one engine: a single goroutine starts it again when it dies
// and obeys Kill and Resume.
type supervisor struct {
	name     Engine
	engine   engine
	report   *engineReport
	requests chan asked
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the goroutine is over

	current instance // nil while the engine is down; only the goroutine uses it until ended
	held    bool     // Kill keeps it down
	since   time.Time
	wait    time.Duration
}

func newSupervisor(name Engine, e engine, report *engineReport) *supervisor {
	return &supervisor{
		name: name, engine: e, report: report, wait: firstWait,
		requests: make(chan asked), ended: make(chan struct{}),
	}
}

// start starts the engine within ctx and watches it until life ends.
func (s *supervisor) start(ctx, life context.Context) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	defer context.AfterFunc(life, done)()
	if err := s.launch(ctx, Starting); err != nil {
		return err
	}
	watching, cancel := context.WithCancel(life)
	s.cancel = cancel
	go s.watch(watching)
	return nil
}

func (s *supervisor) launch(ctx context.Context, phase Phase) error {
	s.report.began = time.Now()
	s.report.say(phase, "")
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	current, err := s.engine.launch(ctx, func(detail string) { s.report.say(phase, detail) })
	if err != nil {
		return late(ctx, s.name, err)
	}
	s.current, s.since = current, time.Now()
	s.report.say(Ready, s.engine.address())
	return nil
}

// late says what to do about an engine that was not ready in time; other errors stay as they are.
func late(ctx context.Context, e Engine, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("it was not ready within %.0f minutes (%w): read logs/%s.log in the state folder, make sure that the "+
		"machine is not overloaded and its disk not full, then run the command again", launchTimeout.Minutes(), err, e)
}

func (s *supervisor) watch(ctx context.Context) {
	defer close(s.ended)
	var retry <-chan time.Time
	for {
		var died <-chan struct{}
		if s.current != nil {
			died = s.current.done()
		}
		select {
		case <-ctx.Done():
			return
		case <-died:
			s.current = nil
			retry = s.again("it ended by itself")
		case <-retry:
			retry = nil
			if err := s.launch(ctx, Restarting); err != nil && ctx.Err() == nil {
				retry = s.again(err.Error())
			}
		case r := <-s.requests:
			retry = nil
			r.answer <- s.obey(ctx, r.what)
			if s.current == nil && !s.held {
				retry = s.again("it did not resume")
			}
		}
	}
}

// again schedules the next attempt, later after each quick death.
func (s *supervisor) again(reason string) <-chan time.Time {
	if time.Since(s.since) > healthyAfter {
		s.wait = firstWait
	}
	wait := s.wait
	s.wait = min(2*s.wait, longestWait)
	s.report.say(Restarting, reason)
	return time.After(wait)
}

func (s *supervisor) obey(ctx context.Context, what request) error {
	switch what {
	case killAndHold:
		s.held = true
		if s.current != nil {
			s.current.kill()
			<-s.current.done()
			s.current = nil
		}
		s.report.say(Stopped, "killed on request")
	case resume:
		s.held = false
		if s.current == nil {
			return s.launch(ctx, Restarting)
		}
	}
	return nil
}

// ask hands a request to the goroutine and waits until it was carried out.
func (s *supervisor) ask(what request) error {
	r := asked{what: what, answer: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.answer
	case <-s.ended:
		return errors.New("the stack was stopped")
	}
}

func (s *supervisor) stop(ctx context.Context) {
	s.cancel()
	<-s.ended
	s.report.began = time.Now()
	if s.current != nil {
		s.current.stop(ctx)
	}
	s.report.say(Stopped, "")
}
