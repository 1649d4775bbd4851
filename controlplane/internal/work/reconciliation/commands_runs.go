package reconciliation

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// RunRequest asks for a look at a site.
type RunRequest struct {
	Site   id.Site
	DryRun bool // changes nothing; the report says what would be done
	Full   bool // reads all machines, not only those that something points at
	Reason string
}

// RequestRun records the request for a run. A workflow carries it out.
func (s *Service) RequestRun(ctx context.Context, r RunRequest) (Run, error) {
	at, err := s.cfg.Sites.Site(ctx, r.Site)
	if err != nil {
		return Run{}, err
	}
	if has, err := s.reads.HasNodes(ctx, r.Site); err != nil {
		return Run{}, wrap("look for nodes of site", err)
	} else if !has {
		if err := site.RequireEnabled(at); err != nil {
			return Run{}, err
		}
	}
	var run Run
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		run, err = s.request(ctx, c, Run{
			Site: r.Site, Trigger: ByOperator, Full: r.Full, DryRun: r.DryRun,
			Reason: strings.TrimSpace(r.Reason),
		})
		if err != nil {
			return err
		}
		return audit.Record(ctx, c.tx, audit.Entry{
			Action: "reconciliation.run", TargetKind: "site", TargetID: r.Site.String(), Result: audit.Success,
			Reason:   run.Reason,
			Metadata: map[string]any{"run_id": run.ID, "dry_run": r.DryRun, "full": r.Full},
		})
	})
	return run, err
}

// request writes a run and starts its workflow, within the caller's
// transaction.
func (s *Service) request(ctx context.Context, c change, r Run) (Run, error) {
	run, err := s.insertRun(ctx, c, r)
	if err != nil {
		return run, err
	}
	return run, outbox.StartWorkflow(ctx, c.tx, outbox.WorkflowStart{
		Type: WorkflowType, ID: "reconciliation-" + run.ID.String(), Queue: queue, Input: Input{Site: run.Site, Run: run.ID},
	})
}

func (s *Service) insertRun(ctx context.Context, c change, r Run) (Run, error) {
	if err := c.EnsureSite(ctx, r.Site); err != nil {
		return r, wrap("make reconciliation of site", err)
	}
	row, err := c.InsertRun(ctx, reconciliationdb.InsertRunParams{
		ID: id.New[id.ReconciliationRun](), SiteID: r.Site, Trigger: string(r.Trigger), FullSweep: r.Full, DryRun: r.DryRun,
		NodeID:     r.Node,
		Resolution: string(r.Resolution), Reason: r.Reason, RequestedBy: auth.From(ctx).ID,
		CorrelationID: telemetry.Correlation(ctx),
	})
	if err != nil {
		return r, wrap("insert run", err)
	}
	return runFrom(row)
}

// Suspect asks for an early look at the machine of a node, because something
// other than MAAS raised a doubt. Call it in the transaction that noticed the
// doubt. It does nothing for a node that is bound to no machine.
func (s *Service) Suspect(ctx context.Context, tx pgx.Tx, n id.Node, reason string) error {
	return wrap("note suspicion", reconciliationdb.New(tx).Suspect(ctx,
		reconciliationdb.SuspectParams{Reason: reason, Nodes: []string{n.String()}}))
}

// BreakerDecision is an operator's decision about an open breaker.
type BreakerDecision struct {
	Site    id.Site
	Confirm bool      // false: dismiss what the breaker holds back
	Seen    []id.Node // the nodes that the operator has seen; nil: all that it holds back now
	Reason  string
}

// DecideBreaker settles an open breaker. If the operator confirms, the next run
// quarantines the nodes that the breaker holds back; otherwise it drops these
// quarantines.
func (s *Service) DecideBreaker(ctx context.Context, d BreakerDecision) error {
	reason := strings.TrimSpace(d.Reason)
	if reason == "" {
		return reasonMissing()
	}
	at := d.Site
	of, err := s.cfg.Sites.Site(ctx, at)
	if err != nil {
		return err
	}
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		state, err := c.LockSite(ctx, at)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return wrap("lock reconciliation of site", err)
		}
		if err != nil || state.TrippedAt == nil {
			return fault.New(fault.Conflict, "breaker_not_open", "the circuit breaker of %s is not open", of.Name).
				WithRemedy("there is nothing to decide; see the state of the site: gpuaas reconcile status")
		}
		if err := asSeen(ctx, c, of, d.Seen, state.TrippedNodes); err != nil {
			return err
		}
		if !d.Confirm {
			if err := s.dismiss(ctx, c, state, reason); err != nil {
				return err
			}
			return s.untrip(ctx, c, of, "an operator dismissed it: "+reason)
		}
		now := s.now()
		if err := c.ConfirmTrip(ctx, reconciliationdb.ConfirmTripParams{
			SiteID: at, ConfirmedAt: &now,
			ConfirmedBy: auth.From(ctx).ID,
		}); err != nil {
			return wrap("confirm what the breaker holds back", err)
		}
		if err := recordSite(ctx, c.tx, "reconciliation.breaker_confirm", at, reason); err != nil {
			return err
		}
		_, err = s.request(ctx, c, Run{Site: at, Trigger: ByOperator, Reason: reason})
		return err
	})
}

