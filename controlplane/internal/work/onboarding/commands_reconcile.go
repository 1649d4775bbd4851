package onboarding

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Under returns the onboardings at a site that have not ended.
func (s *Service) Under(ctx context.Context, at id.Site) ([]bringup.Working, error) {
	rows, err := s.reads.Under(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("list onboardings of site: %w", err)
	}
	out := make([]bringup.Working, len(rows))
	for i, r := range rows {
		out[i] = bringup.Working{
			Kind: family.Noun, ID: r.ID.String(), Node: r.NodeID, SystemID: r.MaasSystemID, Hostname: r.Hostname,
			Parked: job.Parking.PhaseOf(job.Status(r.Status)) == job.Parked, Goal: r.Hostname + " is a node in service",
		}
	}
	return out, nil
}

// Notice records what was observed about an onboarding, and wakes the
// onboarding if it waits. The same sighting twice in a row is recorded once.
func (s *Service) Notice(ctx context.Context, w bringup.Working, seen string, details map[string]any) error {
	return s.jobs.Notice(ctx, w.ID, seen, details)
}

// Reconcile ends a parked onboarding if what is observed now proves that its
// machine and node are as the onboarding was to make them: the agent, the
// hardware sync or the deployment came late. Otherwise it changes nothing. If the
// machine must be examined through its agent before it becomes a node, the
// onboarding is led on, once: the stage that examines it ends it.
func (s *Service) Reconcile(ctx context.Context, w bringup.Working) (reached bool, err error) {
	var done *bringup.Work
	leads, examines := false, false
	prove := func(ctx context.Context, o Onboarding, work *bringup.Work) (*job.Proof, error) {
		done, examines = work, work.Examines()
		if bringup.Unaccepted(o.ErrorCode) || examines && !leads {
			return nil, nil
		}
		p, missing, err := s.bringup.ProveInstalled(ctx, work)
		if err != nil || missing != "" {
			s.logger.DebugContext(ctx, "onboarding is not proven to have reached its goal", "onboarding_id", o.ID, "missing",
				missing, "error", err)
			return nil, err
		}
		return proofOf(work, p), nil
	}
	if reached, err = s.jobs.Reconcile(ctx, w.ID, prove); err != nil {
		return reached, err
	}
	if leads = examines; leads {
		return s.jobs.LeadOn(ctx, w.ID, prove)
	}
	if reached && (done.Facts.FirstBootPath != "" || done.Facts.HostKey != "") {
		if err := s.bringup.Forget(ctx, done); err != nil { // the token was used; a full decommission looks for it again
			s.logger.WarnContext(ctx, "first boot could not be removed", "onboarding_id", w.ID, "error", err)
		}
	}
	return reached, err
}

func proofOf(w *bringup.Work, p bringup.Proof) *job.Proof {
	out := &job.Proof{
		Said: fmt.Sprintf("%s runs %s as this onboarding asked for it, and its agent, version %s, was heard of at %s",
			w.Hostname, p.Image, p.AgentVersion, p.LastContactAt.UTC().Format(time.RFC3339)),
		Details: map[string]any{
			"system_id": w.SystemID, "image": p.Image, "agent_version": p.AgentVersion, "first_poll_at": p.FirstPollAt.UTC(),
			"last_contact_at": p.LastContactAt.UTC(),
		},
	}
	if p.LastSync != nil && w.Profile.Policy.RequireHWSync {
		out.Said += fmt.Sprintf("; MAAS heard of its hardware at %s", p.LastSync.UTC().Format(time.RFC3339))
		out.Details["last_sync"] = p.LastSync.UTC()
	}
	if !p.InstalledAt.IsZero() {
		out.Details["installed_at"] = p.InstalledAt.UTC()
	}
	return out
}
