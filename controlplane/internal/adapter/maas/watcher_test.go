package maas_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
)

// fleet is a source in memory whose reads take time, for tests in a synctest
// bubble.
type fleet struct {
	mu       sync.Mutex
	machines map[string]maas.Machine
	events   []maas.Event
	silent   bool // no events: changes must be found by looking
	fail     error
	perRead  time.Duration
	lists    int
	largest  int
	inFlight atomic.Int32
	most     atomic.Int32
}

func newFleet(ids ...string) *fleet {
	f := &fleet{machines: map[string]maas.Machine{}}
	for _, id := range ids {
		f.machines[id] = maas.Machine{SystemID: id, Hostname: "host-" + id, Status: maas.StatusDeploying}
	}
	return f
}

func (f *fleet) enter(d time.Duration) func() {
	f.most.Store(max(f.most.Load(), f.inFlight.Add(1)))
	<-time.After(d)
	return func() { f.inFlight.Add(-1) }
}

func (f *fleet) Machines(_ context.Context, filter maas.Filter) ([]maas.Machine, error) {
	defer f.enter(time.Duration(len(filter.IDs)) * f.perRead)()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	f.largest = max(f.largest, len(filter.IDs))
	if f.fail != nil {
		return nil, f.fail
	}
	var out []maas.Machine
	for _, id := range filter.IDs {
		if m, ok := f.machines[id]; ok {
			out = append(out, m)
		}
	}
	return out, nil
}

func (f *fleet) Machine(_ context.Context, id string) (maas.Machine, error) {
	defer f.enter(f.perRead)()
	f.mu.Lock()
	defer f.mu.Unlock()
	if m, ok := f.machines[id]; ok {
		return m, nil
	}
	return maas.Machine{}, fault.New(fault.NotFound, maas.CodeNotFound, "no such machine")
}

func (f *fleet) Events(_ context.Context, q maas.EventQuery) ([]maas.Event, error) {
	defer f.enter(f.perRead)()
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []maas.Event
	for _, e := range f.events {
		if e.ID > q.After && (len(q.IDs) == 0 || q.IDs[0] == e.SystemID) &&
			(q.Level != maas.LevelWarning || e.Level == maas.LevelError) {
			out = append(out, e)
		}
	}
	return out, f.fail
}

func (f *fleet) set(id string, status maas.Status, event *maas.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[id]
	m.Status, m.OSystem = status, "ubuntu"
	f.machines[id] = m
	if event == nil && !f.silent {
		event = &maas.Event{Level: maas.LevelInfo, Type: status.Label()}
	}
	if event != nil {
		event.ID, event.SystemID = int64(len(f.events)+1), id
		f.events = append(f.events, *event)
	}
}

func bubble(t *testing.T, f *fleet, body func(t *testing.T, w *maas.Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := maas.NewWatcher(f, maas.WatcherConfig{})
		body(t, w)
		synctest.Wait() // a goroutine that is left now fails the bubble
	})
}

func TestAWaitEndsWhenTheStateIsReached(t *testing.T) {
	f := newFleet("a")
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		began := time.Now()
		time.AfterFunc(time.Minute, func() { f.set("a", maas.StatusDeployed, nil) })
		beats := 0
		m, err := w.Wait(t.Context(), "a", maas.UntilDeployed, func() { beats++ })
		if err != nil || m.Status != maas.StatusDeployed {
			t.Errorf("%s %v", m.Status, err)
		}
		if late := time.Since(began) - time.Minute; late < 0 || late > 3*time.Second {
			t.Errorf("noticed after %v although there was an event", late)
		}
		if beats < 5 {
			t.Errorf("%d heartbeats in a minute", beats)
		}
	})
}

func TestAChangeWithoutAnEventIsFound(t *testing.T) {
	f := newFleet("a")
	f.silent = true
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		began := time.Now()
		time.AfterFunc(10*time.Minute, func() { f.set("a", maas.StatusDeployed, nil) })
		if _, err := w.Wait(t.Context(), "a", maas.UntilDeployed, nil); err != nil {
			t.Error(err)
		}
		if late := time.Since(began) - 10*time.Minute; late > 16*time.Second {
			t.Errorf("noticed after %v", late)
		}
		if f.lists > 10*60/15+20 {
			t.Errorf("%d reads in ten minutes: the pace did not adapt", f.lists)
		}
	})
}

func TestAFailureIsExplainedAtOnce(t *testing.T) {
	f := newFleet("a")
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		began := time.Now()
		time.AfterFunc(30*time.Second, func() {
			f.set("a", maas.StatusDeploying, &maas.Event{
				Level: maas.LevelError, Type: "Node installation failure",
				Description: "'curtin' curtin command install",
			})
			f.set("a", maas.StatusFailedDeployment, &maas.Event{
				Level: maas.LevelError, Type: "Marking node failed",
				Description: "Installation failed\x07",
			})
			f.set("a", maas.StatusFailedDeployment, &maas.Event{
				Level: maas.LevelError, Type: "Script result",
				Description: "noise",
			})
		})
		_, err := w.Wait(t.Context(), "a", maas.UntilDeployed, nil)
		checkFault(t, err, fault.Conflict, maas.CodeMachineFailed)
		var detail *maas.MachineError
		if !errors.As(err, &detail) || detail.Event == nil || detail.Event.Type != "Marking node failed" ||
			detail.Status != maas.StatusFailedDeployment {
			t.Errorf("detail %+v", detail)
		}
		if !strings.Contains(err.Error(), "Installation failed") || time.Since(began) > 35*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestAMachineIsGoneOnlyAfterTwoDirectReads(t *testing.T) {
	f := newFleet("a")
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		kept := f.machines["a"]
		time.AfterFunc(20*time.Second, func() { // absent for a moment: believed only when seen twice
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.machines, "a")
		})
		time.AfterFunc(24*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.machines["a"] = kept
		})
		time.AfterFunc(2*time.Minute, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			maps.DeleteFunc(f.machines, func(string, maas.Machine) bool { return true })
		})
		began := time.Now()
		_, err := w.Wait(t.Context(), "a", maas.UntilDeployed, nil)
		checkFault(t, err, fault.NotFound, maas.CodeMachineGone)
		if time.Since(began) < 2*time.Minute {
			t.Errorf("given up after %v", time.Since(began))
		}
	})
}