// asSeen refuses the decision if the breaker now holds back other nodes than
// the operator has seen.
func asSeen(ctx context.Context, c change, of site.Site, seen []id.Node, tripped []string) error {
	if seen == nil {
		return nil
	}
	held := make([]id.Node, len(tripped))
	for i, n := range tripped {
		if err := held[i].UnmarshalText([]byte(n)); err != nil {
			return wrap("read node of breaker", err)
		}
	}
	changed, err := node.SinceSeen(ctx, c.tx, seen, held)
	if err != nil || changed == "" {
		return err
	}
	return fault.New(fault.Conflict, "breaker_changed",
		"the circuit breaker of %s holds back other nodes than those that were decided about: %s; nothing was done", of.Name,
		changed).
		WithRemedy("look at its nodes and decide again: gpuaas reconcile status --site %s", of.Name)
}

// dismiss removes the action from the findings that the breaker held back. They
// stay until they heal, and nothing is done about them.
func (s *Service) dismiss(ctx context.Context, c change, state reconciliationdb.ReconciliationSite,
	reason string,
) error {
	now := s.now()
	for _, n := range state.TrippedNodes {
		var of id.Node
		if err := of.UnmarshalText([]byte(n)); err != nil {
			return wrap("read node of breaker", err)
		}
		rows, err := c.PresentOfNodeForUpdate(ctx, of)
		if err != nil {
			return wrap("lock findings of node", err)
		}
		for _, f := range findingsFrom(rows) {
			if f.Action != Quarantine || f.Status == Acted {
				continue
			}
			if err := c.DismissFinding(ctx, reconciliationdb.DismissFindingParams{
				ID: f.ID, Withheld: "an operator dismissed it: " + reason, AcknowledgedAt: &now, AcknowledgedBy: auth.From(ctx).ID,
			}); err != nil {
				return wrap("dismiss finding", err)
			}
		}
	}
	return nil
}

// AcknowledgeFinding records that somebody knows of a finding.
func (s *Service) AcknowledgeFinding(ctx context.Context, f id.Finding, reason string) (Finding, error) {
	if reason = strings.TrimSpace(reason); reason == "" {
		return Finding{}, reasonMissing()
	}
	var out Finding
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		row, err := c.LockFinding(ctx, f)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, "not_found",
				"there is no such finding").WithRemedy("check the id: gpuaas drift findings")
		}
		if err != nil {
			return wrap("lock finding", err)
		}
		if Status(row.Status) == Closed {
			return fault.New(fault.Conflict, "finding_closed", "the finding is closed: %s",
				row.ClosedBecause).WithRemedy("nothing has to be done about it")
		}
		out, err = s.acknowledge(ctx, c, findingFrom(row), reason)
		return err
	})
	return out, err
}

func (s *Service) acknowledge(ctx context.Context, c change, f Finding, reason string) (Finding, error) {
	now := s.now()
	row, err := c.AcknowledgeFinding(ctx, reconciliationdb.AcknowledgeFindingParams{
		ID: f.ID, AcknowledgedAt: &now, AcknowledgedBy: auth.From(ctx).ID, Acknowledgement: reason,
	})
	if err != nil {
		return f, wrap("acknowledge finding", err)
	}
	return findingFrom(row), audit.Record(ctx, c.tx, audit.Entry{
		Action: "reconciliation.acknowledge", TargetKind: "finding", TargetID: f.ID.String(), Result: audit.Success,
		Reason:   reason,
		Metadata: map[string]any{"finding": f.Type, "node_id": f.Node, "site_id": f.Site},
	})
}

