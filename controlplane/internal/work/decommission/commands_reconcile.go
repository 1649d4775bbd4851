package decommission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Under returns the operations on nodes of a site that have not ended.
func (s *Service) Under(ctx context.Context, at id.Site) ([]bringup.Working, error) {
	list, err := s.reads.Under(ctx, at.String())
	if err != nil {
		return nil, fmt.Errorf("list decommissions of site: %w", err)
	}
	out := make([]bringup.Working, len(list))
	for i, r := range list {
		out[i] = bringup.Working{
			Kind: s.family.Noun, ID: r.ID.String(), Node: r.NodeID, SystemID: r.MaasSystemID, Hostname: r.Hostname,
			Parked: job.Parking.PhaseOf(job.Status(r.Status)) == job.Parked,
			Goal:   fmt.Sprintf("%s is %s", r.Hostname, ends[Mode(r.Mode)]),
		}
	}
	return out, nil
}

// Notice records what was observed about an operation, and wakes the operation
// if it waits. The same sighting twice in a row is recorded once.
func (s *Service) Notice(ctx context.Context, w bringup.Working, seen string, details map[string]any) error {
	return s.runner.Notice(ctx, w.ID, seen, details)
}

// Reconcile resumes a parked operation, once, if what is observed now proves
// that the condition it was parked for is met. Otherwise it changes nothing. It
// cannot end the operation itself, because nobody can see the goal from
// outside: a node returns to service, and a certificate is issued, only by
// evidence of what was done to it. So the stages that produce evidence always
// run, and the operation becomes reconciled after them. Two cases qualify:
//
//   - a reimage whose machine runs the new system, and whose agent or hardware
//     sync came late: it is validated next;
//   - a full decommission that has released its machine, which is free and off
//     or gone, and whose node is permanently out of service: its secrets are
//     cleaned up next, and its certificate is issued if the evidence supports it.
//
// The other modes work on the node alone, through its agent: nothing that MAAS
// or the inventory shows proves their result.
func (s *Service) Reconcile(ctx context.Context, w bringup.Working) (reached bool, err error) {
	var done *bringup.Work
	reached, err = s.runner.LeadOn(ctx, w.ID,
		func(ctx context.Context, d Decommission, work *bringup.Work) (*job.Proof, error) {
			done = work
			proof, missing, err := s.prove(ctx, d, work)
			if err != nil || missing != "" {
				s.logger.DebugContext(ctx, "decommission is not proven to have come further", "decommission_id", d.ID, "missing",
					missing, "error", err)
				return nil, err
			}
			return proof, nil
		})
	if reached && (done.Facts.FirstBootPath != "" || done.Facts.HostKey != "") {
		if err := s.bringup.Forget(ctx, done); err != nil { // the token was used; a full decommission looks for it again
			s.logger.WarnContext(ctx, "first boot could not be removed", "decommission_id", w.ID, "error", err)
		}
	}
	return reached, err
}

func (s *Service) prove(ctx context.Context, d Decommission, w *bringup.Work) (p *job.Proof, missing string,
	err error,
) {
	switch {
	case !d.managed():
		return nil, "it is not a MAAS machine", nil
	case d.Mode == Reimage:
		return s.proveReimaged(ctx, d, w)
	case d.Mode == FullDecommission:
		return s.proveRemoved(ctx, d, w)
	}
	return nil, fmt.Sprintf("nothing that can be seen from outside proves a %s", d.Mode), nil
}

// proveReimaged covers the stages that reinstall the machine. What was found on
// the machine afterwards cannot be repaired by what MAAS shows.
func (s *Service) proveReimaged(ctx context.Context, d Decommission, w *bringup.Work) (p *job.Proof, missing string,
	err error,
) {
	at, _ := tables[d.Mode].Number(d.Stage)
	first, _ := tables[d.Mode].Number(bringup.DeployViaMAAS)
	last, _ := tables[d.Mode].Number(bringup.WaitForAgentEnrollment)
	if at < first || at > last || !released(w) || bringup.Unaccepted(d.ErrorCode) {
		return nil, "it was not parked while the machine was reinstalled", nil
	}
	seen, missing, err := s.bringup.ProveInstalled(ctx, w)
	if err != nil || missing != "" {
		return nil, missing, err
	}
	p = &job.Proof{
		Said: fmt.Sprintf("%s runs %s as this operation asked for it, and its agent, version %s, was heard of at %s",
			d.Hostname, seen.Image, seen.AgentVersion, seen.LastContactAt.UTC().Format(time.RFC3339)),
		Details: map[string]any{
			"system_id": w.SystemID, "image": seen.Image, "agent_version": seen.AgentVersion,
			"first_poll_at": seen.FirstPollAt.UTC(), "last_contact_at": seen.LastContactAt.UTC(),
		},
	}
	if seen.LastSync != nil && w.Profile.Policy.RequireHWSync {
		p.Details["last_sync"] = seen.LastSync.UTC()
	}
	return p, "", nil
}

// proveRemoved covers what follows the release: the node is permanently out of
// service, and nothing of it is left on a running machine.
func (s *Service) proveRemoved(ctx context.Context, d Decommission, w *bringup.Work) (p *job.Proof, missing string,
	err error,
) {
	at, _ := tables[d.Mode].Number(d.Stage)
	retiring, _ := tables[d.Mode].Number(StageRetire)
	if at < retiring || !released(w) || d.ErrorCode == "evidence_missing" {
		return nil, "it was not parked after its machine was released, or lacks evidence", nil
	}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return nil, "", err
	}
	if n.Status != node.Deleted && (n.Status != node.Retired || n.HeldBy != "" && n.HeldBy != d.holder()) {
		return nil, fmt.Sprintf("the node is %s", n.Status), nil
	}
	evidence, err := s.EvidenceOf(ctx, d.ID)
	if err != nil {
		return nil, "", err
	}
	if !slices.ContainsFunc(evidence, func(e Evidence) bool { return e.Kind == EvidenceRelease }) {
		return nil, "there is no evidence of the release", nil
	}
	if missing, err = s.bringup.ProveVacant(ctx, w); err != nil || missing != "" {
		return nil, missing, err
	}
	return &job.Proof{
		Said: fmt.Sprintf("%s is %s, and MAAS shows its machine as %s", d.Hostname, n.Status, w.Observed.Status),
		Details: map[string]any{
			"system_id": w.SystemID, "node_status": n.Status, "maas_status": w.Observed.Status,
			"maas_power": w.Observed.Power,
		},
	}, "", nil
}