func TestAnOutageIsWaitedOutAndARefusalIsNot(t *testing.T) {
	f := newFleet("a")
	f.fail = fault.New(fault.Unavailable, maas.CodeUnreachable, "down").WithRemedy("wait")
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		time.AfterFunc(5*time.Minute, func() {
			f.mu.Lock()
			f.fail = nil
			f.mu.Unlock()
			f.set("a", maas.StatusDeployed, nil)
		})
		if _, err := w.Wait(t.Context(), "a", maas.UntilDeployed, nil); err != nil {
			t.Error(err)
		}
		f.fail = fault.New(fault.Forbidden, maas.CodeTokenInvalid, "refused").WithRemedy("rotate")
		_, err := w.Wait(t.Context(), "a", maas.UntilReleased, nil)
		checkFault(t, err, fault.Forbidden, maas.CodeTokenInvalid)
	})
}

func TestAWaitEndsWithItsContextAndWithTheWatcher(t *testing.T) {
	f := newFleet("a")
	f.fail = fault.New(fault.Unavailable, maas.CodeUnreachable, "down").WithRemedy("wait")
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := w.Wait(ctx, "a", maas.UntilDeployed, nil)
		checkFault(t, err, fault.Unavailable, maas.CodeWaitEnded)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "down") {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Minute, w.Close)
		_, err = w.Wait(t.Context(), "a", maas.UntilDeployed, nil)
		checkFault(t, err, fault.Unavailable, maas.CodeWaitEnded)
		_, err = w.Wait(t.Context(), "a", maas.UntilDeployed, nil)
		checkFault(t, err, fault.Unavailable, maas.CodeWaitEnded)
	})
}

// A thousand machines on a MAAS that needs a tenth of a second for each: the
// events find the changes, and the looks do not overload the region.
func TestAThousandWaitersShareFewRequests(t *testing.T) {
	const n = 1000
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("m%04d", i))
	}
	f := newFleet(ids...)
	f.perRead = 100 * time.Millisecond
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		var wg sync.WaitGroup
		var late atomic.Int32
		for i, id := range ids {
			wg.Go(func() {
				at := 5*time.Minute + time.Duration(i)*time.Second
				began := time.Now()
				time.AfterFunc(at, func() { f.set(id, maas.StatusDeployed, nil) })
				if _, err := w.Wait(t.Context(), id, maas.UntilDeployed, nil); err != nil {
					t.Error(err)
				}
				if time.Since(began)-at > 15*time.Second {
					late.Add(1)
				}
			})
		}
		wg.Wait()
		if late.Load() > n/20 {
			t.Errorf("%d of %d changes were noticed after more than 15 s", late.Load(), n)
		}
		if f.most.Load() > 4 || f.largest > maas.MaxIDs {
			t.Errorf("%d requests in flight, %d machines in one", f.most.Load(), f.largest)
		}
	})
}

func TestWaitersOfOneMachineShareItsReads(t *testing.T) {
	f := newFleet("a")
	bubble(t, f, func(t *testing.T, w *maas.Watcher) {
		time.AfterFunc(time.Minute, func() { f.set("a", maas.StatusDeployed, nil) })
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := w.Wait(t.Context(), "a", maas.UntilDeployed, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if f.lists > 15 {
			t.Errorf("%d reads", f.lists)
		}
	})
}

func TestVerdicts(t *testing.T) {
	type expect map[maas.Status]string
	for name, c := range map[string]struct {
		until func(maas.Machine) maas.Verdict
		want  expect
	}{
		"commissioned": {
			maas.UntilCommissioned,
			expect{
				maas.StatusReady: "reached", maas.StatusCommissioning: "", maas.StatusTesting: "",
				maas.StatusFailedTesting: "failed", maas.StatusNew: "failed",
			},
		},
		"deployed": {maas.UntilDeployed, expect{
			maas.StatusDeployed: "reached", maas.StatusDeploying: "",
			maas.StatusAllocated: "failed", maas.StatusFailedDeployment: "failed", maas.Unknown("Dreaming"): "",
		}},
		"released": {maas.UntilReleased, expect{
			maas.StatusReady: "reached", maas.StatusNew: "reached",
			maas.StatusReleasing: "", maas.StatusDiskErasing: "", maas.StatusFailedDiskErasing: "failed",
			maas.StatusFailedDeployment: "",
		}},
	} {
		for status, want := range c.want {
			v := c.until(maas.Machine{Status: status, OSystem: "ubuntu"})
			got := ""
			if v.Failed() {
				got = "failed"
			} else if v.Done() {
				got = "reached"
			}
			if got != want || v.Failed() != (v.Reason() != "") {
				t.Errorf("%s in %s: %q, want %q", name, status, got, want)
			}
		}
	}
}
