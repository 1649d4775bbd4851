package decommission

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

// WorkflowID is the id of the workflow of a decommission.
func WorkflowID(of id.Decommission) string { return "decommission-" + of.String() }

// Request begins an operation on a node. If the same operation is already under
// way, Request returns it and signals its workflow again, which restarts a lost
// workflow. made says whether the operation is new.
func (s *Service) Request(ctx context.Context, of id.Node, r Request) (d Decommission, made bool, err error) {
	if r, err = r.checked(); err != nil {
		return d, false, err
	}
	now, err := s.lookFor(ctx, of, r)
	if err != nil {
		return d, false, err
	}
	if now.does(r) && (r.PlanHash == "" || r.PlanHash == now.live.PlanHash) {
		if now.live.AdmittedAt == nil { // it waits for a place in its batch
			return *now.live, false, nil
		}
		err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.runner.Tell(ctx, tx, *now.live) })
		return *now.live, false, err
	}
	if err := now.refuse(r); err != nil {
		return d, false, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = s.begin(ctx, tx, now, r); err != nil {
			return err
		}
		rows, err := s.rows.Of(ctx, tx, []string{d.ID.String()})
		if err == nil {
			d = rows[0]
		}
		return err
	})
	if postgres.Violates(err, job.ClaimTaken) { // somebody else was faster: the error says who
		again, look := s.lookFor(ctx, of, r)
		if look != nil {
			return d, false, look
		}
		if again.does(r) {
			return *again.live, false, nil
		}
		if refused := again.refuse(r); refused != nil {
			return d, false, refused
		}
	}
	return d, err == nil, err
}

// begin adds an operation and lets it begin, as far as there is a place for it.
func (s *Service) begin(ctx context.Context, tx pgx.Tx, now situation, r Request) (Decommission, error) {
	d, err := s.insert(ctx, tx, now, r, id.DecommissionBatch{})
	if err != nil {
		return d, err
	}
	return d, s.rows.Admit(ctx, tx, "", s.now(), d.ID.String())
}

// Ready looks at a node for an operation that begins in a transaction of the caller,
// and returns what begins it there. That fails if the node has changed by then. It
// returns nil if something is in the way, and only Request can say what.
func (s *Service) Ready(ctx context.Context, of id.Node, r Request) (postgres.TxFunc, error) {
	r, err := r.checked()
	if err != nil {
		return nil, err
	}
	now, err := s.lookFor(ctx, of, r)
	if err != nil || now.refuse(r) != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.begin(ctx, tx, now, r)
		return err
	}, nil
}

// does says whether the node's current operation is the requested one. For an
// allocation that is whatever operation cleans up after it already.
func (s situation) does(r Request) bool {
	if t := s.tenancy; s.live != nil && t != nil && !r.CleanupOf.IsZero() {
		return t.ID == r.CleanupOf && t.Cleanup == s.live.ID
	}
	return s.live != nil && s.live.same(r) && (!s.managed() || s.profile == nil || s.live.Profile == s.profile.ID)
}

// same says whether an operation is the requested one.
func (d Decommission) same(r Request) bool {
	accepted := ""
	if a := d.accepts(); a != nil {
		accepted = a.ResidualRisk
	}
	return d.Mode == r.Mode && d.Erase == r.Erase && d.StorageCleanup == r.StorageCleanup &&
		(r.ResidualRisk == "" || r.WithoutAgent || r.ResidualRisk == accepted) &&
		r.WithoutAgent == d.withoutAgent() &&
		d.Facts.KeepsOut() == r.KeepOut && (d.Facts.Asked != nil && d.Facts.Asked.MatchHardware) == r.MatchHardware
}

// refuse returns why a request cannot begin, or nil if it can.
func (s situation) refuse(r Request) error {
	if blocks := s.blocks(r); len(blocks) > 0 {
		return blocks[0]
	}
	if r.PlanHash != "" && r.PlanHash != s.hash(r) {
		return stale()
	}
	return nil
}

// CodePlanStale is the code of a request that read something which changed before it
// was recorded. Asking again may do.
const CodePlanStale = "plan_stale"

func stale() error {
	return fault.New(fault.Conflict, CodePlanStale, "something that the plan depends on has changed since it was made").
		WithRemedy("plan again, read what has changed, and apply with the new hash")
}