func reasonMissing() error {
	return fault.New(fault.Invalid, "reason_missing", "a decision needs a reason, which goes into the audit log")
}

// Tend keeps the schedules of sites up to date, starts runs for suspicions and
// deletes old runs. Any number of replicas may call it.
func (s *Service) Tend(ctx context.Context) error {
	ctx = auth.With(telemetry.WithCorrelation(ctx, id.NewString()), auth.System(principal))
	return errors.Join(s.keepSchedules(ctx), s.lookIntoSuspicions(ctx))
}

const schedulePrefix = "reconcile/"

// keepSchedules gives every site a schedule. The id of the site spreads the
// start times, so that many sites do not start at once. The schedule of a
// disabled site is paused once its last node is gone.
func (s *Service) keepSchedules(ctx context.Context) error {
	if s.cfg.Schedules == nil {
		return nil
	}
	const page = 500
	inhabited, err := s.reads.SitesWithNodes(ctx)
	if err != nil {
		return wrap("list sites with nodes", err)
	}
	want := []durable.Schedule{}
	for after := (id.Site{}); ; {
		sites, err := s.cfg.Sites.Sites(ctx, nil, postgres.Slice[id.Site]{After: after, Limit: page})
		if err != nil {
			return err
		}
		for _, at := range sites {
			want = append(want, s.schedule(at, slices.Contains(inhabited, at.ID)))
			after = at.ID
		}
		if len(sites) < page {
			return s.cfg.Schedules.KeepSchedules(ctx, schedulePrefix, want)
		}
	}
}

func (s *Service) schedule(at site.Site, inhabited bool) durable.Schedule {
	every := s.settings.Every.Truncate(time.Second)
	h := fnv.New32a()
	_, _ = h.Write([]byte(at.ID.String()))
	return durable.Schedule{
		ID: schedulePrefix + at.ID.String(), Every: every,
		Offset: (time.Duration(h.Sum32()) * time.Millisecond % every).Truncate(time.Second), Jitter: every / 10,
		Workflow: WorkflowType, WorkflowID: "reconciliation-" + at.ID.String(), Input: Input{Site: at.ID},
		Paused: at.Status != site.Active && !inhabited, PauseNote: "the site is disabled and has no nodes",
	}
}

func (s *Service) lookIntoSuspicions(ctx context.Context) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		mine, err := c.TryTend(ctx)
		if err != nil || !mine {
			return wrap("take the care for suspicions", err)
		}
		sites, err := c.SuspectedSites(ctx, s.settings.Every.Seconds())
		if err != nil {
			return wrap("list sites with suspicions", err)
		}
		for _, at := range sites {
			if _, err := s.request(ctx, c, Run{
				Site: at, Trigger: BySuspicion,
				Reason: "an agent fell silent, or reported another address",
			}); err != nil {
				return err
			}
		}
		_, err = c.PruneRuns(ctx, s.now().Add(-s.settings.KeepRuns))
		return wrap("forget old runs", err)
	})
}

// lease is how long a run keeps its claim on a site without renewing it.
const lease = 30 * time.Second

// takeSite claims a site for one run. Only one run over all replicas holds it.
func (s *Service) takeSite(ctx context.Context, at id.Site, run id.ReconciliationRun) error {
	if err := s.reads.EnsureSite(ctx, at); err != nil {
		return wrap("make reconciliation of site", err)
	}
	n, err := s.reads.TakeSite(ctx, reconciliationdb.TakeSiteParams{SiteID: at, RunningID: run, Seconds: lease.Seconds()})
	if err != nil {
		return wrap("take site", err)
	}
	if n == 0 {
		return fault.New(fault.Unavailable, "site_busy", "another run looks at the site")
	}
	return nil
}

func (s *Service) leaveSite(ctx context.Context, at id.Site, run id.ReconciliationRun) error {
	return wrap("leave site", s.reads.LeaveSite(ctx, reconciliationdb.LeaveSiteParams{SiteID: at, RunningID: run}))
}

// begin marks a run as begun. For a scheduled run it creates the row.
func (s *Service) begin(ctx context.Context, in Input) (Run, error) {
	row, err := s.reads.BeginRun(ctx, reconciliationdb.BeginRunParams{
		ID: in.Run, SiteID: in.Site, Trigger: string(BySchedule), RequestedBy: auth.From(ctx).ID,
		CorrelationID: telemetry.Correlation(ctx),
	})
	if err != nil {
		return Run{}, wrap("begin run", err)
	}
	return in.own(runFrom(row))
}

