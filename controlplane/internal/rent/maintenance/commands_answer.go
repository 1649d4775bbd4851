package maintenance

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance/internal/maintenancedb"
)

// Reply is what a tenant answers.
type Reply struct {
	Agrees bool
	Now    bool   // only with Agrees: at once, whatever the window
	Text   string // why, or what to mind
}

// Answer records what the tenant of an allocation answers. Who agrees to one that
// ends the allocation, and says now, gives the allocation back with that. The answer
// can be changed until the maintenance begins.
func (s *Service) Answer(ctx context.Context, of id.Maintenance, r Reply) (Maintenance, error) {
	r.Text = strings.TrimSpace(r.Text)
	return s.change(ctx, of, func(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (
		Maintenance, error,
	) {
		if err := m.takes(r, a); err != nil {
			return m, err
		}
		who := auth.From(ctx)
		if err := maintenancedb.New(tx).SetAnswer(ctx, maintenancedb.SetAnswerParams{
			ID: m.ID, AnsweredBy: who.ID, AnsweredByName: who.Name, Answer: r.Text, BeginsNow: r.Now,
		}); err != nil {
			return m, fmt.Errorf("note answer to maintenance %s: %w", m.ID, err)
		}
		event, action := Consent, "consent"
		if !r.Agrees {
			event, action = Decline, "decline"
		}
		after, err := s.answered(ctx, tx, m, a, event, r)
		if err != nil {
			return m, err
		}
		if err := record(ctx, tx, action, after, r.Text); err != nil {
			return m, err
		}
		if after.Kind.stays() || !r.Now {
			return after, nil
		}
		return s.endAllocation(ctx, tx, after, a, "its tenant agreed to it at once")
	})
}

// answered takes the edge of an answer. Who agrees again, now at once, takes none.
func (s *Service) answered(
	ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation, event Event, r Reply,
) (Maintenance, error) {
	if m.Status == Consented && r.Agrees {
		return Get(ctx, tx, m.ID)
	}
	message := "its tenant agrees to the maintenance"
	switch {
	case !r.Agrees:
		message = "its tenant declines the maintenance: " + r.Text
	case r.Now:
		message += ", at once"
	}
	return move(ctx, tx, m, a, event, message)
}

// takes refuses an answer that cannot be given.
func (m Maintenance) takes(r Reply, a allocation.Allocation) error {
	switch {
	case !m.waits():
		return fault.New(fault.Conflict, "maintenance_state_conflict",
			"the maintenance of %s is %s: no answer is needed any more", m.Hostname, m.Status).
			WithRemedy("see it: gpuaas maintenance show %s", m.ID)
	case !r.Agrees && !m.ConsentAsked:
		return fault.New(fault.Conflict, "consent_not_asked",
			"the maintenance of %s cannot be declined: you are told of it, not asked", m.Hostname).
			WithRemedy("save what is on the node before %s, or talk to the operators", stamp(m.DueAt))
	case r.Now && !m.Kind.stays() && a.Protected:
		return fault.New(fault.Conflict, "allocation_protected",
			"the allocation on %s is protected against its release: it cannot end now", m.Hostname).
			WithRemedy("lift that first: gpuaas allocation protect %s --off; or agree without \"now\", and it ends at %s", a.ID,
				stamp(m.DueAt))
	}
	return nil
}

// endAllocation releases the allocation of a maintenance that it has to end for. The
// node is set aside with that, until the maintenance is finished.
func (s *Service) endAllocation(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation, why string) (
	Maintenance, error,
) {
	after, err := s.allocations.ReleaseIn(ctx, tx, a, allocation.Leaving{
		Cause: allocation.ByAdmin, Reason: "announced maintenance: " + m.Reason,
	})
	if err != nil {
		return m, err
	}
	return move(ctx, tx, m, after, Vacate, "the allocation has ended for the maintenance: "+why)
}
