package rack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// processRack keeps one folder for each machine. Machines live as long as the
// process that opened the rack.
type processRack struct {
	options Options
	pause   time.Duration
	life    context.Context //nolint:containedctx // machines outlive the call that starts them
	end     context.CancelFunc

	mu       sync.Mutex
	machines map[string]*agentHost
}

// openProcess starts the machines that ran when the rack was closed.
func openProcess(ctx context.Context, o Options) (*processRack, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	r := &processRack{options: o, pause: time.Second, life: life, end: end, machines: map[string]*agentHost{}}
	if err := r.load(); err != nil {
		end()
		return nil, err
	}
	return r, nil
}

func (r *processRack) folder(name string) string {
	return filepath.Join(r.options.Folder, "machines", name)
}

func (r *processRack) load() error {
	entries, err := os.ReadDir(r.folder(""))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list machines: %w", err)
	}
	for _, e := range entries {
		m, err := r.loadMachine(e.Name())
		if errors.Is(err, errIncomplete) {
			if err := os.RemoveAll(r.folder(e.Name())); err != nil {
				return fmt.Errorf("delete machine that was never complete: %w", err)
			}
			continue
		}
		if err != nil {
			return err
		}
		r.machines[m.name] = m
		if m.record.On {
			m.boot()
		}
	}
	return nil
}

func (r *processRack) Kind() Kind          { return Process }
func (r *processRack) HostAddress() string { return "127.0.0.1" }

func (r *processRack) Machine(_ context.Context, s Spec) (Machine, error) {
	s, err := s.check()
	if err != nil {
		return nil, err
	}
	if s.Metadata != nil {
		return nil, fmt.Errorf("make machine %s: a process machine asks no metadata service", s.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machines[s.Name] != nil {
		return nil, fmt.Errorf("make machine %s: there is one of that name", s.Name)
	}
	m, err := r.makeMachine(s)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.folder(s.Name)))
	}
	r.machines[s.Name] = m
	m.boot()
	return m, nil
}

func (r *processRack) Find(_ context.Context, name string) (Machine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[name]
	if m == nil {
		return nil, fmt.Errorf("find machine %s: %w", name, ErrNoMachine)
	}
	return m, nil
}

func (r *processRack) Machines(context.Context) ([]Machine, error) {
	var all []Machine
	for _, m := range r.sorted() {
		all = append(all, m)
	}
	return all, nil
}

func (r *processRack) sorted() []*agentHost {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*agentHost, 0, len(r.machines))
	for _, m := range r.machines {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *agentHost) int { return strings.Compare(a.name, b.name) })
	return all
}

// Close ends all agents at once and waits for them.
func (r *processRack) Close(context.Context) error {
	r.end()
	for _, m := range r.sorted() {
		m.halt()
	}
	return nil
}

func (r *processRack) Remove(ctx context.Context) error {
	return errors.Join(r.Close(ctx), removeFolder(r.options.Folder))
}