// own refuses a run that belongs to another site than the locked one: whoever
// reaches Temporal can start a workflow with any pair of ids.
func (in Input) own(run Run, err error) (Run, error) {
	if err == nil && run.Site != in.Site {
		err = fault.New(fault.Forbidden, "run_of_another_site", "run %s is not one of site %s", run.ID, in.Site)
	}
	return run, err
}

// finish stores the result of a look. If over is false, the run goes on with a
// second look.
func (c *cycle) finish(ctx context.Context, over bool) error {
	outcome := c.outcome()
	if c.run.Outcome != "" { // the outcome of the first look
		outcome = worse(c.run.Outcome, outcome)
	}
	if c.run.ErrorCode == "" {
		c.run.ErrorCode, c.run.ErrorMessage, c.run.ErrorRemedy = c.firstTrouble()
	}
	c.cost()
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		if c.run.Trigger != BySuspicion && c.run.Resolution == "" && !c.run.DryRun {
			if err := c.noteCycle(ctx, tx, outcome); err != nil {
				return err
			}
		}
		report, err := encode(c.run.Report)
		if err != nil {
			return err
		}
		c.run.Outcome = outcome
		p := reconciliationdb.SaveRunParams{
			ID: c.run.ID, Outcome: string(outcome), ErrorCode: c.run.ErrorCode, ErrorMessage: shorten(c.run.ErrorMessage),
			ErrorRemedy: c.run.ErrorRemedy, Report: report,
		}
		if over {
			return wrap("end run", tx.EndRun(ctx, reconciliationdb.EndRunParams(p)))
		}
		return wrap("save run", tx.SaveRun(ctx, p))
	})
}

// worse combines the outcomes of two looks.
func worse(a, b Outcome) Outcome {
	for _, o := range []Outcome{Refused, Tripped, Unheard, Partly} {
		if a == o || b == o {
			if o == Unheard && a != b {
				return Partly
			}
			return o
		}
	}
	return a
}

// cost adds up what was asked of MAAS and the time that the control plane
// spent.
func (c *cycle) cost() {
	waited := time.Duration(0)
	if c.region != nil {
		cost := c.region.Cost()
		c.run.Report.Requests += cost.Requests
		c.run.Report.Records += cost.Records
		waited = cost.Waited
	}
	c.run.Report.Millis += max(c.now().Sub(c.began)-waited, 0).Milliseconds()
}

func (c *cycle) noteCycle(ctx context.Context, tx change, outcome Outcome) error {
	if err := c.hearing(ctx, tx, outcome); err != nil {
		return err
	}
	at := c.now()
	if c.run.Report.Unanswered == 0 && c.region != nil {
		c.state.LastInformedAt = &at
	}
	st := c.state
	return wrap("note cycle", tx.NoteCycle(ctx, reconciliationdb.NoteCycleParams{
		SiteID: c.run.Site, EventCursor: st.EventCursor, ExceptionsSeen: st.ExceptionsSeen, ExceptionsAt: st.ExceptionsAt,
		SweepBeganAt: st.SweepBeganAt,
		SweepEndedAt: st.SweepEndedAt, LastCycleAt: &at, LastInformedAt: st.LastInformedAt, LastOutcome: string(outcome),
		LastErrorCode: c.run.ErrorCode, LastErrorMessage: shorten(c.run.ErrorMessage), SettingsAt: st.SettingsAt,
	}))
}

// skip ends a run whose site cannot be looked at now.
func (s *Service) skip(ctx context.Context, run Run, why error) error {
	f, _ := fault.As(why)
	if f == nil {
		return why
	}
	report, err := encode(Report{Intended: []Intended{}, Left: []LeftTo{}, Settled: []LeftTo{}})
	if err != nil {
		return err
	}
	return wrap("end run", s.reads.EndRun(ctx, reconciliationdb.EndRunParams{
		ID: run.ID, Outcome: string(Skipped), ErrorCode: f.Code, ErrorMessage: f.Message, ErrorRemedy: f.Remedy,
		Report: report,
	}))
}

func notBound(n id.Node) error {
	return fault.New(fault.Conflict, "node_not_bound",
		"node %s is bound to no machine of MAAS: there is nothing to compare it with", n).
		WithRemedy("look at the node: gpuaas node show %s", n)
}