// insert adds the row of an operation that nothing blocks.
func (s *Service) insert(ctx context.Context, tx pgx.Tx, now situation, r Request,
	batch id.DecommissionBatch,
) (Decommission, error) {
	now, err := now.again(ctx, tx, s.allocations)
	if err != nil {
		return Decommission{}, err
	}
	if err := now.refuse(r); err != nil {
		return Decommission{}, err
	}
	of := id.New[id.Decommission]()
	facts, err := bringup.FactsAsked(bringup.AskedFacts{KeepOut: r.KeepOut, MatchHardware: r.MatchHardware}).Encode()
	if err != nil {
		return Decommission{}, err
	}
	p := decommissiondb.InsertParams{
		Facts: facts,
		JobID: of, Erase: string(r.Erase), StorageCleanup: string(r.StorageCleanup), Reason: r.Reason,
		PlanHash: or(r.PlanHash, now.hash(r)),
		Origin:   string(now.node.Status), RequestedByName: auth.From(ctx).Name,
	}
	n := job.NewJob{
		ID: of.String(), Kind: string(r.Mode), Node: now.node.ID, Subject: now.node.Hostname, Stage: tables[r.Mode].First(),
		WorkflowID: WorkflowID(of),
		Claims:     []job.Claim{{Kind: claimNode, Key: now.node.ID.String()}},
	}
	if now.managed() {
		b := now.binding
		n.SitePlace = r.Mode.releases()
		n.Site, p.ProfileID, p.IpmiIp, p.PxeMac, p.MaasSystemID = b.Site, now.profile.ID, b.IPMIIP, b.PXEMAC, b.SystemID
	}
	made, err := s.rows.Insert(ctx, tx, job.Asked{At: s.now(), Batch: textOf(batch)}, []job.NewJob{n},
		job.Prepared(decommissiondb.Insert, p))
	if err != nil {
		return Decommission{}, err
	}
	d := made[0]
	if err := s.takeOver(ctx, tx, now.tenancy, d); err != nil {
		return d, err
	}
	if r.WithoutAgent {
		if d, err = s.passOver(ctx, tx, d, r); err != nil {
			return d, err
		}
	} else if r.ResidualRisk != "" && now.node.Compromised() {
		if d, err = s.accept(ctx, tx, d, now.node, r); err != nil {
			return d, err
		}
	}
	noted := map[string]any{
		"mode": r.Mode, "erase": r.Erase, "storage_cleanup": r.StorageCleanup, "node_id": now.node.ID,
		"hostname":    now.node.Hostname,
		"node_status": now.node.Status, "maas_system_id": p.MaasSystemID, "plan_hash": p.PlanHash,
		"workflow_id": n.WorkflowID, "residual_risk": r.ResidualRisk,
		"profile_id":          p.ProfileID,
		"keep_out_of_service": r.KeepOut, "require_hardware_match": r.MatchHardware, "without_agent": r.WithoutAgent,
	}
	if t := now.tenancy; t != nil {
		noted["allocation_id"], noted["ends_allocation"] = t.ID, t.Live
	}
	return d, audit.Record(ctx, tx, audit.Entry{
		Action: "decommission.request", TargetKind: "decommission", TargetID: of.String(), Result: audit.Success,
		Reason: r.Reason, Metadata: noted,
	})
}

// accept records with the operation that the requester accepts the risk of what
// root may have left, as far as it is known now.
func (s *Service) accept(ctx context.Context, tx pgx.Tx, d Decommission, n node.Node, r Request) (Decommission, error) {
	decided := Override{
		Stage: RootTaint, Reason: r.Reason, ResidualRisk: r.ResidualRisk,
		Actor: named(auth.From(ctx).Name, auth.From(ctx).ID), At: s.now().UTC(), Epoch: d.Epoch, RootAt: n.Root.At,
	}
	raw, err := json.Marshal([]Override{decided})
	if err != nil {
		return d, fmt.Errorf("encode override: %w", err)
	}
	if err := decommissiondb.New(tx).AddOverride(ctx,
		decommissiondb.AddOverrideParams{JobID: d.ID, Override: raw}); err != nil {
		return d, fmt.Errorf("keep override: %w", err)
	}
	d.Overrides = append(d.Overrides, decided)
	return d, nil
}

// passOver records with a new operation that it goes on without the agent.
func (s *Service) passOver(ctx context.Context, tx pgx.Tx, d Decommission, r Request) (Decommission, error) {
	for _, stage := range r.Mode.needsAgent() {
		d.Overrides = append(d.Overrides, Override{
			Stage: stage, Reason: r.Reason, ResidualRisk: r.ResidualRisk,
			Actor: named(auth.From(ctx).Name, auth.From(ctx).ID), At: s.now().UTC(), Epoch: d.Epoch,
			AgentGone: true,
		})
	}
	raw, err := json.Marshal(d.Overrides)
	if err != nil {
		return d, fmt.Errorf("encode overrides: %w", err)
	}
	if err := decommissiondb.New(tx).AddOverride(ctx, decommissiondb.AddOverrideParams{
		JobID: d.ID, Override: raw,
	}); err != nil {
		return d, fmt.Errorf("keep overrides: %w", err)
	}
	return d, nil
}
