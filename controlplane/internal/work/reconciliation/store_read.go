package reconciliation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// pastShown limits how many past findings are shown with a node.
const pastShown = 50

// Status returns the state of reconciliation at all sites.
func (s *Service) Status(ctx context.Context) (Overview, error) {
	sites, err := s.sites(ctx, id.Site{})
	if err != nil {
		return Overview{}, err
	}
	out := Overview{Sites: sites}
	for _, o := range sites {
		out.Totals.Nodes += o.Nodes
		out.Totals.OK += o.OK
		out.Totals.Drifted += o.Drifted
		out.Totals.Unreconciled += o.Unreconciled
		if o.Stale {
			out.Totals.StaleSites++
		}
	}
	return out, nil
}

// statusOf returns the state of one site.
func (s *Service) statusOf(ctx context.Context, at id.Site) (SiteOverview, error) {
	sites, err := s.sites(ctx, at)
	if err != nil {
		return SiteOverview{}, err
	}
	if len(sites) == 0 {
		return SiteOverview{}, fault.New(fault.NotFound, "not_found",
			"there is no such site").WithRemedy("list them with: gpuaas site list")
	}
	return sites[0], nil
}

// sites reads the state of one site, or of all sites if at is zero.
func (s *Service) sites(ctx context.Context, at id.Site) ([]SiteOverview, error) {
	now, one := s.now(), optional(at)
	rows, err := s.reads.ShowSites(ctx, one)
	if err != nil {
		return nil, fmt.Errorf("read state of sites: %w", err)
	}
	nodes, err := s.reads.ShowNodes(ctx, reconciliationdb.ShowNodesParams{ReadSince: now.Add(
		-unreadAfter * s.settings.SweepWithin), OneSite: one})
	if err != nil {
		return nil, fmt.Errorf("count nodes of sites: %w", err)
	}
	findings, err := s.reads.ShowPresent(ctx, one)
	if err != nil {
		return nil, fmt.Errorf("count findings of sites: %w", err)
	}
	out, bySite := make([]SiteOverview, len(rows)), map[id.Site]*SiteOverview{}
	for i, r := range rows {
		out[i] = SiteOverview{
			SiteID: r.SiteID, Name: r.Name, LastCycleAt: utc(r.LastCycleAt), LastInformedAt: utc(r.LastInformedAt),
			SweepEndedAt: utc(r.SweepEndedAt),
		}
		if r.LastErrorCode != "" {
			out[i].LastError = &RunError{Code: r.LastErrorCode, Message: r.LastErrorMessage}
		}
		if r.TrippedAt != nil {
			if out[i].Breaker, err = s.openBreaker(ctx, r); err != nil {
				return nil, err
			}
		}
		bySite[r.SiteID] = &out[i]
	}
	for _, n := range nodes {
		if o := bySite[n.SiteID]; o != nil {
			o.Nodes, o.Drifted, o.Unreconciled, o.OK = n.Nodes, n.Drifted, n.Unreconciled, n.Nodes-n.Drifted-n.Unreconciled
		}
	}
	for _, f := range findings {
		if o := bySite[f.SiteID]; o != nil {
			o.Findings.add(Severity(f.Severity), f.Findings)
		}
	}
	for i, r := range rows {
		out[i].judge(r.Status == string(site.Active), r.CreatedAt, Outcome(r.LastOutcome), s.settings.Every, now)
	}
	return out, nil
}

// openBreaker describes the open circuit breaker of a site.
func (s *Service) openBreaker(ctx context.Context, r reconciliationdb.ShowSitesRow) (*BreakerOverview, error) {
	names, err := s.reads.ShowNames(ctx, r.TrippedNodes)
	if err != nil {
		return nil, fmt.Errorf("read nodes of breaker: %w", err)
	}
	out := &BreakerOverview{
		Since: r.TrippedAt.UTC(), ConfirmedAt: utc(r.ConfirmedAt),
		Nodes: make([]BreakerNode, len(names)),
	}
	for i, n := range names {
		out.Nodes[i] = BreakerNode{NodeID: n.NodeID, Hostname: n.Hostname}
	}
	return out, nil
}

// Drifted reads the nodes that drift, those with the worst findings first.
func (s *Service) Drifted(ctx context.Context, f DriftFilter, page postgres.Slice[DriftPosition]) ([]Drift, error) {
	p := reconciliationdb.ShowDriftedParams{
		SiteID: optional(f.Site), Severity: wanted(f.Severity), Type: wanted(f.Type),
		AfterNode: page.After.Node.String(), AfterWorst: page.After.Worst, AfterHostname: page.After.Hostname,
		PageSize: page.Limit,
	}
	if f.Repeated {
		p.LeastOccurrence = repeatedFrom
	}
	rows, err := s.reads.ShowDrifted(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list nodes that drift: %w", err)
	}
	out, nodes, at := make([]Drift, len(rows)), make([]string, len(rows)), map[id.Node]int{}
	for i, r := range rows {
		out[i], nodes[i], at[r.NodeID] = driftFrom(reconciliationdb.ShowBoundRow(r)), r.NodeID.String(), i
	}
	present, err := s.reads.ShowPresentOf(ctx, nodes)
	if err != nil {
		return nil, fmt.Errorf("read findings of nodes: %w", err)
	}
	for _, r := range present {
		d := &out[at[r.ReconciliationFinding.NodeID]]
		d.Findings = append(d.Findings, shownFrom(reconciliationdb.ShowFindingRow(r)))
	}
	return out, nil
}

