package maas

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/sim/maas/api"
	"gpuaas/sim/maas/control"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/maas/simclock"
)

// Options say what to start. The zero value is an empty region on a free port
// of the loopback interface in which everything happens at once.
type Options struct {
	Listen  string // address of the API; empty is a free loopback port
	Control string // address of the control API; empty: none
	Clock   simclock.Clock
	Seed    uint64
	Timing  region.Timing
	// Fleet is what the region starts with, unless it is read from a file.
	Fleet fleet.Options
	// Images are added to those of a fresh region, as "custom/name" or "os/series".
	Images []string
	// Settings are those that an administrator would have changed, by name.
	Settings map[string]string
	State    string // file in which the region is stored; empty: none
	// SaveEvery is how much of it can be lost if the process is killed. 0 means
	// a second.
	SaveEvery time.Duration
	// Careful loses nothing that a client was told. It costs a save for each
	// change.
	Careful  bool
	Scenario *fault.Scenario
	ListCost time.Duration
	InFlight int
	BMC      region.BMC
	Metal    region.Metal
	Passive  bool
	Log      *slog.Logger
}

// Region is a running simulator.
type Region struct {
	*region.Region
	// URL is the address for clients. It ends in /MAAS.
	URL string
	// Token is the API key of an administrator.
	Token string
	// OperatorToken is the API key of a plain user.
	OperatorToken string
	// ControlURL is the address of the control API, if there is one. It holds the
	// password of this start.
	ControlURL string
	// Faults is the plan of what goes wrong.
	Faults *fault.Plan

	log      *slog.Logger
	state    string
	servers  []*http.Server
	stop     chan struct{}
	once     sync.Once
	done     sync.WaitGroup
	closing  error
	saving   sync.Mutex    // a file must not be replaced by an older one
	asked    atomic.Uint64 // how often somebody asked for the file to be written
	answered uint64        // how many of them it has what they changed; guarded by saving
}

// Start starts a simulator. It runs until it is closed.
func Start(o Options) (*Region, error) {
	if o.Clock == nil {
		o.Clock = simclock.Wall()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	plan := fault.NewPlan(o.Seed)
	r := &Region{Faults: plan, log: o.Log, state: o.State, stop: make(chan struct{})}
	if err := r.open(o, plan); err != nil {
		return nil, err
	}
	if err := r.serve(o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for name, value := range o.Settings {
		if err := r.SetSetting(region.Caller{User: &region.User{Admin: true}}, name, value, true); err != nil {
			return nil, errors.Join(fmt.Errorf("change setting %s: %w", name, err), r.Close())
		}
	}
	r.Token, r.OperatorToken = r.AdminKey(), r.OperatorKey()
	if o.State != "" {
		r.done.Add(1)
		go r.keepSaving(o.Clock, cmp.Or(o.SaveEvery, saveEvery))
	}
	return r, nil
}

func (r *Region) open(o Options, plan *fault.Plan) error {
	ro := region.Options{
		Clock: o.Clock, Seed: o.Seed, Timing: o.Timing, BMC: o.BMC, Metal: o.Metal, Mischief: plan,
		Passive: o.Passive, Log: o.Log,
	}
	loaded := false
	if o.State != "" {
		f, err := os.Open(o.State)
		switch {
		case err == nil:
			r.Region, err = region.Load(ro, f)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("read state file: %w", err)
			}
			loaded = true
		case !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("open state file: %w", err)
		}
	}
	if !loaded {
		r.Region = region.Open(ro)
		for _, name := range o.Images {
			r.AddImage(name)
		}
		o.Fleet.Seed = o.Seed
		if err := fleet.Populate(r.Region, o.Fleet); err != nil {
			return fmt.Errorf("make fleet: %w", err)
		}
	}
	if o.Scenario == nil {
		return nil
	}
	for _, rule := range o.Scenario.Faults {
		if _, err := plan.Add(rule); err != nil {
			return fmt.Errorf("add fault: %w", err)
		}
	}
	for _, h := range o.Scenario.Happenings {
		r.HappenLater(time.Duration(h.After), h.Machine, h.Do)
	}
	return nil
}

func (r *Region) serve(o Options) error {
	var face http.Handler = api.New(api.Options{
		Region: r.Region, Faults: r.Faults, ListCost: o.ListCost,
		InFlight: o.InFlight, Log: o.Log,
	})
	if o.Careful && o.State != "" {
		face = r.careful(face)
	}
	address, err := r.listen(o.Listen, face)
	if err != nil {
		return err
	}
	r.URL = "http://" + address + "/MAAS"
	if o.Control == "" {
		return nil
	}
	password := rand.Text()
	if address, err = r.listen(o.Control, control.New(r.Region, r.Faults, password)); err != nil {
		return err
	}
	r.ControlURL = (&url.URL{Scheme: "http", User: url.UserPassword(control.User, password), Host: address}).String()
	return nil
}

func (r *Region) listen(address string, h http.Handler) (string, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	r.servers = append(r.servers, s)
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.log.Error("serve", "address", address, "error", err)
		}
	}()
	return l.Addr().String(), nil
}

// Close stops the simulator even if requests are in flight, and writes the
// state file a last time.
func (r *Region) Close() error {
	r.once.Do(func() {
		close(r.stop)
		for _, s := range r.servers {
			r.closing = errors.Join(r.closing, s.Close())
		}
		r.Region.Close()
		r.done.Wait()
		if r.state != "" {
			r.closing = errors.Join(r.closing, r.save())
		}
	})
	return r.closing
}

// TB is the part of a test that a simulator needs.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// StartTest starts a simulator that ends with a test.
func StartTest(tb TB, o Options) *Region {
	tb.Helper()
	r, err := Start(o)
	if err != nil {
		tb.Fatalf("start simulator: %v", err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Fatalf("close simulator: %v", err)
		}
	})
	return r
}
