package reconciliation_test

import (
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// period is the time between two cycles of a site.
const period = 5 * time.Minute

// learn reads all machines once, because the first look at a machine writes its
// state.
func (e *estate) learn(b *testing.B, at id.Site) {
	b.Helper()
	run, err := e.service.RequestRun(e.context(b), reconciliation.RunRequest{Site: at, Full: true, Reason: "learn"})
	if err != nil {
		b.Fatal(err)
	}
	e.cycle(b, reconciliation.Input{Site: at, Run: run.ID})
	// As after some days: the sweep is always somewhere in the middle.
	_, err = e.db.Exec(b.Context(), `UPDATE node_maas_state s SET last_reconciled_at = $2::timestamptz - interval '50 minutes' * o.part
		FROM (SELECT node_id, percent_rank() OVER (ORDER BY maas_system_id) AS part FROM node_maas_state WHERE site_id = $1) o WHERE o.node_id = s.node_id`, at, e.clock())
	if err != nil {
		b.Fatal(err)
	}
}

// cycle does what the workflow of a site does, without waiting for its second
// look.
func (e *estate) cycle(b *testing.B, in reconciliation.Input) reconciliation.Report {
	b.Helper()
	ctx := e.context(b)
	looked, err := e.service.Reconcile(ctx, in)
	if err == nil && looked.Again > 0 {
		err = e.service.ReconcileAgain(ctx, in)
	}
	if err != nil {
		b.Error(err)
		return reconciliation.Report{}
	}
	run, err := e.service.RunOf(ctx, in.Run)
	if err != nil || run.Outcome != reconciliation.Informed {
		b.Errorf("the run ended as %+v (%v)", run, err)
	}
	return run.Report
}

// change makes something happen to one machine in a hundred, others each time:
// most report other hardware; a tenth each is released, switched off until the
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

// costs adds up what cycles took.
type costs struct {
	requests, records, cpu              float64
	looked, swept, chunks, opened, acts int
	ours                                int64 // milliseconds without waiting for MAAS
}

func (c *costs) add(reports []reconciliation.Report) {
	for _, r := range reports {
		c.looked += r.Looked
		c.swept += r.Swept
		c.chunks += (r.Swept + 49) / 50
		c.opened += r.Opened
		c.acts += r.Acted
		c.ours += r.Millis
	}
}

// ask adds what regions were asked or, before a measurement, subtracts it.
func (e *estate) ask(b *testing.B, c *costs, sign float64) {
	b.Helper()
	for _, at := range e.order {
		requests, records := e.regions[at].asked(b)
		c.requests += sign * requests
		c.records += sign * records
	}
	c.cpu += sign * processor(b).Seconds()
}

// BenchmarkCycle10k is a site of 10,000 machines of which one in a hundred
// changes from cycle to cycle, while the sweep over all of them goes on.
func BenchmarkCycle10k(b *testing.B) { benchmarkSites(b, 1, 10_000, 3) }

// BenchmarkFiftySites measures what 50 sites with 500 machines each take in one
// period: less than a tenth of a core.
func BenchmarkFiftySites(b *testing.B) { benchmarkSites(b, 50, 500, period.Seconds()/10) }

func benchmarkSites(b *testing.B, count, machines int, mostCPU float64) {
	e := newEstate(b, count, machines)
	for _, at := range e.order {
		e.learn(b, at)
	}
	before := e.reopen(b)
	var first, sum costs
	e.pass(b, 0)
	first.add(e.round(b)) // a process that starts reads the newest events once more
	turns := 0
	for b.Loop() {
		b.StopTimer()
		turns++
		e.pass(b, turns)
		e.ask(b, &sum, -1)
		b.StartTimer()
		sum.add(e.round(b))
		b.StopTimer()
		e.ask(b, &sum, 1)
		b.StartTimer()
	}
	n, rows := float64(turns), e.reopen(b)-before
	extra := sum.requests - float64(sum.chunks)
	cpu := "cpu-s/cycle"
	if !e.apart {
		cpu = "cpu-s-with-regions/cycle"
	}
	for unit, v := range map[string]float64{
		cpu: sum.cpu / n, "own-s/cycle": float64(sum.ours) / 1000 / n, "peak-MiB": resident(b),
		"requests/cycle": sum.requests / n, "requests-besides-sweep/cycle": extra / n,
		"records/cycle": sum.records / n, "records-of-full-listings/cycle": float64(count * machines),
		"rows/cycle": rows / (n + 1), "rows-besides-sweep/cycle": (rows - float64(first.swept+sum.swept)) / (n + 1),
		"looked/cycle": float64(sum.looked) / n, "swept/cycle": float64(sum.swept) / n,
		"opened/cycle": float64(sum.opened) / n, "acted/cycle": float64(sum.acts) / n,
	} {
		b.ReportMetric(v, unit)
	}
	if extra > 10*n*float64(count) {
		b.Errorf("a cycle takes %.1f requests besides those of the sweep", extra/n/float64(count))
	}
	if e.apart && sum.cpu/n > mostCPU {
		b.Errorf("%.1f s of CPU time are more than %.0f", sum.cpu/n, mostCPU)
	}
}

// pass lets time and changes pass.
func (e *estate) pass(b *testing.B, turn int) {
	b.Helper()
	for _, at := range e.order {
		e.change(b, at, turn)
	}
	e.ahead.Add(int64(period))
}

// round looks at every site, a few at a time.
func (e *estate) round(b *testing.B) []reconciliation.Report {
	b.Helper()
	reports := make([]reconciliation.Report, len(e.order))
	var all sync.WaitGroup
	places := make(chan struct{}, 4)
	for n, at := range e.order {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			reports[n] = e.cycle(b, reconciliation.Input{Site: at, Run: id.New[id.ReconciliationRun]()})
		})
	}
	all.Wait()
	return reports
}