// DriftOf reads a node that is bound to a machine, whether it drifts or not,
// with its past findings.
func (s *Service) DriftOf(ctx context.Context, n id.Node) (Drift, error) {
	r, err := s.reads.ShowBound(ctx, n)
	if errors.Is(err, pgx.ErrNoRows) {
		return Drift{}, fault.New(fault.NotFound, "node_not_found", "there is no such node, or it is not a machine of MAAS").
			WithRemedy("list them with: gpuaas node list")
	}
	if err != nil {
		return Drift{}, fmt.Errorf("read node: %w", err)
	}
	out := driftFrom(r)
	present, err := s.reads.ShowPresentOf(ctx, []string{n.String()})
	if err != nil {
		return out, fmt.Errorf("read findings of node: %w", err)
	}
	for _, r := range present {
		out.Findings = append(out.Findings, shownFrom(reconciliationdb.ShowFindingRow(r)))
	}
	past, err := s.reads.ShowPastOf(ctx, reconciliationdb.ShowPastOfParams{NodeID: n, Limit: pastShown})
	if err != nil {
		return out, fmt.Errorf("read past findings of node: %w", err)
	}
	for _, r := range past {
		out.History = append(out.History, shownFrom(reconciliationdb.ShowFindingRow(r)))
	}
	return out, nil
}

// Findings reads findings, newest first.
func (s *Service) Findings(ctx context.Context, f FindingFilter, page postgres.Slice[FindingPosition]) (
	[]FindingShown, error,
) {
	rows, err := s.reads.ShowFindings(ctx, reconciliationdb.ShowFindingsParams{
		SiteID: optional(f.Site), NodeID: optional(f.Node), Type: wanted(f.Type), Severity: wanted(f.Severity),
		Status: wanted(f.Status),
		Since:  instant(f.Since), AfterAt: instant(page.After.At), AfterID: page.After.ID.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", err)
	}
	out := make([]FindingShown, len(rows))
	for i, r := range rows {
		out[i] = shownFrom(reconciliationdb.ShowFindingRow(r))
	}
	return out, nil
}

// FindingOf reads a finding.
func (s *Service) FindingOf(ctx context.Context, of id.Finding) (FindingShown, error) {
	r, err := s.reads.ShowFinding(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return FindingShown{}, fault.New(fault.NotFound, "not_found",
			"there is no such finding").WithRemedy("list them with: gpuaas drift findings")
	}
	if err != nil {
		return FindingShown{}, fmt.Errorf("read finding: %w", err)
	}
	return shownFrom(r), nil
}

// Runs reads runs, newest first.
func (s *Service) Runs(ctx context.Context, f RunFilter, page postgres.Slice[RunPosition]) ([]RunShown, error) {
	rows, err := s.reads.ShowRuns(ctx, reconciliationdb.ShowRunsParams{
		SiteID: optional(f.Site), Trigger: wanted(f.Trigger), AfterAt: instant(page.After.At),
		AfterID: page.After.ID.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	out := make([]RunShown, len(rows))
	for i, r := range rows {
		if out[i], err = runShownFrom(reconciliationdb.ShowRunRow(r)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// shownRun reads a run with the names that people know.
func (s *Service) shownRun(ctx context.Context, of id.ReconciliationRun) (RunShown, error) {
	r, err := s.reads.ShowRun(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return RunShown{}, runNotFound()
	}
	if err != nil {
		return RunShown{}, fmt.Errorf("read run: %w", err)
	}
	return runShownFrom(r)
}

func runShownFrom(r reconciliationdb.ShowRunRow) (RunShown, error) {
	run, err := runFrom(r.ReconciliationRun)
	return RunShown{Run: run, SiteName: r.SiteName, Hostname: r.Hostname}, err
}

// shownFrom returns a finding with the present name of its node.
func shownFrom(r reconciliationdb.ShowFindingRow) FindingShown {
	f := FindingShown{Finding: findingFrom(r.ReconciliationFinding), SiteName: r.SiteName}
	f.Hostname = r.ShownHostname
	return f
}

func driftFrom(r reconciliationdb.ShowBoundRow) Drift {
	return Drift{
		Node: r.NodeID, Hostname: r.Hostname, Site: r.SiteID, SiteName: r.SiteName, Status: node.Status(r.Status),
		Schedulable: r.Schedulable,
		HoldReason:  r.HoldReason, HeldBy: r.HeldBy, SystemID: r.MaasSystemID, MAASStatus: r.LastMaasStatus,
		Power:  r.LastMaasPowerState,
		ReadAt: r.LastReconciledAt, Drifted: r.DriftDetected, worst: r.Worst,
	}
}

// optional turns an id into a filter. A zero id filters nothing.
func optional[noun any](u id.Of[noun]) *string {
	if u.IsZero() {
		return nil
	}
	text := u.String()
	return &text
}

// wanted turns a word into a filter. An empty word filters nothing.
func wanted[word ~string](w word) *string {
	if w == "" {
		return nil
	}
	text := string(w)
	return &text
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
