package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Engine is one of the servers of the stack.
type Engine string

// The engines.
const (
	Postgres Engine = "postgres"
	Temporal Engine = "temporal"
	OpenBao  Engine = "bao"
	NATS     Engine = "nats"
	Registry Engine = "registry"
)

// stopOrder ends the users of an engine before the engine.
var stopOrder = []Engine{Registry, Temporal, OpenBao, NATS, Postgres}

// stopPatience is how long an engine may take to end before it is killed.
const stopPatience = 15 * time.Second

// Options say what to start and where.
type Options struct {
	State     string         // folder of everything that lasts; created when missing
	Servers   string         // path of gpuaas-servers; "" looks it up, see findServers
	Progress  func(Progress) // called one at a time; nil for silence
	Throwaway bool           // for tests: no fsync, no default ports
	Only      []Engine       // nil for those that every control plane needs
	External  Endpoints      // services that the operator named; they are not started
}

// Stack is a running set of engines.
type Stack struct {
	options Options
	folder  folder
	lock    *lock
	record  *record
	ports   *portBook
	report  *reporter

	life context.Context // ends when Stop begins
	end  context.CancelFunc

	work    sync.Mutex // one Ensure or Stop at a time
	stopped bool
	mu      sync.Mutex // guards running
	running map[Engine]*supervisor
}

// Needed are the engines that every control plane needs. A registry is no such engine.
func Needed() []Engine { return []Engine{Postgres, Temporal, OpenBao, NATS} }

// Start starts the engines and returns when all of them answer. If another
// launcher holds the state folder, the error is *AlreadyRunning.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	wanted := o.Only
	if wanted == nil {
		wanted = Needed()
	}
	if err := s.Ensure(ctx, wanted...); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// open takes possession of the state folder: after it, no other launcher and no
// leftover of a killed one touches the data.
func open(ctx context.Context, o Options) (*Stack, error) {
	folder, err := openFolder(o.State)
	if err != nil {
		return nil, err
	}
	lock, err := folder.acquire()
	if err != nil {
		return nil, err
	}
	record, err := loadRecord(folder)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	if err := endLeftovers(ctx, folder, record); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	s := &Stack{
		options: o,
		folder:  folder,
		lock:    lock,
		record:  record,
		ports:   &portBook{record: record, avoidDefaults: o.Throwaway},
		report:  &reporter{tell: o.Progress},
		running: map[Engine]*supervisor{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Ensure starts those of the engines that do not run yet, in parallel where one
// does not need the other. It leaves engines alone that the operator runs. The
// embedded Temporal keeps its data in the embedded PostgreSQL even if the
// product's database is elsewhere.
func (s *Stack) Ensure(ctx context.Context, engines ...Engine) error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.life.Err() != nil {
		return errors.New("start engines: the stack was stopped")
	}
	want := map[Engine]bool{}
	for _, e := range engines {
		if !slices.Contains(stopOrder, e) {
			return fmt.Errorf("start engines: there is no engine %q", e)
		}
		want[e] = !s.options.External.Has(e)
	}
	want[Postgres] = want[Postgres] || want[Temporal]

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.ensureOne(ctx, Postgres, want); err != nil {
			return err
		}
		return s.ensureOne(ctx, Temporal, want)
	})
	group.Go(func() error { return s.ensureOne(ctx, OpenBao, want) })
	group.Go(func() error { return s.ensureOne(ctx, NATS, want) })
	group.Go(func() error { return s.ensureOne(ctx, Registry, want) })
	return group.Wait()
}

func (s *Stack) ensureOne(ctx context.Context, e Engine, want map[Engine]bool) error {
	if !want[e] || s.supervisor(e) != nil {
		return nil
	}
	engine, err := s.build(ctx, e)
	if err != nil {
		return fmt.Errorf("start %s: %w", e, err)
	}
	sup := newSupervisor(e, engine, s.report.of(e))
	if err := sup.start(ctx, s.life); err != nil {
		return fmt.Errorf("start %s: %w", e, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[e] = sup
	return nil
}

// build chooses ports and programs once: an engine that dies comes back with
// the same ones.
func (s *Stack) build(ctx context.Context, e Engine) (engine, error) {
	nursery := &nursery{folder: s.folder, record: s.record}
	switch e {
	case Postgres:
		return newPostgres(ctx, nursery, s.ports, s.options.Throwaway)
	case Temporal:
		return newTemporal(nursery, s.ports, s.options.Servers, s.postgres())
	case OpenBao:
		return newBao(nursery, s.ports, s.options.Servers)
	case NATS:
		return newNATS(s.folder, s.ports)
	case Registry:
		return newRegistry(nursery, s.ports)
	}
	return nil, fmt.Errorf("unknown engine %q", e)
}

func (s *Stack) supervisor(e Engine) *supervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[e]
}

func (s *Stack) postgres() *postgres {
	if sup := s.supervisor(Postgres); sup != nil {
		p, _ := sup.engine.(*postgres)
		return p
	}
	return nil
}

// Stop ends every engine, the users of an engine before the engine, and
// releases the state folder. It kills what has not ended when ctx does. What else
// uses the folder is ended beside it, before the folder is released.
func (s *Stack) Stop(ctx context.Context, beside ...func()) error {
	var group sync.WaitGroup
	for _, f := range beside {
		group.Go(f)
	}
	defer group.Wait()
	s.end()
	s.work.Lock()
	defer s.work.Unlock()
	if s.stopped { // the folder may belong to somebody else by now
		return nil
	}
	s.stopped = true
	for _, e := range stopOrder {
		sup := s.supervisor(e)
		if sup == nil {
			continue
		}
		patience, cancel := context.WithTimeout(ctx, stopPatience)
		sup.stop(patience)
		cancel()
		s.mu.Lock()
		delete(s.running, e)
		s.mu.Unlock()
	}
	group.Wait() // the folder is theirs, too, until they have ended
	s.ports.release()
	return errors.Join(s.record.forgetPIDs(), s.lock.release())
}

// Kill kills an engine and keeps it down until Resume. It is for fault tests: a
// process gets SIGKILL, NATS is shut down.
func (s *Stack) Kill(e Engine) error {
	sup := s.supervisor(e)
	if sup == nil {
		return fmt.Errorf("kill %s: it does not run in this stack", e)
	}
	return sup.ask(killAndHold)
}

// Resume starts an engine that Kill ended and returns when it answers.
func (s *Stack) Resume(e Engine) error {
	sup := s.supervisor(e)
	if sup == nil {
		return fmt.Errorf("resume %s: it does not run in this stack", e)
	}
	return sup.ask(resume)
}

// PID returns the process of an engine: this one for NATS, 0 if it is down.
func (s *Stack) PID(e Engine) int {
	if e == NATS && s.supervisor(NATS) != nil {
		return os.Getpid()
	}
	return s.record.pid(e)
}

// Announce tells a second launcher on the same state folder where this one can
// be reached, usually the address of the console.
func (s *Stack) Announce(url string) error { return s.lock.describe(url) }
