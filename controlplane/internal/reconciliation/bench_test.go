package reconciliation_test

import (
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/durable/durabletest"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/postgres"
	"gpuaas/controlplane/internal/reconciliation"
)

// period is the time between two cycles of a site.
const period = 5 * time.Minute

// cycle runs the workflow of a site, with the look that may follow.
func (e *estate) cycle(b *testing.B, at id.Site) reconciliation.Report {
	b.Helper()
	env := durabletest.New(b, e.service.RegisterWorker)
	env.SetTestTimeout(2 * time.Minute)
	env.ExecuteWorkflow(reconciliation.WorkflowType, reconciliation.Input{Site: at})
	if err := env.GetWorkflowError(); err != nil {
		b.Error(err)
		return reconciliation.Report{}
	}
	runs, err := e.service.Runs(e.context(b), reconciliation.RunFilter{Site: at}, postgres.Slice[id.ReconciliationRun]{Limit: 1})
	if err != nil || len(runs) != 1 || runs[0].Outcome != reconciliation.Informed {
		b.Errorf("the run ended as %+v (%v)", runs, err)
		return reconciliation.Report{}
	}
	return runs[0].Report
}

// change lets something happen to one machine in a hundred, others each time:
// most report other hardware, a tenth each is released, switched off until the
// next time, or gets another address.
func (e *estate) change(b *testing.B, at id.Site, turn int) {
	b.Helper()
	r, fleet := e.regions[at], e.fleet[at]
	some := max(len(fleet)/100, 1)
	machine := func(turn, n int) string { return fleet[((turn*some)+n)%len(fleet)].SystemID }
	for n := range some {
		if turn > 0 && n%10 == 1 {
			r.happen(b, machine(turn-1, n), "power_on")
		}
		switch n % 10 {
		case 0:
			r.happen(b, machine(turn, n), "release")
		case 1:
			r.happen(b, machine(turn, n), "power_off")
		case 2:
			r.happen(b, machine(turn, n), "change_ip")
			r.happen(b, machine(turn, n), "remove_disk")
		default:
			r.happen(b, machine(turn, n), "remove_disk")
		}
	}
}

// costs are what cycles took, added up.
type costs struct {
	requests, records, cpu         float64
	looked, swept, opened, written int
}

func (c *costs) add(r reconciliation.Report) {
	c.looked += r.Looked
	c.swept += r.Swept
	c.opened += r.Opened
	c.written += r.Written
}

// ask adds or, before something is measured, takes away what regions were asked.
func (e *estate) ask(b *testing.B, c *costs, sign float64) {
	b.Helper()
	for _, at := range e.order {
		requests, records := e.regions[at].asked(b)
		c.requests += sign * requests
		c.records += sign * records
	}
	c.cpu += sign * processor(b).Seconds()
}

func (e *estate) report(b *testing.B, c costs, cycles int, rows float64) {
	b.Helper()
	n := float64(cycles)
	cpu := "cpu-s/cycle"
	if !e.apart {
		cpu = "cpu-s-with-regions/cycle"
	}
	for unit, v := range map[string]float64{
		"requests/cycle": c.requests / n, "records/cycle": c.records / n, cpu: c.cpu / n, "rows/cycle": rows / n,
		"looked/cycle": float64(c.looked) / n, "swept/cycle": float64(c.swept) / n, "opened/cycle": float64(c.opened) / n,
		"rows-of-changes/cycle": float64(c.written) / n, "peak-MiB": resident(b),
	} {
		b.ReportMetric(v, unit)
	}
}

// BenchmarkCycle10k is a site of 10,000 machines of which one in a hundred
// changes from cycle to cycle, while the slow walk over all of them goes on.
func BenchmarkCycle10k(b *testing.B) { benchmarkSites(b, 1, 10_000) }

// BenchmarkFiftySites is what all of 50 sites with 500 machines each take in one
// period.
func BenchmarkFiftySites(b *testing.B) { benchmarkSites(b, 50, 500) }

func benchmarkSites(b *testing.B, count, machines int) {
	e := newEstate(b, count, machines)
	e.round(b) // the first one learns where events and installations stand
	before := e.reopen(b)
	var sum costs
	turn := 0
	for b.Loop() {
		b.StopTimer()
		for _, at := range e.order {
			e.change(b, at, turn)
		}
		turn++
		e.ahead.Add(int64(period))
		e.ask(b, &sum, -1)
		b.StartTimer()
		for _, r := range e.round(b) {
			sum.add(r)
		}
		b.StopTimer()
		e.ask(b, &sum, 1)
		b.StartTimer()
	}
	e.report(b, sum, turn, e.reopen(b)-before)
}

// round is a cycle of every site, a few at a time.
func (e *estate) round(b *testing.B) []reconciliation.Report {
	b.Helper()
	reports := make([]reconciliation.Report, len(e.order))
	var all sync.WaitGroup
	places := make(chan struct{}, 4)
	for n, at := range e.order {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			reports[n] = e.cycle(b, at)
		})
	}
	all.Wait()
	return reports
}
