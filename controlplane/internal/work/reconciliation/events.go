package reconciliation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/site"
)

// announce publishes an event about a finding once the transaction commits.
func announce(ctx context.Context, tx pgx.Tx, t eventwire.Type, f Finding) error {
	err := outbox.Append(ctx, tx, outbox.Event{
		Type: t, AggregateKind: "reconciliation_finding",
		AggregateID: f.ID.String(), Payload: told(f),
	})
	if err != nil {
		return fmt.Errorf("announce finding %s: %w", f.ID, err)
	}
	return nil
}

// told is a finding in the form that events carry.
func told(f Finding) eventwire.Drift {
	out := eventwire.Drift{
		FindingID: f.ID.String(), Finding: string(f.Type), Severity: string(f.Severity), Status: string(f.Status),
		SiteID:   f.Site.String(),
		Hostname: f.Hostname, MAASSystemID: f.SystemID, Expected: f.Expected, Observed: f.Observed, Message: f.Message,
		Action:   string(f.Action),
		Withheld: f.Withheld, Occurrence: int(f.Occurrence), ClosedBecause: f.ClosedBecause,
	}
	names := FindingShown{Finding: f, SiteName: f.Site.String()} // commands take ids as well as names
	if !f.Node.IsZero() {
		out.NodeID = f.Node.String()
		if f.Hostname == "" {
			names.Hostname = out.NodeID
		}
	}
	for _, a := range names.Advised() {
		if a.Command != "" {
			out.Remedy = a.Command
			break
		}
	}
	return out
}

// announceBreaker publishes that the circuit breaker of a site opened or
// closed.
func announceBreaker(ctx context.Context, tx pgx.Tx, t eventwire.Type, at site.Site, since time.Time, nodes []id.Node,
	message string,
) error {
	p := siteTold(at, since, message)
	for _, n := range nodes {
		p.NodeIDs = append(p.NodeIDs, n.String())
	}
	if t == eventwire.ReconciliationBreakerOpened {
		p.Severity, p.Remedy = string(Critical), (&SiteOverview{Name: at.Name, State: SiteBreakerOpen}).remedy()
	}
	return announceSite(ctx, tx, t, p)
}

// announceHearing publishes that the MAAS of a site has not answered for long,
// or that it answers again.
func announceHearing(ctx context.Context, tx pgx.Tx, t eventwire.Type, at site.Site, since time.Time,
	message string,
) error {
	p := siteTold(at, since, message)
	if t == eventwire.ReconciliationSiteUnheard {
		p.Severity, p.Remedy = string(Warning), (&SiteOverview{Name: at.Name, State: SiteUnheard}).remedy()
	}
	return announceSite(ctx, tx, t, p)
}

func siteTold(at site.Site, since time.Time, message string) eventwire.SiteReconciliation {
	return eventwire.SiteReconciliation{
		SiteID: at.ID.String(), Name: at.Name, Severity: string(Info), Since: since.UTC(),
		Message: message,
	}
}

func announceSite(ctx context.Context, tx pgx.Tx, t eventwire.Type, p eventwire.SiteReconciliation) error {
	err := outbox.Append(ctx, tx, outbox.Event{Type: t, AggregateKind: "site", AggregateID: p.SiteID, Payload: p})
	if err != nil {
		return fmt.Errorf("announce reconciliation of site %s: %w", p.Name, err)
	}
	return nil
}
